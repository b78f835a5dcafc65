"""What one program became: routes, memories, and what could not be mounted. Policy only; the pool holds files."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from dslc.blocks import Agent, Memory, Webhook
from dslc.program import Program
from runtime import secrets
from runtime.daemon.pool import Pool
from runtime.errors import UsageError
from runtime.memory import STORES, Store, identity_of, open_store, path_of
from runtime.secrets import Context, Secret, Unresolved
from runtime.webhooks import PROVIDERS
from runtime.webhooks.route import Mount, RouteTable, mount

DEFAULT_MEMORY = "default"


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
    resolved: Mapping[str, Secret]
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
        """The agent `name`: declared, or the recorder that a webhook names without a declaration; else None."""
        declared = self.program.agents.get(name)
        if declared is not None:
            return declared
        named = any(entry.agent == name for entry in self.mounts.values())
        return Agent(name=name) if named else None

    @property
    def agents(self) -> frozenset[str]:
        """The names that `agent` knows."""
        return frozenset((*self.program.agents, *(entry.agent for entry in self.mounts.values())))

    def memory_name(self, agent: str, webhook: str | None = None) -> str:
        """Which memory a run writes to: the webhook's, else its agent's, else the only or default one."""
        source = self.program.webhooks.get(webhook) if webhook else None
        declared = self.program.agents.get(agent)
        for wanted in (source.memory if source else None, declared.memory if declared else None):
            if wanted is not None and wanted in self.memories:
                return wanted
        return next(iter(self.program.memories)) if len(self.program.memories) == 1 else DEFAULT_MEMORY


async def build(
    number: int, program: Program, previous: Generation | None, *, context: Context, pool: Pool[Store], root: Path
) -> Generation:
    """The generation of `program`, beside the running one. Raises SymbiontError when a store cannot be opened."""
    resolved, problems, warnings = await _resolve(program, previous, context)
    mounts = {
        name: mount(
            webhook,
            origin=program.origins.get(("webhook", name), ""),
            secrets=[resolved[text] for text in webhook.secret if text in resolved],
            problem=next((problems[text] for text in _wanted(webhook) if text in problems), None),
            options=_options(webhook, resolved),
        )
        for name, webhook in program.webhooks.items()
    }
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
        resolved=MappingProxyType(resolved),
        concurrency=MappingProxyType(
            {name: block.concurrency for name, block in program.webhooks.items() if block.concurrency is not None}
        ),
        warnings=tuple(warnings),
        _pool=pool,
        _held=held,
    )


def _memories(program: Program) -> dict[str, Memory]:
    """The declared memories, and the built-in one where a run may need it."""
    declared = dict(program.memories)
    if len(declared) != 1:
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


async def _resolve(
    program: Program, previous: Generation | None, context: Context
) -> tuple[dict[str, Secret], dict[str, str], list[str]]:
    """Every secret of the program once: values by reference, reasons by reference, and what is worth a warning."""
    references = list(dict.fromkeys(text for block in program.webhooks.values() for text in _wanted(block)))
    answers = await asyncio.gather(*(secrets.resolve(text, context) for text in references), return_exceptions=True)
    resolved: dict[str, Secret] = {}
    problems: dict[str, str] = {}
    warnings: list[str] = []
    for text, answer in zip(references, answers, strict=True):
        if isinstance(answer, Secret):
            resolved[text] = answer
        elif not isinstance(answer, Unresolved):
            raise answer
        elif previous is not None and text in previous.resolved:
            resolved[text] = previous.resolved[text]
            warnings.append(f"{answer.line()}; its last value is kept")
        else:
            problems[text] = answer.line()
    return resolved, problems, warnings


def _wanted(block: Webhook) -> tuple[str, ...]:
    """The secrets that a webhook cannot do without: its own, and those of its provider's options."""
    own = () if block.insecure_allow_unverified else block.secret
    return (*own, *_references(block).values())


def _options(block: Webhook, resolved: Mapping[str, Secret]) -> dict[str, object]:
    """The provider's options with secrets in place of the references to them."""
    found = {name: resolved[text] for name, text in _references(block).items() if text in resolved}
    return {**block.provider.options, **found}


def _references(block: Webhook) -> dict[str, str]:
    row = PROVIDERS.get(block.provider.name)
    return {} if row is None else row.references(block.provider.options)
