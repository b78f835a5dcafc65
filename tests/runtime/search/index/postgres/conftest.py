"""A PostgreSQL server with pgvector, and the options of an index in a schema of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.runtime.search.index.postgres import postgres_server


@pytest.fixture
def server(request: pytest.FixtureRequest) -> str:
    return postgres_server.server(request)


@pytest.fixture
async def options(server: str) -> AsyncIterator[dict[str, Any]]:
    async with postgres_server.options(server) as given:
        yield given
