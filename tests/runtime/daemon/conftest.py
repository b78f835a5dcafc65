"""Fixtures for tests of the daemon."""

from __future__ import annotations

import pytest

from tests.lanes import LONG
from tests.runtime.daemon.running import on_postgres


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=LONG)])
def environ(request: pytest.FixtureRequest) -> dict[str, str]:
    """The daemon's environment variables: with SQLite in its root, and with PostgreSQL.

    `make test` leaves PostgreSQL to `make test-long`: the statements are tried on both by the tests of each package.
    """
    return {} if request.param == "sqlite" else on_postgres(str(request.getfixturevalue("postgres_url")))
