"""The running generation of a root, and its replacement. One process at a time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import fields
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import Final, TypeVar
from weakref import WeakSet

import structlog

from dslc import files
from dslc.blocks.agent import Agent
from dslc.program import BLOCK_FIELDS, Program
from dslc.source import Source
from runtime.api.admin.readiness import Check, model_availability
from runtime.api.admin.state import AdminContext, McpState, ModelStatus, ProgramState
from runtime.clock import SYSTEM, Clock
from runtime.daemon.opening.memories import MemoryOpener
from runtime.daemon.opening.servers import ServerOpener
from runtime.daemon.process.master_rotation import MasterKeySource
from runtime.daemon.process.root import INDEXES, MEMORIES_FILE, PROGRAM_FILE, Root
from runtime.daemon.process.settings import ProcessSettings
from runtime.daemon.program import last_program
from runtime.daemon.program.contexts import Contexts
from runtime.daemon.program.generation import Generation, build, empty_generation
from runtime.daemon.program.reload import CompiledSources, ReloadError, compile_paths, compile_sources, empty_program
from runtime.daemon.program.root_state import RootState
from runtime.daemon.program.wakeups import wake_after
from runtime.database.errors import Unavailable
from runtime.errors import SymbiontError, UsageError
from runtime.identity.caller import OWNER_CALLER, Caller
from runtime.memory.errors import FsyncFailed
from runtime.memory.files.store import FileStore
from runtime.memory.indexing.indexer import Start
from runtime.memory.indexing.progress import Progress
from runtime.memory.memories import Memories
from runtime.memory.open_memory import OpenMemory
from runtime.memory.recall.store import RecallStore
from runtime.memory.store import Store
from runtime.secrets import generated
from runtime.tasks.index import TaskItems
from runtime.tool_groups import groups_of
from runtime.tools.context import Context, no_progress
from runtime.tools.daemon_hooks import DaemonHooks
from runtime.webhooks.routing.route import EMPTY_TABLE, MountedWebhook, RouteTable

log = structlog.get_logger("symbiont.reload")

Line = TypeVar("Line")

SETTLE_SECONDS = 1.0
"""Seconds for which files must stay unchanged before a reload may remove blocks: an editor that truncates and writes
a file, or a copy of a tree, is in the middle of it."""

RECALLED = "what was said"
"""Messages of threads, in the names of background tasks. No memory of a program has this name."""
TODO = "what is to be done"
"""The tasks of users, in the names of background tasks. No memory of a program has this name."""

MOST_LINES = 20
"""Maximum number of lines of one kind that a reload logs; the rest are counted."""


class App:
    """The running part of an open root: a generation, until the next one replaces it. The caller holds the root's
    lock."""

    _remembers_program = False
    """True once it was recorded for other processes."""
    red_checks: Sequence[Check] = ()
    """Checks of the root, the memories and the contexts of agents that the daemon last saw RED."""

    def __init__(self, state: RootState) -> None:
        self.state = state
        self.daemon = DaemonHooks(public_url=state.settings.public_url, listen=state.settings.listen)
        self.master_key = MasterKeySource(state.root, state.database, state.settings.master_key, self.remember_program)
        self.generation = empty_generation()
        state.agent_of = self._declared_agent
        state.metrics.model_available.ask = self._models_available
        state.metrics.red_checks.ask = lambda: Counter(check.check for check in self.red_checks)
        state.dynamic_routes.on_change = self._join
        self.problem: ReloadError | None = None
        self.paths: tuple[Path, ...] = ()
        self.table: RouteTable = EMPTY_TABLE
        """Every route, declared and dynamic."""
        self.mounts: Mapping[str, MountedWebhook] = {}
        """Every webhook: declared ones by name, dynamic ones by id."""
        self.resumed = False
        """True if the last valid program runs because the one at the start had errors."""
        self.removed: tuple[str, ...] = ()
        """The webhooks that the last reload removed, by name and path."""
        self._watched_stores: WeakSet[Store] = WeakSet()
        self._digest = b""
        self._not_running: CompiledSources | None = None
        self._nonblank: set[str] = set()
        self._keeps_program, self._searching = False, True
        self._secrets_version: str | None = None
        self._loading = asyncio.Lock()
        self._start: Start | None = None

    @cached_property
    def _recorded_folders(self) -> frozenset[str]:
        found = self.state.root.read(MEMORIES_FILE).get("folders")
        parts = [str(each).partition(":") for each in found] if isinstance(found, list) else []
        return frozenset(f"{kind}:{self.state.root.folder / path}" for kind, _, path in parts)

    def _declared_agent(self, agent: str) -> Agent | None:
        return self.generation.program.agents.get(agent)

    def _models_available(self) -> dict[str, float]:
        """Return the lower value for a model whose calls fail, or that readiness shows so."""
        called = self.state.pools.calls.services.available()
        seen = model_availability(self.models)
        return {name: min(called.get(name, 1), seen.get(name, 1)) for name in called | seen}

    @classmethod
    @asynccontextmanager
    async def open(
        cls, root: Root, settings: ProcessSettings, clock: Clock = SYSTEM, *, changes: bool = True
    ) -> AsyncIterator[App]:
        """Open the state of `root`; `changes`: see `open_database`. Raises UsageError in one line for a database or key
        that cannot be used."""
        async with RootState.open(root, settings, clock, changes=changes) as state:
            app = cls(state)
            try:
                yield app
            finally:
                await app._retire()

    async def _retire(self) -> None:
        with suppress(OSError):
            self.record_folders()
        await self.state.servers.close()
        await self.generation.retire()

    @asynccontextmanager
    async def pinned(self) -> AsyncIterator[Generation]:
        """Keep open the resources of the running generation while inside, even during a reload.

        A failed fsync of a memory inside is fatal.
        """
        try:
            async with self.generation.pinned() as generation:
                yield generation
        except FsyncFailed as error:
            self.daemon.on_fatal(str(error))
            raise

    @asynccontextmanager
    async def pinned_memories(self) -> AsyncIterator[Memories]:
        """Yield the memories of the running generation, see `pinned`."""
        async with self.pinned() as generation:
            yield generation.memories

    @asynccontextmanager
    async def open_context(self, caller: Caller, progress: Progress = no_progress) -> AsyncIterator[Context]:
        """Yield a context of the running generation for tools, see `pinned`."""
        async with self.pinned():
            yield self.contexts.tool(caller, progress)

    @property
    def contexts(self) -> Contexts:
        """Return the contexts of the running generation, valid while it is pinned."""
        return Contexts(self.state, self.daemon, self.generation)

    def admin_context(self) -> AdminContext:
        """Return a context of the running generation for operations, valid while it is pinned."""
        state, context = self.state, self.contexts.tool(OWNER_CALLER)
        return AdminContext(
            **{field.name: getattr(context, field.name) for field in fields(context)},
            secrets=state.secrets,
            tokens=state.tokens,
            mounts=self.mounts,
            services=state.services,
            agent_context=self.contexts.agent,
            follow_secrets=self.follow_secrets,
            user_settings=state.user_settings,
            mcp=McpState(self.generation.servers, state.servers, self.follow_approvals),
            state=state.root.state,
            master_key=self.master_key,
            resealing=state.resealing,
            program_state=self._program_state,
        )

    @property
    def _program_state(self) -> ProgramState:
        resolution = self.generation.resolution
        return ProgramState(
            models=self.models,
            environment_notes=self.state.settings.environment.without_effect,
            resumed=self.resumed,
            reload_problem=None if self.problem is None else self.problem.text(),
            missing_secrets=tuple(resolution.problems.values()),
            kept_secrets=tuple(resolution.stale.values()),
        )

    @property
    def models(self) -> list[ModelStatus]:
        """Return the models of the running program."""
        opened = self.generation.models.items()
        return [ModelStatus(name, each.client, each.not_opened, each.agents, each.used) for name, each in opened]

    @property
    def storage_problem(self) -> str | None:
        """Return the reason why the database does not accept writes now; None if it does."""
        problem = self.state.database.outage.problem
        return None if problem is None else str(problem)

    async def load(self, paths: Sequence[Path]) -> CompiledSources:
        """Load the first generation, from `paths`. Raises UsageError if there is no program. A program with errors is
        returned and not loaded."""
        self.paths = tuple(path.absolute() for path in paths)
        began = self.state.clock.monotonic()
        compiled = await compile_paths(self.paths)
        self._refuse_emptied(compiled)
        if compiled.program is not None:
            await self.state.dynamic_routes.refresh()
            await self._swap(compiled, began)
        return compiled

    async def start(self, paths: Sequence[Path]) -> CompiledSources:
        """Load the first generation of a daemon: from `paths`, or, if those have errors, from the program that ran
        last; the error becomes `problem`. Without such a program, raises UsageError or returns the broken one, as
        `load` does."""
        wanted = [path.absolute() for path in paths]
        last = await asyncio.to_thread(last_program.load, self.state.root, self.state.database.keys, wanted)
        self._nonblank = {source.name for source in last if source.data.strip()}
        self._keeps_program = True
        try:
            compiled = await self.load(paths)
        except UsageError as error:
            resumed = await self._resume(last, [ReloadError(error.line())])
            if resumed is None:
                raise
            return resumed
        if compiled.program is None:
            await self._resume(last, compiled.problems, compiled.digest)
        return compiled

    async def _resume(
        self, last: Sequence[Source], problems: Sequence[ReloadError], digest: bytes = b""
    ) -> CompiledSources | None:
        """Load the sources that ran last, because those with `digest` have `problems`; None if none of them compile."""
        kept = compile_sources(last)
        if not last or kept.program is None:
            return None
        await self.state.dynamic_routes.refresh()
        await self._swap(kept, self.state.clock.monotonic())
        self.resumed, self._digest = True, digest
        self._report(problems)
        return kept

    async def load_last_program(self, *, searching: bool = True) -> None:
        """Load the program of the last `symbi up`, for a command that runs without a daemon. Raises SymbiontError.

        `searching`: the command may read indexes; otherwise none is opened.
        """
        self._searching = searching
        recorded = self.state.root.read(PROGRAM_FILE).get("paths")
        if not recorded and not files.find([self.state.root.folder]):
            await self.load_nothing()
            return
        compiled = await self.load([Path(path) for path in recorded or [str(self.state.root.folder)]])
        compiled.must_be_right()

    async def load_nothing(self) -> None:
        """Load the first generation of a root without a program; its default collection is available."""
        await self.state.dynamic_routes.refresh()
        await self._swap(empty_program(), self.state.clock.monotonic())

    def remember_program(self) -> None:
        """Record paths, database and key reference, so that commands find the same ones when no daemon runs, and the
        program's groups of tools, which `symbi mcp` lists without asking."""
        paths = [str(path) for path in self.paths]
        key, tools = self.master_key.reference, groups_of(self.generation.program).words
        database = {"database": self.state.database.label, "database_id": self.state.database.id}
        self.state.root.write(PROGRAM_FILE, {"paths": paths, **database, "master_key": key, "tools": tools})
        self._remembers_program = True

    async def reload(self, *, force: bool = False) -> bool:
        """Read the paths again, and load a new generation if a file changed. `force`: load one in any case, and read
        secrets again.

        A program with an error, an unreadable or emptied file or an empty tree changes nothing and becomes
        `problem`. Returns True if there is a new generation.
        """
        async with self._loading:
            began = self.state.clock.monotonic()
            try:
                # Stored while it cannot run: the guard retries every second.
                compiled = self._not_running = await self._wait_until_stable(
                    await compile_paths(self.paths, self._not_running)
                )
                self._refuse_emptied(compiled)
                if compiled.program is None:
                    # The same errors are reported once, unless the reload was requested.
                    self._digest = compiled.digest
                    self._report(compiled.problems, again=force)
                    return False
                if compiled.digest == self._digest and not force:
                    # The files are again as they were.
                    self.problem = self._not_running = None
                    self.state.metrics.reloads.add("unchanged")
                    return False
                await self._swap(compiled, began)
            except SymbiontError as error:
                self._report([ReloadError(error.line())], again=force)
                return False
        return True

    async def _wait_until_stable(self, compiled: CompiledSources) -> CompiledSources:
        """Return `compiled`, or, if it removes running blocks, the files' content once they are stable."""
        while self._removes_blocks(compiled):
            await self.state.clock.sleep(SETTLE_SECONDS)
            again = await compile_paths(self.paths, compiled)
            if again.digest == compiled.digest:
                break
            compiled = again
        return compiled

    def _removes_blocks(self, compiled: CompiledSources) -> bool:
        running = self.generation
        if compiled.program is None:
            return False
        return not all(
            getattr(running.program, field).keys() <= getattr(compiled.program, field).keys() for field in BLOCK_FIELDS
        )

    def _refuse_emptied(self, compiled: CompiledSources) -> None:
        """Raise UsageError for a file that declared something and is blank now: an interrupted save leaves it so."""
        emptied = sorted(self._nonblank & compiled.blank)
        if emptied:
            raise UsageError(f"{emptied[0]}: the file is empty now", hint="remove it to remove what it declared")

    async def follow_approvals(self) -> None:
        """Serve with the approvals of servers as they are now. The program remains the running one."""
        async with self._loading:
            if self.generation.number:
                await self._replace(self.generation.program, again=lambda _text: False)

    async def follow_secrets(self) -> None:
        """Serve with the current generated secrets after a rotation, by this or another daemon on the database. The
        program remains the running one, whatever its files contain. Raises `Unavailable`."""
        async with self._loading:
            running = self.generation
            if not running.number or await generated.version(self.state.secrets) == self._secrets_version:
                return
            try:
                await self._replace(running.program, again=lambda text: text.startswith(generated.PREFIX))
            except Unavailable:
                raise
            except SymbiontError as error:
                self._report([ReloadError(error.line())])
            else:
                log.info("secret_rotated", generation=running.number + 1)

    def _join(self) -> None:
        """Serve declared and dynamic webhooks; their paths are never the same."""
        declared, made = self.generation.mounts, self.state.dynamic_routes.mounts
        self.mounts = MappingProxyType({**made, **declared})
        self.table = self.state.dynamic_routes.table.union(self.generation.table)

    def _report(self, problems: Sequence[ReloadError], *, again: bool = False) -> None:
        """Log the reasons why nothing changed, once; `again`: also if they were logged before."""
        if self.problem == problems[0] and not again:
            return
        self.problem = problems[0]
        self.state.metrics.reloads.add("refused")
        for problem in _first_lines(problems):
            log.error("reload_rejected", problem=problem.text())

    async def _swap(self, compiled: CompiledSources, began: float) -> None:
        """Load the generation of `compiled`. `began`: when reading its files began, in monotonic seconds."""
        assert compiled.program is not None
        previous = self.generation.program
        generation, removed = await self._replace(compiled.program)
        self._digest, self.problem, self.resumed, self._not_running = compiled.digest, None, False, None
        self._nonblank = compiled.nonblank
        self.state.metrics.reloads.add("loaded")
        self.state.metrics.reload_seconds.observe(self.state.clock.monotonic() - began)
        for warning in _first_lines([*generation.warnings, *compiled.warnings]):
            log.warning("program_warning", warning=warning)
        for entry in _first_lines(removed):
            log.warning("webhook_removed", webhook=entry.name, path=entry.path)
        for entry in _first_lines([entry for entry in generation.mounts.values() if entry.problem]):
            log.warning("webhook_not_mounted", webhook=entry.name, reason=entry.problem)
        log.info(
            "program_loaded",
            generation=generation.number,
            routes=len(generation.table),
            files=len(compiled.compilation.sources),
        )
        if self._remembers_program and groups_of(previous) != groups_of(compiled.program):
            await self._save(self.remember_program)
        if self._keeps_program:
            await self._save(
                partial(
                    last_program.keep,
                    self.state.root,
                    self.state.database.keys,
                    self.paths,
                    compiled.compilation.sources,
                )
            )
            await self._wake_turns(previous)

    async def _wake_turns(self, previous: Program) -> None:
        try:
            woken = await wake_after(previous, self.generation.program, self.state.database, self.state.clock)
        except Unavailable as error:
            # They go on after the next start.
            log.warning("turns_not_woken", reason=str(error))
        else:
            if woken:
                self.daemon.on_queued()

    async def _save(self, write: Callable[[], None]) -> None:
        """Write what the next start reads: the running program, so that a restart with a broken one can serve it."""
        try:
            await asyncio.to_thread(write)
        except OSError as error:
            # The running program continues; a restart has the program before it.
            log.error("program_not_saved", reason=error.strerror or str(error))

    async def _replace(
        self, program: Program, again: Callable[[str], bool] = lambda _: True
    ) -> tuple[Generation, Sequence[MountedWebhook]]:
        """Serve `program` from now on. Returns the new generation and the webhooks that it removed. `again`: which of
        its secrets are read again."""
        previous = self.generation
        # Before the secrets are read: one that is rotated meanwhile is read once more, and never missed.
        version = await generated.version(self.state.secrets)
        generation = await build(
            previous.number + 1,
            program,
            previous,
            opening=self._opening(),
            servers=ServerOpener(
                self.state.pools.servers, self.state.servers, self.state.root.state, self.state.root.folder
            ),
            again=again,
            activate=self._activate_one,
            lock=self._loading,
        )
        removed = _removed_webhooks(previous, generation)
        self.state.metrics.deliveries.declare(generation.mounts)
        self.generation, self._secrets_version = generation, version
        if program is not previous.program:
            # Set together with the routes: a reader that sees a webhook removed also sees its name here.
            self.removed = tuple(f"{entry.name} ({entry.path})" for entry in removed)
        self._join()
        await self._activate(generation, previous)
        await previous.retire()
        return generation, removed

    def _opening(self) -> MemoryOpener:
        index_folder = self.state.root.state / INDEXES if self._searching else None
        environment = self.state.settings.environment
        return MemoryOpener(
            self.state.root.folder,
            index_folder,
            self.state.secrets,
            self.state.pools,
            environment,
            self.state.switches,
            self._recorded_folders,
        )

    def record_folders(self) -> None:
        """Record which memories have folders, so that one that is lost is not silently made anew. Raises OSError."""
        stores = [memory.store for memory in self.generation.open_memories if isinstance(memory.store, FileStore)]
        found = self._recorded_folders | {store.identity for store in stores if store.had_items}
        if found != self._recorded_folders:
            # Those in the root by their paths in it, which are the same after it was moved or restored elsewhere.
            within = f":{self.state.root.folder}/"
            self.state.root.write(MEMORIES_FILE, {"folders": sorted(each.replace(within, ":", 1) for each in found)})
            self._recorded_folders = found

    async def start_background(self, start: Start) -> None:
        """Keep indexes in step and servers connected in the background from now on, in tasks that `start` creates, also
        after a reload."""
        self._start = start
        async with self._loading:
            await self._activate(self.generation, None)

    async def _activate(self, generation: Generation, previous: Generation | None) -> None:
        """Activate the memories and the servers of `generation`; stop the background tasks of memories that only
        `previous` has."""
        used = {memory.indexer for memory in generation.open_memories}
        for memory in previous.open_memories if previous else ():
            if memory.indexer not in used:
                await memory.indexer.stop_background()
        for memory in generation.open_memories:
            await self._activate_one(memory)
        for server in generation.servers.values():
            if server.connection is not None and self._start is not None:
                server.connection.start(self._start)

    async def _activate_one(self, memory: OpenMemory) -> None:
        if memory.store not in self._watched_stores:
            self._watched_stores.add(memory.store)
            memory.store.subscribe(on_fatal=lambda error: self.daemon.on_fatal(str(error)))
            match memory.store:
                case RecallStore():
                    self.state.services.on_change(memory.store.note_change)
                case TaskItems():
                    self.state.tasks.on_change = memory.store.note_change
                case FileStore():
                    memory.store.on_written = self.state.count_items
        await memory.activate(self._start, name=_NAMES.get(type(memory.store)))


