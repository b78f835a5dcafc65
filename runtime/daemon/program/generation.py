"""The running form of one program: routes, memories, and webhooks that could not be mounted. It contains policy only;
open files belong to the pool."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from dslc.blocks.agent import Agent
from dslc.blocks.memory import Memory
from dslc.blocks.variant import Variant
from dslc.program import Program
from runtime.daemon.opening.memories import MemoryOpener
from runtime.daemon.opening.models import ProgramModels
from runtime.daemon.opening.resource_pool import Lease
from runtime.daemon.opening.secrets import Resolution, resolve
from runtime.daemon.opening.servers import ServerOpener
from runtime.errors import SymbiontError
from runtime.memory import path_of
from runtime.memory.collection.options import STORE
from runtime.memory.collection.row_codec import holds
from runtime.memory.memories import DEFAULT_MEMORY, Memories, declared_memory
from runtime.memory.open_memory import OpenMemory
from runtime.models.client import ModelClient
from runtime.tool_servers.definition import ToolDefinition
from runtime.tool_servers.server import ProgramServers
from runtime.tools.model.agent_toolset import AgentTools
from runtime.tools.server_tool import with_servers
from runtime.webhooks.routing.route import EMPTY_TABLE, MountedWebhook, RouteTable, build_route

COLLECTION = Memory(name=STORE, store=Variant(name=STORE))
"""The collection that exists without a block. No agent uses it unless a block names it."""

Activate = Callable[[OpenMemory], Awaitable[None]]

AT_A_TIME = 8
"""Number of webhooks mounted before the event loop handles requests: a filter takes up to a millisecond to compile."""

ENDED_AT_A_TIME = 32
"""Number of objects of a replaced generation that are freed before the event loop handles requests."""


@dataclass(eq=False, slots=True, weakref_slot=True)
class Generation:
    """One program, ready to serve. Read-only except the count of its users."""

    number: int
    program: Program
    mounts: Mapping[str, MountedWebhook]
    table: RouteTable
    memories: Memories
    recall: OpenMemory | None
    """Searches what was said in threads; None if no agent has a model."""
    tasks: OpenMemory | None
    """Searches the tasks of users; None before the first program."""
    models: ProgramModels
    servers: ProgramServers
    folders: tuple[Path, ...]
    """Folders of memories, which are never watched as programs."""
    agents: frozenset[str]
    """Names for which `agent` returns an agent: declared, or named by a declared webhook."""
    resolution: Resolution
    concurrency: Mapping[str, int]
    """Maximum number of concurrent deliveries of each webhook with a limit."""
    warnings: tuple[str, ...]
    _lease: Lease
    _pins: int = field(default=0, init=False)
    _retired: bool = field(default=False, init=False)
    _tools: AgentTools | None = field(default=None, init=False)
    """With the tools `_offered` of servers."""
    _offered: list[tuple[ToolDefinition, ...]] = field(default_factory=list, init=False)

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
        """Release the resources as soon as no call uses this generation."""
        self._retired = True
        # Freeing thousands of routes at once would block the event loop, so they are released separately, a few at a
        # time.
        parts = [*self.mounts.values(), *self.program.webhooks.values(), *self.resolution.values.values()]
        weakref.finalize(self, _end, asyncio.get_running_loop(), parts).atexit = False
        await self._drain()

    async def _drain(self) -> None:
        if self._retired and not self._pins:
            try:
                for memory in self.open_memories:
                    await memory.finish()
            finally:
                await self._lease.give_back()

    @property
    def open_memories(self) -> tuple[OpenMemory, ...]:
        """Return the memories, recall, and the search of tasks."""
        more = (self.recall, self.tasks)
        return (*self.memories.values(), *(memory for memory in more if memory is not None))

    def model(self, choice: Variant) -> ModelClient | None:
        """Return the model that a setting of the program names; None if there is none (`models` has the reason)."""
        return self.models.of(choice).client

    def tools(self) -> AgentTools:
        """Return the tools for agents: those of the table, and those that servers offer now."""
        offered = [server.offered for server in self.servers.values()]
        if self._tools is None or self._offered != offered:
            self._tools, self._offered = AgentTools(with_servers(self.servers.values())), offered
        return self._tools

    def agent(self, name: str) -> Agent | None:
        """Return the agent `name`: declared, or the recorder that a webhook runs without a declaration; else None."""
        declared = self.program.agents.get(name)
        if declared is not None:
            return declared
        return Agent(name=name) if name in self.agents else None


def _end(loop: asyncio.AbstractEventLoop, parts: list[object]) -> None:
    """Free `parts` a few at a time. May be called in any thread: in the one that released the generation last."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(_end_some, loop, parts)


def _end_some(loop: asyncio.AbstractEventLoop, parts: list[object]) -> None:
    del parts[-ENDED_AT_A_TIME:]
    if parts:
        loop.call_soon(_end_some, loop, parts)


def empty_generation() -> Generation:
    """Return the generation before the first program, with the number 0."""

    async def open_collection() -> OpenMemory:
        raise SymbiontError("no program is loaded")

    return Generation(
        number=0,
        program=Program(),
        mounts=MappingProxyType({}),
        table=EMPTY_TABLE,
        memories=Memories(Program(), {}, fallback=None, open_collection=open_collection, lock=asyncio.Lock()),
        recall=None,
        tasks=None,
        models=ProgramModels(Program(), {}),
        servers=MappingProxyType({}),
        folders=(),
        agents=frozenset(),
        resolution=Resolution(),
        concurrency=MappingProxyType({}),
        warnings=(),
        _lease=Lease(),
    )


