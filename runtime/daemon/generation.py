"""What one program became: routes, memories, and what could not be mounted. Policy only; the pool holds files."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from dslc.blocks import Agent, Memory
from dslc.program import Program
from runtime.daemon.pool import Pool
from runtime.daemon.resolution import Resolution, resolve
from runtime.errors import UsageError
from runtime.memory import STORES, Store, identity_of, open_store, path_of
from runtime.secrets import Context
from runtime.webhooks.route import Mount, RouteTable, mount

DEFAULT_MEMORY = "default"

AT_A_TIME = 8
"""Webhooks that are mounted before requests have their turn: filters take up to a millisecond each to compile."""


@dataclass(eq=False, slots=True)
class Generation:
    """One program, ready to serve. Read-only but for the count of those who work on it."""

    number: int
    program: Program
    mounts: Mapping[str, Mount]
    table: RouteTable
    memories: Mapping[str, Store]
    folders: tuple[Path, ...]
    """Where memories are kept: never watched as programs."""
    resolution: Resolution
    concurrency: Mapping[str, int]
    """How many deliveries of a webhook may run at the same time, where it says so."""
    warnings: tuple[str, ...]
    _pool: Pool[Store]
    _held: list[Hashable]
    _pins: int = field(default=0, init=False)
    _retired: bool = field(default=False, init=False)

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
        await self._drain()

    async def _drain(self) -> None:
        if self._retired and not self._pins:
            held, self._held = self._held, []
            for identity in held:
                await self._pool.give_back(identity)

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
        """Which memory a run writes to: the webhook's, else its agent's, else the only or default one."""
        source = self.program.webhooks.get(webhook) if webhook else None
        declared = self.program.agents.get(agent)
        for wanted in (source.memory if source else None, declared.memory if declared else None):
            if wanted is not None and wanted in self.memories:
                return wanted
        return next(iter(self.program.memories)) if len(self.program.memories) == 1 else DEFAULT_MEMORY


async def build(
    number: int,
    program: Program,
    previous: Generation | None,
    *,
    context: Context,
    pool: Pool[Store],
    root: Path,
    again: Callable[[str], bool] = lambda _: True,
) -> Generation:
    """The generation of `program`, beside the running one. Raises SymbiontError when a store cannot be opened.

    `again`: which secrets to read again; the others stay as they are in `previous`.
    """
    resolution = await resolve(program, previous.resolution if previous else Resolution(), context, again=again)
    mounts = await _mounts(program, resolution)
    held: list[Hashable] = []
    try:
        declared = _memories(program)
        memories = {name: await _open(block, root, context, pool, held) for name, block in declared.items()}
    except BaseException:
        for identity in held:
            await pool.give_back(identity)
        raise
    return Generation(
        number=number,
        program=program,
        mounts=MappingProxyType(mounts),
        table=RouteTable.of(mounts.values()),
        memories=MappingProxyType(memories),
        folders=tuple(path_of(block, root) for block in declared.values()),
        resolution=resolution,
        concurrency=MappingProxyType(
            {name: block.concurrency for name, block in program.webhooks.items() if block.concurrency is not None}
        ),
        warnings=tuple(_warnings(resolution, mounts)),
        _pool=pool,
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


def _memories(program: Program) -> dict[str, Memory]:
    """The declared memories, and the built-in one where a run may need it."""
    declared = dict(program.memories)
    woken = any(webhook.wakes for webhook in program.webhooks.values())
    if len(declared) != 1 and (program.agents or woken):
        declared.setdefault(DEFAULT_MEMORY, Memory(name=DEFAULT_MEMORY))
    return declared


async def _open(block: Memory, root: Path, context: Context, pool: Pool[Store], held: list[Hashable]) -> Store:
    identity = identity_of(block, root)
    if STORES[block.store.name].files and not await context.database.claim_alone():
        raise UsageError(
            f"another daemon uses this database, and the memory {block.name} is files on this machine",
            hint="one daemon at a time can keep them: stop the other one, or name another --database",
        )
    store = await pool.take(identity, lambda: open_store(block, root, clock=context.clock))
    held.append(identity)
    return store


def _warnings(resolution: Resolution, mounts: Mapping[str, Mount]) -> Iterator[str]:
    for reason in resolution.kept.values():
        yield f"{reason}; its last value is kept"
    for name, entry in mounts.items():
        if entry.route is not None:
            for reason in entry.missing:
                yield f"webhook {name} is mounted without one of its secrets: {reason}"
