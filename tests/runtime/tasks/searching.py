"""The search of tasks, opened without a daemon."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from dslc.blocks.memory import Memory
from dslc.blocks.variant import Variant
from runtime.clock import Clock
from runtime.database.connection import Database
from runtime.identity.caller import Caller
from runtime.memory.indexing.index_file import open_indexer
from runtime.memory.open_memory import OpenMemory
from runtime.search.embedding.embedder import Embedder
from runtime.search.embedding.hashing import HashingEmbedder
from runtime.tasks.index import TaskItems
from runtime.tasks.store import TaskStore
from runtime.tools import TOOLS
from tests.runtime.api.app import App


class TaskSearch:
    """The tasks of a database with their index."""

    def __init__(self, database: Database, clock: Clock, memory: OpenMemory, items: TaskItems) -> None:
        self.memory = memory
        self.store = TaskStore(database, clock, per_hour=0)
        self.store.on_change = items.note_change
        self._app = App(database, clock)
        self._app.tasks = self.store
        self._app.task_search = memory

    async def call(self, tool: str, user_id: str = "owner", **given: Any) -> dict[str, Any]:
        """Return the result of a tool for a user."""
        context = self._app.context(Caller(user_id, frozenset({"write"})))
        return (await TOOLS[tool].call(context, given)).model_dump()

    async def find(self, query: str, user_id: str = "owner", **given: Any) -> list[str]:
        """Return the titles that a search finds."""
        found = await self.call("task_search", user_id, query=query, **given)
        assert found["total"] >= len(found["tasks"])
        return [task["title"] for task in found["tasks"]]


@asynccontextmanager
async def searching(
    database: Database, folder: Path, clock: Clock, embedder: Embedder | None = None
) -> AsyncIterator[TaskSearch]:
    """Yield the search over the tasks of a database, with its index in `folder`."""
    items = TaskItems(database, clock)
    indexer = await open_indexer(items, None, folder, clock, database=database)
    block = Memory(name="tasks", store=Variant(name="tasks"))
    memory = OpenMemory(block, indexer, embedder, folder=None, clock=clock)
    await memory.activate()
    try:
        yield TaskSearch(database, clock, memory, items)
    finally:
        await memory.close()


def hashing() -> Embedder:
    """Return an embedding that needs no model."""
    return HashingEmbedder(64)
