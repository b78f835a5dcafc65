"""Base class of stores of files: a folder for each agent under one root, read and written in threads."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

import structlog

from runtime.clock import Clock, utc
from runtime.memory.errors import FsyncFailed, StoreError
from runtime.memory.files.reader import FileReader
from runtime.memory.item import Item, valid_agent
from runtime.memory.store import Store
from runtime.memory.store_types import Inspection, ItemLocation, Part, Scan, StoreProblem, StoreStats
from runtime.memory.write_batcher import WriteBatcher

_THREADS = 8
_WRITERS = 256  # cached agents
_log = structlog.get_logger(__name__)
T = TypeVar("T")
R = TypeVar("R", bound=FileReader)
W = TypeVar("W")


class FileStore(Store, Generic[R, W]):
    """A store of files, with a reader for all agents and a writer for each. One event loop may use it, any number of
    processes may share the folder."""

    def __init__(self, root: Path, clock: Clock, reader: Callable[[Path], R]) -> None:
        super().__init__(clock)
        self.root = root.resolve()
        self._reader = reader(self.root)
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix=type(self).__name__)
        self._writers: dict[str, tuple[W, WriteBatcher[Any, Any]]] = {}
        self._fatal: FsyncFailed | None = None
        self.had_items = False
        """True if items were stored in the folder: it is not made again if it is gone."""

    # Reading

    async def agents(self) -> tuple[str, ...]:
        return await self._in_thread(self._reader.agents)

    async def _wanted_agents(self, agent_id: str | None) -> tuple[str, ...]:
        return await self.agents() if agent_id is None else (valid_agent(agent_id),)

    async def scan(self, wanted: Scan | None = None) -> AsyncIterator[Item]:
        wanted = wanted or Scan()
        left = -1 if wanted.limit is None else wanted.limit
        alone = wanted.agent_id is not None
        for agent in await self._wanted_agents(wanted.agent_id) if left != 0 else ():
            batches = await self._read_or_skip(partial(self._reader.batches, agent, wanted), alone=alone)
            self._after_listing()
            for batch in batches:
                for item in await self._read_or_skip(batch, alone=alone):
                    if wanted.wants(item):
                        left -= 1
                        yield item
                        if left == 0:
                            return

    async def _read_or_skip(self, read: Callable[[], Sequence[T]], *, alone: bool) -> Sequence[T]:
        try:
            return await self._in_thread(read)
        except StoreError as error:
            if alone:
                raise
            _log.warning("memory_unreadable", error=error.line())
            return ()

    async def parts(self, agent_id: str | None = None) -> tuple[Part, ...]:
        found = await self._in_thread(self._reader.parts_of, await self._wanted_agents(agent_id), agent_id is not None)
        self._after_listing()
        return found

    async def read(self, part: Part) -> Sequence[tuple[Item, ItemLocation]]:
        valid_agent(part.agent_id)
        return await self._in_thread(self._reader.read, part)

    def _after_listing(self) -> None:
        """Called after the files of agents were listed."""

    async def locate(self, items: Sequence[Item]) -> dict[str, ItemLocation]:
        return await self._in_thread(self._reader.locate, tuple(items))

    async def inspect(self, agent_id: str, day: date | None = None) -> Inspection:
        return await self._in_thread(self._reader.inspect, valid_agent(agent_id), day or utc(self._clock.now()).date())

    async def stats(self, agent_id: str | None = None) -> StoreStats:
        return await self._in_thread(self._reader.stats, None if agent_id is None else valid_agent(agent_id))

    async def ready(self) -> tuple[StoreProblem, ...]:
        if self._fatal is not None:
            return (StoreProblem(str(self.root), self._fatal.line()),)
        try:
            await self._in_thread(self._check_folder)
        except StoreError as error:
            return (StoreProblem(str(self.root), error.line()),)
        return await self._in_thread(self._problems)

    def _check_folder(self) -> None:
        """Raise StoreError if the folder had items and is gone."""
        if self.had_items and not self.root.exists():
            raise StoreError(
                f"the folder {self.root} had items and is gone",
                hint="put it back; to go on without them, create it empty",
            )

    def _problems(self) -> tuple[StoreProblem, ...]:
        """Return the problems that `ready` reports; called in a thread."""
        raise NotImplementedError

    # Writing

    @abstractmethod
    def _writer(self, agent_id: str) -> W:
        """Return a new writer of an agent's folder."""

    @abstractmethod
    async def _perform(self, writer: W, requests: Sequence[Any]) -> Sequence[Any]:
        """Do these requests together; return an outcome for each, or an exception that fails it alone."""

    def _is_evictable(self, writer: W) -> bool:
        """True if an idle writer has nothing more to do."""
        return True

    def _batcher(self, agent_id: str) -> WriteBatcher[Any, Any]:
        """Return the batcher of requests for an agent's folder."""
        found = self._writers.pop(agent_id, None)
        if found is None:
            writer = self._writer(agent_id)
            found = writer, WriteBatcher(f"memory of {agent_id}", partial(self._perform, writer))
        self._writers[agent_id] = found
        for name in list(self._writers)[: max(0, len(self._writers) - _WRITERS)]:
            old, batcher = self._writers[name]
            if batcher.idle and self._is_evictable(old):
                del self._writers[name]
        return found[1]

    async def _put_each(
        self, items: Sequence[Item], put: Callable[[str, Sequence[Item]], Awaitable[Sequence[Item]]]
    ) -> tuple[Item, ...]:
        """Call `put` with the items of each agent, at the same time; return what was written. Raises the first error
        after all have ended."""
        by_agent: dict[str, list[Item]] = defaultdict(list)
        for item in items:
            by_agent[item.agent_id].append(item)
        outcomes = await asyncio.gather(*(put(agent, own) for agent, own in by_agent.items()), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        return tuple(item for own in outcomes if not isinstance(own, BaseException) for item in own)

    async def _drain(self) -> None:
        for _, batcher in tuple(self._writers.values()):
            await batcher.drain()

    async def _write(self, write: Callable[..., T], *arguments: Any) -> T:
        """Call `write` in a thread. After an fsync has failed, nothing is written any more: FsyncFailed is raised."""
        if self._fatal is not None:
            raise self._fatal
        try:
            return await self._in_thread(self._guarded_write, write, *arguments)
        except FsyncFailed as error:
            self._fatal = error
            raise

    def _guarded_write(self, write: Callable[..., T], *arguments: Any) -> T:
        self._check_folder()
        result = write(*arguments)
        self.had_items = self.had_items or self.root.exists()
        return result

    async def _in_thread(self, function: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, partial(function, *arguments))
