"""The newest items of a memory: from its index, or from its store while the index is incomplete."""

from __future__ import annotations

import structlog

from runtime.memory.indexing.entries import item_of
from runtime.memory.item import Item
from runtime.memory.open_memory import OpenMemory
from runtime.memory.store_types import Position, Scan
from runtime.search.entry import EntryFilter
from runtime.search.errors import IndexFailed

log = structlog.get_logger("symbiont.memory")


async def newest(
    memory: OpenMemory, wanted: EntryFilter, limit: int, *, before: Position | None = None, prefix: str = ""
) -> list[Item]:
    """Return the same items as `Store.newest`, from the index if it is up to date. Raises StoreError."""
    problems = await memory.catch_up(wanted.agent)
    if not problems:
        try:
            # An entry contains its whole item.
            return [item_of(entry) for entry in await memory.indexer.index.newest(wanted, limit, before, prefix)]
        except IndexFailed as error:
            problems = [error.line()]
    log.debug("memory_listed_from_store", memory=memory.name, reason=problems[0])
    return await memory.store.newest(scan_of(wanted), limit, before=before, prefix=prefix)


def scan_of(wanted: EntryFilter) -> Scan:
    """Return the scan that yields the items that pass a filter of the index; `current` is not considered."""
    return Scan(
        agent_id=wanted.agent,
        user_id=wanted.user,
        project_id=wanted.project,
        memory_type=wanted.type,  # type: ignore[arg-type]  # every caller sets a MemoryType
        source_uri=wanted.source,
        tags=wanted.tags_all,
        tags_any=wanted.tags_any,
        since=wanted.since,
        until=wanted.until,
        subject=wanted.subject,
        changes_of=wanted.changes_of,
    )
