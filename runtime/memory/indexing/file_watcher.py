"""Notices changes of a memory's files: people edit them while a daemon runs."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Final

import structlog
from watchfiles import Change, awatch

from runtime.memory.indexing.indexer import Indexer

log = structlog.get_logger("symbiont.memory")

# As for programs: two quiet steps end a burst of changes; a burst is handled after a second at the latest.
STEP_MS: Final = 150
DEBOUNCE_MS: Final = 1000
# Interval of checks of the folder itself: replacing it raises no event.
TICK_MS: Final = 1000


class FileWatcher:
    """Reports the agents whose files were changed by any process."""

    def __init__(self, indexer: Indexer, folder: Path) -> None:
        self._indexer = indexer
        self._folder = folder
        self.blind = False
        """True if the folder cannot be watched; then all parts are compared regularly."""

    async def run(self) -> None:
        """Watch for as long as the system allows it."""
        while not self.blind:
            seen = _identity(self._folder)
            if seen is None:
                # Nothing has been indexed yet; our own writes are reported to the indexer directly.
                await asyncio.sleep(TICK_MS / 1000)
                continue
            try:
                await self._watch(seen)
            except FileNotFoundError:
                continue
            except (OSError, RuntimeError, UnicodeEncodeError) as error:  # watchfiles' own error is a RuntimeError
                # Usually the system's limit of inotify watches (inotify(7), max_user_watches). Or the path is not
                # UTF-8, which the library does not take.
                self.blind = True
                self._indexer.news.set()
                log.warning(
                    "memory_not_watched",
                    folder=str(self._folder),
                    reason=str(error),
                )

    async def _watch(self, seen: tuple[int, int]) -> None:
        """Watch until the folder is replaced."""
        first = True
        bursts = awatch(
            self._folder,
            watch_filter=self._is_item_path,
            step=STEP_MS,
            debounce=DEBOUNCE_MS,
            rust_timeout=TICK_MS,
            yield_on_timeout=True,
            ignore_permission_denied=True,
        )
        async with contextlib.aclosing(bursts):
            async for burst in bursts:
                agents = {self._agent(path) for _, path in burst}
                if first:
                    # Changes before the watch began are in no burst.
                    agents.update(await self._indexer.agents())
                    first = False
                if agents:
                    self._indexer.mark_changed(agents)
                if _identity(self._folder) != seen:
                    return

    def _is_item_path(self, _change: Change, path: str) -> bool:
        """True unless the path is a temporary file, a lock, or the folder itself, which is checked anyway."""
        parts = Path(path).relative_to(self._folder).parts
        return bool(parts) and not any(part.startswith(".") for part in parts)

    def _agent(self, path: str) -> str:
        """Return the agent of a path: every store has a folder for each agent."""
        return Path(path).relative_to(self._folder).parts[0]


def _identity(folder: Path) -> tuple[int, int] | None:
    try:
        status = folder.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
