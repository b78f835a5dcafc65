"""A collection whose memory summarizes with a server that speaks Ollama."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from runtime.database.connection import Database
from tests.clocks import ManualClock
from tests.conftest import KEY
from tests.databases import with_keys
from tests.runtime.api.app import App
from tests.runtime.models.services import Service, serving
from tests.runtime.outbound.test_http import Sleepless
from tests.runtime.tools.collection.summarize.summarizing import app_of, block, by_ollama


@pytest.fixture
async def ollama() -> AsyncIterator[Service]:
    async with serving("ollama") as running:
        yield running


@pytest.fixture
async def sqlite(tmp_path: Path) -> AsyncIterator[Database]:
    opened = await Database.open(with_keys(tmp_path / "symbiont.db", KEY), KEY)
    yield opened
    await opened.close()


@pytest.fixture
def clock() -> ManualClock:
    """A clock that does not wait before a call is repeated."""
    return Sleepless()


@pytest.fixture
async def app(sqlite: Database, clock: ManualClock, tmp_path: Path, ollama: Service) -> AsyncIterator[App]:
    async with app_of(sqlite, clock, tmp_path, block(model=by_ollama(ollama))) as opened:
        yield opened
