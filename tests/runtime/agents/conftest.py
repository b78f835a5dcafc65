"""Fixtures for tests of agents."""

from __future__ import annotations

import pytest

from tests.lanes import LONG
from tests.runtime.daemon.running import on_postgres


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=LONG)])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The kind of the database that is opened in the test."""
    if request.param == "postgresql":
        for name, value in on_postgres(request.getfixturevalue("postgres_url")).items():
            monkeypatch.setenv(name, value)
    return str(request.param)
