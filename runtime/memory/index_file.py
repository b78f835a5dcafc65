"""Where the index over a store is, and how it is opened."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from pathlib import Path

import structlog

from dslc.blocks import Choice
from runtime.clock import Clock
from runtime.memory.indexer import Indexer
from runtime.memory.store import Store
from runtime.search.errors import IndexFailed
from runtime.search.index import open_index

log = structlog.get_logger("symbiont.memory")


async def open_indexer(
    store: Store,
    choice: Choice | None,
    folder: Path | None,
    clock: Clock,
    options: Mapping[str, object] | None = None,
) -> Indexer:
    """The index over a store, in a file of its own in `folder`. One that cannot be made is kept in memory instead, and
    a problem. Raises UsageError."""
    given = options if options is not None else {} if choice is None else choice.options
    if folder is None:
        return Indexer(store, await open_index(choice, None, given), clock)
    try:
        await asyncio.to_thread(folder.mkdir, mode=0o700, parents=True, exist_ok=True)
        return Indexer(store, await open_index(choice, index_file(store, folder), given), clock)
    except IndexFailed as error:
        reason = error.line()
    except OSError as error:
        reason = f"{folder}: {(error.strerror or str(error)).lower()}"
    log.error("an index cannot be opened and is kept in memory until the next start", reason=reason)
    problem = f"the index is kept in memory until the next start: {reason}"
    return Indexer(store, await open_index(choice, None, given), clock, problem=problem)


def index_file(store: Store, folder: Path) -> Path:
    """The file of a store's index: named for what the store physically is."""
    row, _, _ = store.identity.partition(":")
    return folder / f"{row}-{hashlib.sha256(store.identity.encode()).hexdigest()[:16]}.db"
