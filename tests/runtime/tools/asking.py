"""An app with collections, in which tests call tools as different users."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from dslc.blocks.memory import Memory
from dslc.blocks.variant import Variant
from runtime.database.connection import Database
from runtime.errors import SymbiontError
from runtime.identity.caller import OWNER_CALLER, Caller
from runtime.mcp.backend import BackendFailure
from runtime.memory.indexing.progress import Progress
from runtime.tools import TOOLS
from runtime.tools.context import no_progress
from runtime.tools.failure import Failure, failure_of
from runtime.tools.resources import as_json, read
from tests.clocks import ManualClock
from tests.conftest import KEY
from tests.databases import with_keys
from tests.runtime.api.app import App

ADA = Caller("ada", frozenset({"write"}))
BOB = Caller("bob", frozenset({"write"}))
READER = Caller("ada", frozenset({"read"}))
HASHING = Variant(name="hashing", options={"dimension": 64})


def collection(name: str, **options: Any) -> Memory:
    """Return a collection memory with small chunks."""
    store = Variant(name="collection", options={"chunk_size": 100, "chunk_overlap": 40, **options})
    return Memory(name=name, store=store, embedding=HASHING)


def line(failure: Failure) -> str:
    """Return the failure in one line, as a model reads it."""
    return BackendFailure(failure.json()).line()


class Asked:
    """Calls tools in an app."""

    def __init__(self, app: App) -> None:
        self.app = app

    async def __call__(self, name: str, caller: Caller = ADA, progress: Progress = no_progress, /, **given: Any) -> Any:
        """Call a tool and return its result as JSON."""
        result = await TOOLS[name].call(self.app.context(caller, progress), given)
        return result.model_dump(mode="json")

    async def failure(self, name: str, caller: Caller = ADA, /, **given: Any) -> Failure:
        """Call a tool that must fail and return the error."""
        try:
            answered = await self(name, caller, **given)
        except SymbiontError as error:
            return failure_of(error, TOOLS[name], caller)
        raise AssertionError(answered)

    async def read(self, path: str, caller: Caller = ADA) -> Any:
        """Return the content of a resource."""
        return as_json(await read(self.app.context(caller), path))

    async def texts(self, caller: Caller = ADA, /, **given: Any) -> list[str]:
        """Return the texts that a search finds, in alphabetical order."""
        return sorted(hit["text"] for hit in (await self("search", caller, limit=100, **given))["hits"])


@asynccontextmanager
async def asking(folder: Path, *blocks: Memory, database: Database | None = None) -> AsyncIterator[Asked]:
    """Yield an app with these memories open; without any, with one in Markdown files only."""
    opened = database or await Database.open(with_keys(folder / "symbiont.db", KEY), KEY)
    async with App(opened, ManualClock()).remembering(folder, *blocks) as app:
        yield Asked(app)
    if database is None:
        await opened.close()


__all__ = ["ADA", "BOB", "OWNER_CALLER", "READER", "Asked", "asking", "collection", "line"]
