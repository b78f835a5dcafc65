"""The markdown store: `{root}/{agent}/memory.md` and `{root}/{agent}/logs/YYYY-MM-DD.md` (first design, section 1).

Markdown is the truth: there is no other copy, and a person's edits are read as they are. Long-term items are a set in
their section, so an existing one is not written again; episodic ones are entries of the day's log.

An editor takes no lock. A save between our reading and our replacing of a file is noticed, and our change is repeated
on the saved file. Two windows remain, which no rename can close: the instant between our last check and our rename, and
the time in which an editor shows an old text before saving it over ours.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, defaultdict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import date
from functools import partial
from pathlib import Path
from typing import TypeVar

import structlog
from pydantic import BaseModel, ConfigDict

from runtime.clock import SYSTEM, Clock
from runtime.memory.agent_name import legal
from runtime.memory.errors import NoSuchItem, StoreError
from runtime.memory.files.store import FileStore
from runtime.memory.files.writable import unwritable
from runtime.memory.item import Item
from runtime.memory.markdown.agent_memory import AgentMemory, MarkdownEdit, WriteRequest, WriteResult
from runtime.memory.markdown.compaction import compact
from runtime.memory.markdown.reader import MarkdownReader
from runtime.memory.markdown.user_removal import forget_user
from runtime.memory.store import Capability
from runtime.memory.store_types import Compaction, ItemLocation, Part, Scan, StorePlace, StoreProblem
from runtime.memory.write_batcher import WriteBatcher

_AGENTS = 256  # cached agents
_log = structlog.get_logger(__name__)
T = TypeVar("T")


class MarkdownOptions(BaseModel):
    """The markdown store has no options."""

    model_config = ConfigDict(frozen=True, extra="forbid")


async def open_markdown(place: StorePlace) -> MarkdownStore:
    """Open the store of this row. Nothing is created on disk before the first write."""
    store = MarkdownStore(place.path, place.clock)
    await store.sweep()
    return store


class MarkdownStore(FileStore[MarkdownReader]):
    """A folder of Markdown files."""

    capabilities: frozenset[Capability] = frozenset({"edit", "delete", "compact", "remove"})

    def __init__(self, root: Path, clock: Clock = SYSTEM) -> None:
        super().__init__(root, clock, MarkdownReader)
        self._groups: OrderedDict[str, WriteBatcher[WriteRequest, WriteResult]] = OrderedDict()

    @property
    def identity(self) -> str:
        return f"markdown:{self.root}"

    async def sweep(self) -> None:
        """Finish deletions that a crash interrupted."""
        await self._in_thread(self._reader.sweep)

    async def _append(self, items: tuple[Item, ...], _gates: Mapping[str, str]) -> tuple[Item, ...]:
        by_agent: dict[str, list[Item]] = defaultdict(list)
        for item in items:
            by_agent[item.agent_id].append(item)
        written = await asyncio.gather(
            *(self._group(agent).put(tuple(own)) for agent, own in by_agent.items()), return_exceptions=True
        )
        result: list[Item] = []
        for outcome in written:
            if isinstance(outcome, BaseException):
                raise outcome
            assert isinstance(outcome, tuple)
            result += outcome
        return tuple(result)

    async def _edit(self, memory_id: str, text: str, agent_id: str | None) -> Item:
        agent = await self._whose(memory_id, agent_id)
        outcome = await self._group(agent).put(MarkdownEdit(memory_id, text))
        assert isinstance(outcome, Item)
        return outcome

    async def _delete(self, memory_id: str, agent_id: str | None) -> None:
        agent = await self._whose(memory_id, agent_id)
        await self._group(agent).put(MarkdownEdit(memory_id, None))

    async def scan(self, wanted: Scan | None = None) -> AsyncIterator[Item]:
        wanted = wanted or Scan()
        agents = await self.agents() if wanted.agent_id is None else (legal(wanted.agent_id),)
        left = wanted.limit if wanted.limit is not None else -1
        alone = wanted.agent_id is not None
        for agent in agents:
            for file in await self._readable(partial(self._reader.files, agent, wanted), alone=alone):
                for item in await self._readable(file.read, alone=alone):
                    if left == 0:
                        return
                    if wanted.wants(item):
                        left -= 1
                        yield item

    async def _readable(self, read: Callable[[], Sequence[T]], *, alone: bool) -> Sequence[T]:
        try:
            return await self._in_thread(read)
        except StoreError as error:
            if alone:
                raise
            _log.warning("memory_unreadable", error=error.line())
            return ()

    def _problems(self) -> tuple[StoreProblem, ...]:
        agents = () if unwritable(self.root) else self._reader.agents()
        faults = ((folder, unwritable(folder)) for folder in (self.root, *(self.root / agent for agent in agents)))
        return tuple(
            StoreProblem(str(folder), f"it cannot be written to: {fault}") for folder, fault in faults if fault
        )

    async def parts(self, agent_id: str | None = None) -> tuple[Part, ...]:
        agents = await self.agents() if agent_id is None else (legal(agent_id),)
        return await self._in_thread(self._reader.parts_of, agents, agent_id is not None)

    async def read(self, part: Part) -> Sequence[tuple[Item, ItemLocation]]:
        legal(part.agent_id)
        return await self._in_thread(self._reader.read, part)

    async def _remove(self, agent_id: str) -> bool:
        group = self._group(legal(agent_id))
        await group.drain()
        return await self._writing(AgentMemory(self.root, agent_id, self._clock).remove)

    async def _compact(self, agent_id: str, older_than: date) -> Compaction:
        agent_memory = AgentMemory(self.root, legal(agent_id), self._clock)
        return await self._writing(partial(compact, agent_memory, older_than))

    async def _forget_user(self, user_id: str, agent_id: str) -> int:
        agent_memory = AgentMemory(self.root, legal(agent_id), self._clock)
        return await self._writing(partial(forget_user, agent_memory, user_id))

    async def close(self) -> None:
        for group in tuple(self._groups.values()):
            await group.drain()
        self._threads.shutdown(wait=False)

    def _group(self, agent_id: str) -> WriteBatcher[WriteRequest, WriteResult]:
        group = self._groups.get(agent_id)
        if group is None:
            agent_memory = AgentMemory(self.root, agent_id, self._clock)

            async def write(works: Sequence[WriteRequest]) -> Sequence[WriteResult]:
                outcomes = await self._writing(partial(agent_memory.perform, works))
                for growth in agent_memory.appends():
                    self._notify_append(growth)
                return outcomes

            group = self._groups[agent_id] = WriteBatcher(f"memory of {agent_id}", write)
        self._groups.move_to_end(agent_id)
        for name in list(self._groups)[: max(0, len(self._groups) - _AGENTS)]:
            if self._groups[name].idle:
                del self._groups[name]
        return group

    async def _whose(self, memory_id: str, agent_id: str | None) -> str:
        if agent_id is not None:
            return legal(agent_id)
        async for item in self.scan():
            if item.memory_id == memory_id:
                return item.agent_id
        raise NoSuchItem(f"nothing in {self.root} has the id {memory_id}")