async def build(
    number: int,
    program: Program,
    previous: Generation | None,
    *,
    opening: MemoryOpener,
    servers: ServerOpener | None = None,
    again: Callable[[str], bool] = lambda _: True,
    activate: Activate = OpenMemory.activate,
    lock: asyncio.Lock | None = None,
) -> Generation:
    """Build the generation of `program`, beside the running one. Raises SymbiontError if a store cannot be opened.

    `again`: which secrets to read again; the others are reused from `previous`. `activate` and `lock`: for the
    collection without a block, which is opened later.
    """
    before = previous.resolution if previous else Resolution()
    declared, fallback = await _memories(program, previous, opening)
    # The collection that is opened later reads its secrets then.
    whole = [opening.environment.with_defaults(block) for block in (*declared.values(), COLLECTION)]
    services = opening.models.services(program, whole)
    resolution = await resolve(program, whole, before, opening.context, services=services, again=again)
    mounts = await _mounts(program, resolution)
    table, agents, concurrency, warnings = await asyncio.to_thread(_tables, program, resolution, mounts)
    lease = Lease()
    try:
        of_agents = memories_of_agents(program, fallback)
        opened = {
            name: await opening.memory(block, program, resolution, lease, of_agents=name in of_agents)
            for name, block in declared.items()
        }
        recall = await opening.recall(program, resolution, lease)
        tasks = await opening.tasks(program, resolution, lease)
        models = await opening.models.open_all(program, resolution, lease)
        opened_servers = {} if servers is None else await servers.open_all(program, resolution, lease)
    except BaseException:
        await lease.give_back()
        raise

    async def open_collection() -> OpenMemory:
        collection = await opening.memory(COLLECTION, program, resolution, lease)
        await activate(collection)
        return collection

    memories = Memories(
        program, opened, fallback=fallback, open_collection=open_collection, lock=lock or asyncio.Lock()
    )
    return Generation(
        number=number,
        program=program,
        mounts=MappingProxyType(mounts),
        table=table,
        memories=memories,
        recall=recall,
        tasks=tasks,
        models=models,
        servers=MappingProxyType(opened_servers),
        folders=tuple(memory.folder for memory in memories.values() if memory.folder is not None),
        agents=agents,
        resolution=resolution,
        concurrency=concurrency,
        warnings=(
            *warnings,
            *(f"memory {each.name}: {reason}" for each in memories.values() for reason in each.not_opened),
            *(f"recall: {reason}" for reason in (recall.not_opened if recall is not None else ())),
            *(f"tasks: {reason}" for reason in tasks.not_opened),
            *(f"model {name}: {reason}" for name, each in models.items() for reason in each.not_opened),
        ),
        _lease=lease,
    )


async def _mounts(program: Program, resolution: Resolution) -> dict[str, MountedWebhook]:
    """Return every webhook of the program, mounted or with the reason why not. Thousands take seconds, during which the
    event loop is not blocked."""
    mounts: dict[str, MountedWebhook] = {}
    for name, webhook in program.webhooks.items():
        mounts[name] = build_route(
            webhook,
            origin=program.origins.get(("webhook", name), ""),
            secrets=resolution.of(webhook),
            problem=resolution.problem(webhook),
            options=resolution.options(webhook),
            decoded=_is_keyed(program.agents.get(webhook.wakes or "")),
        )
        if len(mounts) % AT_A_TIME == 0:
            await asyncio.sleep(0)
    return mounts


def _is_keyed(agent: Agent | None) -> bool:
    """Return True if the agent's threads are chosen by a value of the payload."""
    return agent is not None and agent.model is not None and agent.thread.name == "keyed"


async def _memories(
    program: Program, previous: Generation | None, opening: MemoryOpener
) -> tuple[dict[str, Memory], str | None]:
    """Return the declared and built-in memories, and the name of the fallback memory."""
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
    """Return the memory of agents whose block names none: the only one, or one called `default`, which needs no
    block unless a declared memory is in the same folder. None if no agent needs it."""
    if len(program.memories) == 1:
        return next(iter(program.memories))
    if None not in memories_of_agents(program, None):
        return None
    if DEFAULT_MEMORY in program.memories:
        return DEFAULT_MEMORY
    default = Memory(name=DEFAULT_MEMORY)
    alike = (each for each in program.memories.values() if each.store.name == default.store.name)
    return next((each.name for each in alike if path_of(each, root) == path_of(default, root)), DEFAULT_MEMORY)


def memories_of_agents(program: Program, fallback: str | None) -> set[str | None]:
    """Return the names of the memories that agents remember in; `fallback` for an agent whose block names none."""
    woken = {(webhook.wakes, name) for name, webhook in program.webhooks.items() if webhook.wakes is not None}
    asked = {*woken, *((agent, None) for agent in program.agents)}
    return {declared_memory(program, agent, webhook) or fallback for agent, webhook in asked}


def _tables(
    program: Program, resolution: Resolution, mounts: Mapping[str, MountedWebhook]
) -> tuple[RouteTable, frozenset[str], Mapping[str, int], list[str]]:
    """Return the route table, the names of agents, the maximum number of concurrent deliveries of each webhook, and
    warnings."""
    concurrency = {name: block.concurrency for name, block in program.webhooks.items() if block.concurrency is not None}
    agents = frozenset((*program.agents, *filter(None, (entry.agent for entry in mounts.values()))))
    return RouteTable.of(mounts.values()), agents, MappingProxyType(concurrency), list(_warnings(resolution, mounts))


def _warnings(resolution: Resolution, mounts: Mapping[str, MountedWebhook]) -> Iterator[str]:
    for reason in resolution.stale.values():
        yield f"{reason}; its last value is still used"
    for name, entry in mounts.items():
        if entry.route is not None:
            for reason in entry.missing:
                yield f"webhook {name} is mounted without one of its secrets: {reason}"