_NAMES: Final[Mapping[type[Store], str]] = {RecallStore: RECALLED, TaskItems: TODO}
"""The names of tasks that keep an index which is no memory of the program."""


def refuse_another_database(root: Root, settings: ProcessSettings) -> None:
    """Raise UsageError if the state of `root` was last stored in PostgreSQL and `settings` name no database.

    The database URL may contain a password and is not stored; the file in the root would have other secrets.
    """
    last = root.read(PROGRAM_FILE).get("database")
    if settings.database is None and str(last).startswith("postgresql:"):
        raise UsageError(f"the state of {root.folder} is in {last}", hint="set SYMBIONT_DATABASE to its URL")


def _removed_webhooks(before: Generation, after: Generation) -> list[MountedWebhook]:
    """Return the webhooks of `before` that `after` does not mount."""
    if before.mounts.keys() <= after.mounts.keys():
        return []
    return [entry for name, entry in before.mounts.items() if name not in after.mounts]


def _first_lines(lines: Sequence[Line]) -> Sequence[Line]:
    """Return the first MOST_LINES of `lines`; the number of the others is logged. Each line takes the event loop's
    time."""
    if len(lines) > MOST_LINES:
        log.warning("log_lines_omitted", lines=len(lines) - MOST_LINES)
    return lines[:MOST_LINES]
