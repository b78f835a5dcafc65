"""The newest items of a memory: asked of its index, or found in its store while the index lacks something."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from heapq import nlargest

import structlog

from runtime.memory.indexing.entries import item_of
from runtime.memory.item import Item
from runtime.memory.open_memory import OpenMemory
from runtime.memory.store import Scan
from runtime.search.entry import Filter
from runtime.search.errors import IndexFailed

Before = tuple[datetime, str]
"""The time and the id of the last item that was shown."""

_WINDOWS = (timedelta(days=1), timedelta(days=8), timedelta(days=64), timedelta(days=512))
"""How far back the store is read for the newest items before all of it is."""
_EARLIEST = datetime.min.replace(tzinfo=UTC)
_TICK = timedelta(microseconds=1)
log = structlog.get_logger("symbiont.memory")


async def newest(
    memory: OpenMemory, wanted: Filter, limit: int, now: datetime, *, before: Before | None = None, begins: str = ""
) -> list[Item]:
    """Up to `limit` (1 or more) of the items that are wanted, newest first; of one time the greatest id first.

    `before`: only what comes after that item in this order. `begins`: only those whose id begins so. What was written
    before the call, by us or by a person, counts. Raises StoreError as `Store.scan` does.
    """
    lacks = await memory.catch_up(wanted.agent)
    if not lacks:
        try:
            found = await memory.indexer.index.newest(wanted, limit, before, begins)
            # An entry is the whole of its item, and the index holds what the store does.
            return [item_of(entry) for entry in found]
        except IndexFailed as error:
            lacks = [error.line()]
    log.debug("the newest items are looked for in the store", memory=memory.name, reason=lacks[0])
    return await from_store(memory, wanted, limit, now, before=before, begins=begins)


def _scan(wanted: Filter, before: Before | None) -> Scan:
    until = wanted.until
    if before is not None and before[0] < datetime.max.replace(tzinfo=UTC):
        last = before[0] + _TICK
        until = last if until is None else min(until, last)
    return Scan(
        agent_id=wanted.agent,
        user_id=wanted.user,
        project_id=wanted.project,
        memory_type=wanted.type,  # type: ignore[arg-type]  # the caller had one
        source_uri=wanted.source,
        tags=wanted.tags_all,
        tags_any=wanted.tags_any,
        since=wanted.since,
        until=until,
    )


async def from_store(
    memory: OpenMemory, asked: Filter, limit: int, now: datetime, *, before: Before | None = None, begins: str = ""
) -> list[Item]:
    """As `newest`, without the index: read no further back than it takes to find as many."""
    wanted = _scan(asked, before)
    begin = wanted.until or now
    # An id says nothing about when: all of it has to be read.
    edges = () if begins else tuple(begin - window for window in _WINDOWS if begin - _EARLIEST > window)
    found: list[Item] = []
    end = wanted.until
    for since in (*(edge for edge in edges if wanted.since is None or edge > wanted.since), wanted.since):
        part = wanted.model_copy(update={"since": since, "until": end})
        found += await _scanned(memory, part, before, begins)
        if len(found) >= limit:
            break
        end = since
    return nlargest(limit, found, key=key_of)


async def _scanned(memory: OpenMemory, wanted: Scan, before: Before | None, begins: str) -> list[Item]:
    return [
        item
        async for item in memory.store.scan(wanted)
        if (before is None or key_of(item) < before) and item.memory_id.startswith(begins)
    ]


def key_of(item: Item) -> Before:
    """What the order goes by, the greatest first."""
    return item.timestamp, item.memory_id
