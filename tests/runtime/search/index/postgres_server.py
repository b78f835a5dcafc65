"""A real PostgreSQL with pgvector for tests of the index: a database for the tests of a process, a schema for each."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import asyncpg
import pytest

NAMED = "SYMBIONT_TEST_PGVECTOR"
"""Names a server to be used in place of the tests' own, for instance one with a later pgvector."""


def server(request: pytest.FixtureRequest) -> str:
    """The URL of the server; asked for outside of any event loop."""
    return os.environ.get(NAMED) or str(request.getfixturevalue("postgres"))


_MADE: dict[str, str] = {}


async def database(url: str) -> str:
    """The URL of this process's database on that server."""
    if url not in _MADE:
        name = f"indexes_{uuid4().hex}"
        # Of the plain one: nobody else looks at that.
        await execute(url, f"CREATE DATABASE {name} TEMPLATE template0")
        _MADE[url] = urlunsplit(urlsplit(url)._replace(path=f"/{name}"))
    return _MADE[url]


@asynccontextmanager
async def options(url: str) -> AsyncIterator[dict[str, Any]]:
    """What an index is opened with that has a schema for itself on that server; it goes away with the server."""
    yield {"url": await database(url), "schema": f"test_{uuid4().hex}", "pool": 2}


async def execute(url: str, statement: str, *values: Any) -> Any:
    """Run a statement; the first value of its first row."""
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(statement, *values)
    finally:
        await connection.close()
