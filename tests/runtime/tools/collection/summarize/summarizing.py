"""Notes of a day in a collection, and calls that summarize them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dslc.blocks.memory import Memory, Summarize
from dslc.blocks.variant import Variant
from runtime.database.connection import Database
from runtime.errors import SymbiontError
from runtime.identity.caller import Caller, Scope
from runtime.tools import TOOLS
from runtime.tools.failure import Failure, failure_of
from tests.clocks import ManualClock
from tests.runtime.api.app import App
from tests.runtime.models.services import Service

DAY = {"start": "2026-02-14T00:00:00Z", "end": "2026-02-14T23:59:59Z"}
NOTES = [
    "The deploy of the web shop failed. The disk of db-1 was full.",
    "Ada freed the disk of db-1!",
    "The deploy was made again. The disk of db-1 was full.",
]
EXTRACT = " ".join(NOTES)


def block(*, model: Variant | None = None, name: str = "notes", **summarize: Any) -> Memory:
    return Memory(
        name=name,
        store=Variant(name="collection"),
        embedding=Variant(name="hashing"),
        summarize=Summarize(model=model, **summarize),
    )


def by_ollama(service: Service, **options: Any) -> Variant:
    return Variant(name="ollama", options={"url": service.url, **options})


@asynccontextmanager
async def app_of(database: Database, clock: ManualClock, root: Path, *blocks: Memory) -> AsyncIterator[App]:
    async with App(database, clock).remembering(root, *blocks) as opened:
        yield opened


async def call(app: App, tool: str, given: Mapping[str, Any], user: str = "owner", *scopes: Scope) -> dict[str, Any]:
    context = app.context(Caller(user, frozenset(scopes or ("read", "write", "admin"))))
    return (await TOOLS[tool].call(context, given)).model_dump(mode="json")


async def summarize(app: App, user: str = "owner", *scopes: Scope, **given: Any) -> dict[str, Any]:
    return await call(app, "summarize", {"time_range": DAY, **given}, user, *scopes)


async def push(app: App, *texts: str, user: str = "owner", **given: Any) -> list[str]:
    """Push items a minute apart and return their ids."""
    given = {"memory_type": "episodic", "tags": ["note", "daily"], **given}
    ids: list[str] = []
    for text_ in texts:
        pushed = await call(app, "push", {"text": text_, **given}, user, "write", "read")
        ids += pushed["memory_ids"]
        later(app, 60)
    return ids


def later(app: App, seconds: float) -> None:
    """Advance the clock."""
    assert isinstance(app.clock, ManualClock)
    app.clock.advance(seconds)


async def failing(asked: Awaitable[Any], caller: Caller | None = None) -> Failure:
    with pytest.raises(SymbiontError) as caught:
        await asked
    return failure_of(caught.value, TOOLS["summarize"], caller)
