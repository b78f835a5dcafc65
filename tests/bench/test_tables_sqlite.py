"""The benchmark of users' tables on SQLite runs on a small scale."""

from __future__ import annotations

import os

import pytest

from bench.tables.sqlite import measure, table
from tests.lanes import LONG

pytestmark = LONG


@pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser sees how much memory the workers use")
async def test_statements_are_set_beside_those_of_sqlite3() -> None:
    result = await measure(20, 2)
    for kind in ("select", "insert"):
        for side in ("bare", "product"):
            assert result["times"][kind][side]["p50"] > 0
    # A worker for each user; other tests of this process may have processes too.
    assert result["memory"]["processes"] >= 4
    assert result["memory"]["all"] > result["memory"]["daemon"] > 0
    assert "ms added to select at p50" in table(result)
