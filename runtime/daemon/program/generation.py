"""What one program became: routes, memories, and what could not be mounted. Policy only; the pool holds files."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from dslc.blocks.agent import Agent
from dslc.blocks.choice import Choice
from dslc.blocks.memory import Memory
from dslc.program import Program
from runtime.daemon.program.memory_opening import Opening
from runtime.daemon.program.resource_pool import Held
from runtime.daemon.program.secret_resolution import Resolution, resolve
from runtime.errors import UsageError
from runtime.memory import path_of
from runtime.memory.collection.options import STORE
from runtime.memory.collection.row_codec import holds
from runtime.memory.open_memory import OpenMemory
from runtime.webhooks.routing.route import Mount, RouteTable, mount

DEFAULT_MEMORY = "default"
COLLECTION = Memory(name=STORE, store=Choice(name=STORE))
"""The collection that is there without a block. It is no agent's unless a block names it."""

AT_A_TIME = 8
"""Webhooks that are mounted before requests have their turn: filters take up to a millisecond each to compile."""

ENDED_AT_A_TIME = 32
"""Objects of a replaced generation that are freed before requests have their turn."""


@dataclass(eq=False, slots=True, weakref_slot=True)
class Generation:
    """One program, ready to serve. Read-only but for the count of those who work on it."""

    number: int
    program: Program
    mounts: Mapping[str, Mount]
    table: RouteTable
    memories: Mapping[str, OpenMemory]
    folders: tuple[Path, ...]
    """Where memories are kept: never watched as programs."""
    resolution: Resolution
    fallback: str | None
    """The memory of agents whose block names none; None when every agent has one."""
    concurrency: Mapping[str, int]
    """How many deliveries of a webhook may run at the same time, where it says so."""
    warnings: tuple[str, ...]
    _held: Held
    _pins: int = field(default=0, init=False)
    _retired: bool = field(default=False, init=False)

    async def collection(self, opening: Opening, activate: Callable[[OpenMemory], Awaitable[None]]) -> OpenMemory:
        """The collection that is there without a block, opened and activated unless it is one of `memories`. Raises
        UsageError where a block of its name declares something else; whatever opening a memory raises."""
        found = self.memories.get(COLLECTION.name)
        if found is None:
            found = await opening.memory(COLLECTION, self.resolution, self._held)
            # A caller that is cancelled in between leaves nothing that others would take for a memory in use.
            await activate(found)
            self.memories = MappingProxyType({**self.memories, found.name: found})
        elif found.block.store.name != COLLECTION.store.name:
            raise UsageError(
                f"the memory {found.name} is no collection, and the program declares none",
                hint="add a block such as `memory notes { store collection }`",
            )
        return found

    @asynccontextmanager
    async def pinned(self) -> AsyncIterator[Generation]:
        """Keep this generation's resources open while inside, even when a reload replaces it."""
        self._pins += 1
        try:
            yield self
        finally:
            self._pins -= 1
            await self._drain()

    async def retire(self) -> None:
        """Let go of the resources as soon as nobody works on this generation any more."""
        self._retired = True
        # Thousands of routes that were freed at once would hold up the event loop, so they outlive what holds them.
        parts = [*self.mounts.values(), *self.program.webhooks.values(), *self.resolution.values.values()]
        weakref.finalize(self, _end, asyncio.get_running_loop(), parts).atexit = False
        await self._drain()

    async def _drain(self) -> None:
        if self._retired and not self._pins:
            try:
                for memory in self.memories.values():
                    await memory.finish()
            finally:
                await self._held.give_back()

    def agent(self, name: str) -> Agent | None:
        """The agent `name`: declared, or the recorder that a webhook wakes without a declaration; else None."""
        declared = self.program.agents.get(name)
        if declared is not None:
            return declared
        named = any(entry.agent == name for entry in self.mounts.values())
        return Agent(name=name) if named else None

    @property
    def agents(self) -> frozenset[str]:
        """The names that `agent` knows."""
        return frozenset((*self.program.agents, *filter(None, (entry.agent for entry in self.mounts.values()))))

    def memory_name(self, agent: str, webhook: str | None = None) -> str:
        """Which memory a run writes to: the webhook's, else its agent's, else the only or default one. An agent without
        a block has that of the first webhook which wakes it."""
        return _own_memory(self.program, agent, webhook) or self.fallback or DEFAULT_MEMORY


