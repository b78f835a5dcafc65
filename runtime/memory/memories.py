"""The open memories of one program, and which of them each agent writes to."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Final

from dslc.program import Program
from runtime.errors import UsageError
from runtime.memory.collection.options import STORE
from runtime.memory.open_memory import OpenMemory

DEFAULT_MEMORY: Final = "default"


class Memories(Mapping[str, OpenMemory]):
    """Memories by name. `collection` may add one; otherwise they never change."""

    def __init__(
        self,
        program: Program,
        opened: Mapping[str, OpenMemory],
        *,
        fallback: str | None,
        open_collection: Callable[[], Awaitable[OpenMemory]],
        lock: asyncio.Lock,
    ) -> None:
        """`fallback`: name of the memory of agents whose block names none. `open_collection`: opens and activates the
        collection that needs no block; called at most once at a time, with `lock` held."""
        self._program = program
        self._opened = dict(opened)
        self._fallback = fallback
        self._open_collection = open_collection
        self._lock = lock

    def __getitem__(self, name: str) -> OpenMemory:
        return self._opened[name]

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._opened))

    def __len__(self) -> int:
        return len(self._opened)

    def name_of(self, agent: str, webhook: str | None = None) -> str:
        """Return the name of the memory that a run writes to: the webhook's, else the agent's, else the only or default
        one. An agent without a block has that of the first webhook that runs it."""
        return declared_memory(self._program, agent, webhook) or self._fallback or DEFAULT_MEMORY

    def of(self, agent: str, webhook: str | None = None) -> OpenMemory:
        """Return the memory that a run writes to, see `name_of`."""
        return self._opened[self.name_of(agent, webhook)]

    async def collection(self) -> OpenMemory:
        """Return the collection that needs no block; the first call opens it. Raises UsageError where a block of its
        name declares another store, SymbiontError if it cannot be opened."""
        async with self._lock:
            found = self._opened.get(STORE)
            if found is None:
                # It is active before it is added: a cancelled caller leaves no half-open collection here.
                found = await self._open_collection()
                self._opened = {**self._opened, found.name: found}
            elif found.collection is None:
                raise UsageError(
                    f"the memory {found.name} is not a collection, and the program declares none",
                    hint="add a block such as `memory notes { store collection }`",
                )
            return found


def declared_memory(program: Program, agent: str, webhook: str | None = None) -> str | None:
    """Return the name of the memory that the program declares for this agent, run by this webhook if by any."""
    source = program.webhooks.get(webhook) if webhook else None
    if agent in program.agents:
        return source.memory if source and source.memory else program.agents[agent].memory
    source = source or next((each for each in program.webhooks.values() if each.wakes == agent), None)
    return source.memory if source else None
