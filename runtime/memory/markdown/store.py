"""The markdown store: `{root}/{agent}/memory.md` and `{root}/{agent}/logs/YYYY-MM-DD.md` (first design, section 1).

Markdown is the truth: there is no other copy, and a person's edits are read as they are. Long-term items are a set in
their section, so an existing one is not written again; episodic ones are entries of the day's log.

An editor takes no lock. A save between our reading and our replacing of a file is noticed, and our change is repeated
on the saved file. Two windows remain, which no rename can close: the instant between our last check and our rename, and
the time in which an editor shows an old text before saving it over ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from runtime.clock import SYSTEM, Clock
from runtime.memory.errors import NoSuchItem
from runtime.memory.files.store import FileStore
from runtime.memory.files.writable import unwritable
from runtime.memory.item import Item, valid_agent
from runtime.memory.markdown.agent_memory import AgentMemory, MarkdownEdit, WriteRequest, WriteResult
from runtime.memory.markdown.compaction import compact
from runtime.memory.markdown.reader import MarkdownReader
from runtime.memory.store import Capability
from runtime.memory.store_types import Compaction, StorePlace, StoreProblem


class MarkdownOptions(BaseModel):
    """The markdown store has no options."""

    model_config = ConfigDict(frozen=True, extra="forbid")


async def open_markdown(place: StorePlace) -> MarkdownStore:
    """Open the store of this row. Nothing is created on disk before the first write."""
    store = MarkdownStore(place.path, place.clock)
    await store.sweep()
    return store


class MarkdownStore(FileStore[MarkdownReader, AgentMemory]):
    """A folder of Markdown files."""

    capabilities: frozenset[Capability] = frozenset({"edit", "delete", "compact", "remove"})

    def __init__(self, root: Path, clock: Clock = SYSTEM) -> None:
        super().__init__(root, clock, MarkdownReader)

    @property
    def identity(self) -> str:
        return f"markdown:{self.root}"

    async def sweep(self) -> None:
        """Finish deletions that a crash interrupted."""
        await self._in_thread(self._reader.sweep)

    def _writer(self, agent_id: str) -> AgentMemory:
        return AgentMemory(self.root, valid_agent(agent_id), self._clock)

    async def _perform(self, writer: AgentMemory, requests: Sequence[WriteRequest]) -> Sequence[WriteResult]:
        outcomes = await self._write(writer.perform, requests)
        for growth in writer.appends():
            self._notify_append(growth)
        return outcomes

    async def _append(self, items: tuple[Item, ...], _gates: Mapping[str, str]) -> tuple[Item, ...]:
        return await self._put_each(items, lambda agent, own: self._batcher(agent).put(tuple(own)))

    async def _edit(self, memory_id: str, text: str, agent_id: str | None) -> Item:
        agent = await self._agent_of(memory_id, agent_id)
        outcome = await self._batcher(agent).put(MarkdownEdit(memory_id, text))
        assert isinstance(outcome, Item)
        return outcome

    async def _delete(self, memory_id: str, agent_id: str | None) -> None:
        agent = await self._agent_of(memory_id, agent_id)
        await self._batcher(agent).put(MarkdownEdit(memory_id, None))

    def _problems(self) -> tuple[StoreProblem, ...]:
        agents = () if unwritable(self.root) else self._reader.agents()
        faults = ((folder, unwritable(folder)) for folder in (self.root, *(self.root / agent for agent in agents)))
        return tuple(
            StoreProblem(str(folder), f"it cannot be written to: {fault}") for folder, fault in faults if fault
        )

    async def _remove(self, agent_id: str) -> bool:
        batcher = self._batcher(valid_agent(agent_id))
        await batcher.drain()
        return await self._write(self._writer(agent_id).remove)

    async def _compact(self, agent_id: str, older_than: date) -> Compaction:
        return await self._write(compact, self._writer(agent_id), older_than)

    async def _forget_user(self, user_id: str, agent_id: str) -> int:
        return await self._write(self._writer(agent_id).forget_user, user_id)

    async def close(self) -> None:
        await self._drain()
        self._threads.shutdown(wait=False)

    async def _agent_of(self, memory_id: str, agent_id: str | None) -> str:
        if agent_id is not None:
            return valid_agent(agent_id)
        async for item in self.scan():
            if item.memory_id == memory_id:
                return item.agent_id
        raise NoSuchItem(f"nothing in {self.root} has the id {memory_id}")