def _end(loop: asyncio.AbstractEventLoop, parts: list[object]) -> None:
    """Free `parts` a few at a time; called in whichever thread was the last to let go of their generation."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(_end_some, loop, parts)


def _end_some(loop: asyncio.AbstractEventLoop, parts: list[object]) -> None:
    del parts[-ENDED_AT_A_TIME:]
    if parts:
        loop.call_soon(_end_some, loop, parts)


def _own_memory(program: Program, agent: str, webhook: str | None = None) -> str | None:
    """The memory that the program names for this agent, woken by this webhook if by any."""
    source = program.webhooks.get(webhook) if webhook else None
    if agent in program.agents:
        return source.memory if source and source.memory else program.agents[agent].memory
    source = source or next((each for each in program.webhooks.values() if each.wakes == agent), None)
    return source.memory if source else None


async def build(
    number: int,
    program: Program,
    previous: Generation | None,
    *,
    opening: Opening,
    again: Callable[[str], bool] = lambda _: True,
) -> Generation:
    """The generation of `program`, beside the running one. Raises SymbiontError when a store cannot be opened.

    `again`: which secrets to read again; the others stay as they are in `previous`.
    """
    before = previous.resolution if previous else Resolution()
    declared, fallback = await _memories(program, previous, opening)
    # The one that is opened later has its secrets then.
    whole = map(opening.environment.filled, (*declared.values(), COLLECTION))
    resolution = await resolve(program, whole, before, opening.context, again=again)
    mounts = await _mounts(program, resolution)
    table, concurrency, warnings = await asyncio.to_thread(_tables, program, resolution, mounts)
    held = Held()
    try:
        memories = {name: await opening.memory(block, resolution, held) for name, block in declared.items()}
    except BaseException:
        await held.give_back()
        raise
    return Generation(
        number=number,
        program=program,
        mounts=MappingProxyType(mounts),
        table=table,
        memories=MappingProxyType(memories),
        folders=tuple(memory.folder for memory in memories.values() if memory.folder is not None),
        resolution=resolution,
        fallback=fallback,
        concurrency=concurrency,
        warnings=(
            *warnings,
            *(f"memory {each.name}: {reason}" for each in memories.values() for reason in each.not_opened),
        ),
        _held=held,
    )


async def _mounts(program: Program, resolution: Resolution) -> dict[str, Mount]:
    """Every webhook of the program, mounted or not and why; thousands take seconds, in which others have their turn."""
    mounts: dict[str, Mount] = {}
    for name, webhook in program.webhooks.items():
        mounts[name] = mount(
            webhook,
            origin=program.origins.get(("webhook", name), ""),
            secrets=resolution.of(webhook),
            problem=resolution.problem(webhook),
            options=resolution.options(webhook),
        )
        if len(mounts) % AT_A_TIME == 0:
            await asyncio.sleep(0)
    return mounts


async def _memories(
    program: Program, previous: Generation | None, opening: Opening
) -> tuple[dict[str, Memory], str | None]:
    """The declared memories and the built-in ones, and which of them is the fallback."""
    declared = dict(program.memories)
    fallback = await asyncio.to_thread(fallback_of, program, opening.root)
    if fallback == DEFAULT_MEMORY:
        declared.setdefault(DEFAULT_MEMORY, Memory(name=DEFAULT_MEMORY))
    if COLLECTION.name not in declared:
        opened = previous is not None and COLLECTION.name in previous.memories
        if opened or await holds(opening.context.database, COLLECTION.name):
            declared[COLLECTION.name] = COLLECTION
    return declared, fallback


def fallback_of(program: Program, root: Path) -> str | None:
    """The memory of agents whose block names none: the only one, or one called `default`, which is there without a
    block unless a declared memory is in the same folder. None when no agent needs it."""
    if len(program.memories) == 1:
        return next(iter(program.memories))
    woken = {(webhook.wakes, name) for name, webhook in program.webhooks.items() if webhook.wakes is not None}
    asked = {*woken, *((agent, None) for agent in program.agents)}
    if all(_own_memory(program, agent, webhook) is not None for agent, webhook in asked):
        return None
    if DEFAULT_MEMORY in program.memories:
        return DEFAULT_MEMORY
    default = Memory(name=DEFAULT_MEMORY)
    alike = (each for each in program.memories.values() if each.store.name == default.store.name)
    return next((each.name for each in alike if path_of(each, root) == path_of(default, root)), DEFAULT_MEMORY)


def _tables(
    program: Program, resolution: Resolution, mounts: Mapping[str, Mount]
) -> tuple[RouteTable, Mapping[str, int], list[str]]:
    """What is told of all webhooks together: their routes, how many deliveries may run at the same time, and what is
    to be warned of."""
    concurrency = {name: block.concurrency for name, block in program.webhooks.items() if block.concurrency is not None}
    return RouteTable.of(mounts.values()), MappingProxyType(concurrency), list(_warnings(resolution, mounts))


def _warnings(resolution: Resolution, mounts: Mapping[str, Mount]) -> Iterator[str]:
    for reason in resolution.kept.values():
        yield f"{reason}; its last value is kept"
    for name, entry in mounts.items():
        if entry.route is not None:
            for reason in entry.missing:
                yield f"webhook {name} is mounted without one of its secrets: {reason}"
