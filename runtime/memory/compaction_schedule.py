"""Daily compaction: promotes marked bullets of logs to long-term memory, and deletes old logs."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

import structlog

from runtime.clock import Clock, utc
from runtime.memory.errors import FsyncFailed, StoreError, Unsupported
from runtime.memory.open_memory import OpenMemory

log = structlog.get_logger("symbiont.memory")

DAY: Final = 86_400
COMPACTION_AT: Final = 3 * 3600
"""Seconds after midnight, UTC. Each memory is compacted at its own time in the following hour."""
SPREAD: Final = 3600
TICK_SECONDS: Final = 60.0


class Compactor:
    """Compacts every memory once a day at its own time, or at start if that time has passed."""

    def __init__(
        self,
        pinned: Callable[[], AbstractAsyncContextManager[Mapping[str, OpenMemory]]],
        clock: Clock,
        *,
        read: Callable[[], Mapping[str, Any]],
        write: Callable[[dict[str, float]], None],
    ) -> None:
        """`pinned` yields the memories of the running program and keeps them open. `read` and `write`: when each store
        was compacted last (Unix seconds, by identity), preserved over restarts."""
        self._pinned = pinned
        self._clock = clock
        self._write = write
        self._last = {key: float(at) for key, at in read().items() if isinstance(at, int | float)}

    async def run(self) -> None:
        """Run for ever. Raises FsyncFailed."""
        while True:
            async with self._pinned() as memories:
                for memory in tuple(memories.values()):
                    if self._is_due(memory):
                        await self._compact(memory)
            await self._clock.sleep(TICK_SECONDS)

    def _is_due(self, memory: OpenMemory) -> bool:
        """True if a scheduled time has passed since the last compaction. A recorded time in the future comes from
        another clock."""
        now = self._clock.now()
        last = self._last.get(memory.store.identity)
        return last is None or last > now or last < _last_moment(memory.store.identity, now)

    async def _compact(self, memory: OpenMemory) -> None:
        now = self._clock.now()
        flushed = deleted = failed = 0
        for agent in await _agents(memory):
            try:
                done = await memory.compact(agent, utc(now))
            except FsyncFailed:
                raise
            except Unsupported:
                break
            except StoreError as error:
                failed += 1
                log.error("compaction_failed", memory=memory.name, agent=agent, reason=error.line())
            else:
                flushed, deleted = flushed + done.flushed, deleted + done.deleted
                for problem in done.problems:
                    log.warning("log_not_compacted", memory=memory.name, file=problem.file, reason=problem.message)
        if flushed or deleted or failed:
            log.info("memory_compacted", memory=memory.name, flushed=flushed, deleted=deleted, failed=failed)
        self._last[memory.store.identity] = now
        try:
            # Written with an fsync, which takes long on a slow disk.
            await asyncio.to_thread(self._write, dict(self._last))
        except OSError as error:
            # If it is not recorded, compaction runs once more after the next start, which does no harm.
            log.warning("compaction_times_not_saved", reason=error.strerror)


async def _agents(memory: OpenMemory) -> tuple[str, ...]:
    try:
        return await memory.store.agents()
    except FsyncFailed:
        raise
    except StoreError as error:
        log.error("compaction_failed", memory=memory.name, reason=error.line())
        return ()


def _last_moment(identity: str, now: float) -> float:
    """Return the latest scheduled time of this store, in Unix seconds."""
    spread = int.from_bytes(hashlib.sha256(os.fsencode(identity)).digest()[:4]) % SPREAD
    at = COMPACTION_AT + spread
    return now - (now - at) % DAY
