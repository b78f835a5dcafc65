"""One PostgreSQL database of a plain owner for all tests here; each test has users of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from uuid import uuid4

import pytest

from tests.clocks import ManualClock
from tests.conftest import own_server
from tests.runtime.tables.postgres.opened import Opened, Place, open_tables, owned_database


@pytest.fixture(scope="session")
def place(postgres: str) -> Iterator[Place]:
    """A database whose owner may create roles, and is no superuser."""
    with owned_database(postgres) as made:
        yield made


@pytest.fixture(scope="session")
def place_alone(request: pytest.FixtureRequest) -> Iterator[Place]:
    """Such a database on a server that no other test uses: its roles, rights and locks change by one test only."""
    server = own_server(uuid4().hex)
    with owned_database(server or request.getfixturevalue("postgres")) as made:
        yield made


@pytest.fixture
async def opened(place: Place, clock: ManualClock) -> AsyncIterator[Opened]:
    """Open tables in that database, with two new users."""
    async with open_tables(place.url, clock) as tables:
        yield tables
