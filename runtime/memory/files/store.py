"""Base class of stores of files: a folder for each agent under one root, read and written in threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from runtime.clock import Clock, utc
from runtime.memory.agent_name import legal
from runtime.memory.errors import FsyncFailed, StoreError
from runtime.memory.item import Item
from runtime.memory.store import Store
from runtime.memory.store_types import Inspection, ItemLocation, StoreProblem, StoreStats

_THREADS = 8
T = TypeVar("T")


class FileReader(Protocol):
    """Reads the files under a root, in threads. Each method does what the one of `Store` promises."""

    def agents(self) -> tuple[str, ...]: ...

    def locate(self, items: Sequence[Item]) -> dict[str, ItemLocation]: ...

    def inspect(self, agent_id: str, day: date) -> Inspection: ...

    def stats(self, agent_id: str | None) -> StoreStats: ...


R = TypeVar("R", bound=FileReader)


class FileStore(Store, Generic[R]):
    """A store of files. One event loop may use it, any number of processes may share the folder."""

    def __init__(self, root: Path, clock: Clock, reader: Callable[[Path], R]) -> None:
        super().__init__(clock)
        self.root = root.resolve()
        self._reader = reader(self.root)
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix=type(self).__name__)
        self._fatal: FsyncFailed | None = None
        self.had_items = False
        """True if items were stored in the folder: it is not made again if it is gone."""

    async def agents(self) -> tuple[str, ...]:
        return await self._in_thread(self._reader.agents)

    async def locate(self, items: Sequence[Item]) -> dict[str, ItemLocation]:
        return await self._in_thread(self._reader.locate, tuple(items))

    async def inspect(self, agent_id: str, day: date | None = None) -> Inspection:
        return await self._in_thread(self._reader.inspect, legal(agent_id), day or utc(self._clock.now()).date())

    async def stats(self, agent_id: str | None = None) -> StoreStats:
        return await self._in_thread(self._reader.stats, None if agent_id is None else legal(agent_id))

    async def ready(self) -> tuple[StoreProblem, ...]:
        if self._fatal is not None:
            return (StoreProblem(str(self.root), self._fatal.line()),)
        try:
            await self._in_thread(self._refuse_gone)
        except StoreError as error:
            return (StoreProblem(str(self.root), error.line()),)
        return await self._in_thread(self._problems)

    def _refuse_gone(self) -> None:
        """Raise StoreError if the folder had items and is gone."""
        if self.had_items and not self.root.exists():
            raise StoreError(
                f"the folder {self.root} had items and is gone",
                hint="put it back; to go on without them, create it empty",
            )

    def _problems(self) -> tuple[StoreProblem, ...]:
        """Return what `ready` does; called in a thread."""
        raise NotImplementedError

    async def _writing(self, write: Callable[..., T], *arguments: Any) -> T:
        """Call `write` in a thread. After an fsync has failed, nothing is written any more: FsyncFailed is raised."""
        if self._fatal is not None:
            raise self._fatal
        try:
            return await self._in_thread(self._written, write, *arguments)
        except FsyncFailed as error:
            self._fatal = error
            raise

    def _written(self, write: Callable[..., T], *arguments: Any) -> T:
        self._refuse_gone()
        result = write(*arguments)
        self.had_items = self.had_items or self.root.exists()
        return result

    async def _in_thread(self, function: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, partial(function, *arguments))
