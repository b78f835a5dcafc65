"""Background tasks of one memory: the store's own, and keeping its index in step."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Final

from runtime.clock import Clock
from runtime.memory.event_wait import happens
from runtime.memory.indexing.file_watcher import FileWatcher
from runtime.memory.indexing.indexer import Indexer

GATHER_SECONDS: Final = 0.05
"""Seconds for which appended items are collected before they are indexed together."""
LOOK_SECONDS: Final = 300.0
"""Seconds between comparisons of all parts without any sign of a change."""
UNWATCHED_SECONDS: Final = 30.0
"""The same if the system cannot watch the folders."""
FIRST_WAIT: Final = 1.0
LONGEST_WAIT: Final = 60.0
"""Seconds until the next try after the index could not be written, doubled each time."""


def background_tasks(
    name: str, indexer: Indexer, folder: Path | None, clock: Clock
) -> list[tuple[str, Coroutine[Any, Any, None]]]:
    """Return the background tasks of a memory's store and index, with their names. `folder`: of the store's files; None
    if it has none, and then other writers are noticed by comparing regularly."""
    watch = None if folder is None else FileWatcher(indexer, folder)
    background_tasks = [
        (f"index of {name}", keep_index(indexer, watch, clock)),
        (f"embedding of {name}", indexer.queue.keep()),
    ]
    return background_tasks if watch is None else [*background_tasks, (f"edits in {name}", watch.run())]


async def keep_index(indexer: Indexer, watch: FileWatcher | None, clock: Clock) -> None:
    """Bring everything up to date, then every change, for ever. Raises FsyncFailed."""
    wait = FIRST_WAIT
    whole = True
    while True:
        if whole:
            # Another daemon may have left entries in a shared index without vectors or token bits.
            indexer.queue.more()
        if whole or indexer.changed.is_tracking:
            await indexer.sync(complete=indexer.changed.overdue)
        else:
            await indexer.settle()
            for agent in sorted(indexer.take_changed_agents()):
                await indexer.sync(agent)
        if indexer.failure is not None:
            await clock.sleep(wait)
            wait, whole = min(wait * 2, LONGEST_WAIT), True
            continue
        wait = FIRST_WAIT
        seconds = UNWATCHED_SECONDS if watch is None or watch.blind else LOOK_SECONDS
        whole = not await happens(indexer.news, seconds, clock)
        if not whole:
            await asyncio.sleep(GATHER_SECONDS)
            indexer.news.clear()
