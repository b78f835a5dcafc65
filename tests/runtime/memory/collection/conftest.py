from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import uuid4

import pytest

from dslc.blocks.memory import Memory
from dslc.blocks.variant import Variant
from runtime.database.connection import Database
from runtime.memory.collection.store import CollectionStore
from tests.clocks import ManualClock


def declared(name: str = "notes", **fields: object) -> Memory:
    """A collection memory as a program declares it."""
    return Memory.model_validate({"name": name, "store": Variant(name="collection"), **fields})


@pytest.fixture
async def store(database: Database, clock: ManualClock) -> AsyncIterator[CollectionStore]:
    """An empty collection memory in a database of either kind, at 2026-02-14T10:30:00Z."""
    opened = CollectionStore(f"notes-{uuid4().hex[:8]}", database, clock)
    yield opened
    await opened.close()
