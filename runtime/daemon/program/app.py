"""The open state of a root: database, key, secrets, pool and the running generation. One process at a time."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import fields
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import Final, TypeVar
from weakref import WeakSet

import structlog

from dslc import files
from dslc.program import BLOCK_FIELDS, Program
from dslc.source import Source
from runtime.agents.act import refuses
from runtime.agents.answer import declared_blocks
from runtime.agents.prompt_context import build_prompt
from runtime.agents.services import AgentServices
from runtime.agents.turn import AgentContext
from runtime.api.admin.state import AdminContext, ModelStatus
from runtime.clock import SYSTEM, Clock
from runtime.daemon.process.master_rotation import MasterKeySource, open_database
from runtime.daemon.process.root import APPROVALS_FILE, INDEXES, PROGRAM_FILE, Root
from runtime.daemon.process.root_owner import is_for_another
from runtime.daemon.process.settings import ProcessSettings
from runtime.daemon.process.sql_opening import open_sql_database
from runtime.daemon.program import last_program
from runtime.daemon.program.generation import Generation, build, nothing_loaded
from runtime.daemon.program.memory_opening import MemoryOpener, ResourcePools
from runtime.daemon.program.reload import Compiled, ReloadError, compile_paths, compile_sources, nothing
from runtime.daemon.program.server_opening import ServerOpener
from runtime.daemon.program.waking import wake_after
from runtime.database.connection import Database
from runtime.database.errors import Unavailable
from runtime.errors import SymbiontError, UsageError
from runtime.identity.caller import OWNER_CALLER, Caller
from runtime.identity.tokens import Tokens
from runtime.identity.user_settings import UserSettingsStore
from runtime.memory.core.block import DeclaredBlock
from runtime.memory.errors import FsyncFailed
from runtime.memory.indexing.indexer import Start
from runtime.memory.indexing.progress import Progress
from runtime.memory.memories import Memories
from runtime.memory.open_memory import OpenMemory
from runtime.memory.recall.store import RecallStore
from runtime.memory.store import Store
from runtime.metrics.instruments import OTHER
from runtime.metrics.metrics import Metrics
from runtime.models.budgets.budgets import Budgets
from runtime.models.budgets.limits import NANO, UNLIMITED, Limits, limits_of
from runtime.models.calls.call import Call
from runtime.models.calls.counted_calls import CallContext
from runtime.models.calls.service import Services
from runtime.models.calls.usage import UsageLog
from runtime.secrets import generated
from runtime.secrets.backend import SecretContext
from runtime.tables.sql_database import SqlDatabase
from runtime.tables.storage import UserStorage
from runtime.tasks.index import TaskItems
from runtime.tasks.store import TaskStore
from runtime.tool_groups import groups_of
from runtime.tool_servers.approvals import Approvals
from runtime.tool_servers.logins import Logins
from runtime.tool_servers.registry import ServerRegistry
from runtime.tools import TOOLS
from runtime.tools.agent.overrides import OwnAgent
from runtime.tools.context import Acting, Context, no_progress
from runtime.tools.failure import outcome_of
from runtime.webhooks.audit.audit import Audit
from runtime.webhooks.request.refusal import REASONS
from runtime.webhooks.routing.dynamic_routes import DynamicRoutes
from runtime.webhooks.routing.dynamic_webhooks import DynamicWebhooks
from runtime.webhooks.routing.route import EMPTY_TABLE, MountedWebhook, RouteTable

log = structlog.get_logger("symbiont.reload")

Line = TypeVar("Line")

SETTLE_SECONDS = 1.0
"""Seconds for which files must stay unchanged before a reload may remove blocks: an editor that truncates and writes
a file, or a copy of a tree, is in the middle of it."""

RECALLED = "what was said"
"""What was said in threads, in the names of background tasks. No memory of a program has this name."""
TODO = "what is to be done"
"""The tasks of users, in the names of background tasks. No memory of a program has this name."""

MOST_LINES = 20
"""Maximum number of lines of one kind that a reload logs; the rest are counted."""


class App:
    """The open state of a root. The caller holds the root's lock while it is open."""

    _remembers_program = False
    """True once it was recorded for other processes."""

    def __init__(self, root: Root, settings: ProcessSettings, database: Database, clock: Clock) -> None:
        self.root = root
        self.settings, self.switches = settings, settings.switches
        self.database = database
        self.clock = clock
        self.master_key = MasterKeySource(root, database, clock, settings.master_key, self.remember_program)
        # The superuser's environment is not available to a program of another user, whose rights the superuser has
        # taken on.
        environ = {} if is_for_another() else os.environ
        self.secrets = SecretContext(environ, root.folder, database, database.keys, clock)
        self.usage = UsageLog(database, clock)
        self.user_settings = UserSettingsStore(database, clock)
        self.budgets = Budgets(
            database,
            clock,
            self.user_settings,
            of_agent=self._limits_of,
            of_users=settings.user_limits,
            waits=self._waits_at_limit,
        )
        self.storage = UserStorage(database, clock, self.user_settings, settings.tiers, settings.tier)
        self.sql: SqlDatabase | None = None
        calls = CallContext(Services(clock), self._record_call, clock, self.budgets.reserve)
        self.pools = ResourcePools(calls=calls)
        self.generation = nothing_loaded()
        self.problem: ReloadError | None = None
        self.paths: tuple[Path, ...] = ()
        self.addresses: dict[str, str] = {}
        self.audit: Audit | None = None
        self.on_queued: Callable[[], None] = lambda: None
        """Called after an operation queued deliveries or messages."""
        self.cancel_run: Callable[[str, str], Awaitable[str]] | None = None
        """Cancels a run of a user; None without a daemon."""
        self.is_stopping: Callable[[], bool] = lambda: False
        """Returns True while the daemon stops."""
        self.on_fatal: Callable[[str], None] = lambda _reason: None
        """Called with the reason when the process must stop."""
        self._watched_stores: WeakSet[Store] = WeakSet()
        self.metrics = Metrics(REASONS)
        self._connect_metrics()
        self.services = AgentServices(database, clock)
        self.tokens = Tokens(database, clock)
        self.servers = ServerRegistry(_approvals(root, database), Logins(database, clock))
        self.dynamic_webhooks = DynamicWebhooks(database, clock)
        self.dynamic_routes = DynamicRoutes(database, clock, self.dynamic_webhooks, on_change=self._join)
        self.table: RouteTable = EMPTY_TABLE
        """Every route, declared and dynamic."""
        self.mounts: Mapping[str, MountedWebhook] = {}
        """Every webhook: declared ones by name, dynamic ones by id."""
        self.resumed = False
        """True if the last valid program runs because the one at the start had errors."""
        self.removed: tuple[str, ...] = ()
        """The webhooks that the last reload removed, by name and path."""
        self._digest = b""
        self._not_running: Compiled | None = None
        self._filled: set[str] = set()
        self._keeps_program, self._searching = False, True
        self._secrets_version: str | None = None
        self._loading = asyncio.Lock()
        self._start: Start | None = None

    @cached_property
    def tasks(self) -> TaskStore:
        """The tasks of users."""
        return TaskStore(self.database, self.clock, per_hour=self.settings.tasks_per_hour)

    def _connect_metrics(self) -> None:
        self.budgets.on_exceeded = self.metrics.budget_exceeded.add
        self.metrics.agent_budget_used.ask = self.budgets.shares
        self.metrics.model_waiting.ask = self.pools.calls.services.waiting
        self.metrics.model_available.ask = self.pools.calls.services.available
        self.metrics.sql_connections.ask = lambda: None if self.sql is None else self.sql.connections

    @classmethod
    @asynccontextmanager
    async def open(cls, root: Root, settings: ProcessSettings, clock: Clock = SYSTEM) -> AsyncIterator[App]:
        """Open the state of `root`. Raises UsageError in one line for a database or key that cannot be used."""
        async with AsyncExitStack() as stack:
            database = await open_database(root, settings)
            stack.push_async_callback(database.close)
            if database.upgraded:
                log.warning("database_upgraded", what=database.upgraded)
            app = cls(root, settings, database, clock)
            app.sql = await open_sql_database(database, root.state, app.storage)
            stack.callback(app.secrets.close)
            stack.push_async_callback(app._retire)
            yield app

    async def _retire(self) -> None:
        await self.servers.close()
        await self.generation.retire()
        if self.sql is not None:
            await self.sql.close()
        self.usage.store_kept()

    def _count_call(self, name: str, error: BaseException | None) -> None:
        tool = TOOLS.get(name)
        self.metrics.tool_calls.add(OTHER if tool is None else name, outcome_of(error, tool))

    def _record_call(self, call: Call) -> None:
        """Store and count a call of a model or an embedding."""
        self.usage.add(call)
        label = f"embedding/{call.name}" if call.purpose == "embedding" else call.name
        self.metrics.model_called(
            label, call.outcome, call.seconds, (call.usage.tokens_in, call.usage.tokens_out, call.usage.cached)
        )
        if call.cost:
            self.metrics.model_cost.add(label, call.purpose, call.cost / NANO)

    @asynccontextmanager
    async def pinned(self) -> AsyncIterator[Generation]:
        """Keep open the resources of the running generation while inside, even during a reload.

        A failed fsync of a memory inside is fatal.
        """
        try:
            async with self.generation.pinned() as generation:
                yield generation
        except FsyncFailed as error:
            self.on_fatal(str(error))
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
            yield self.context(caller, progress)

    def context(self, caller: Caller, progress: Progress = no_progress, *, acting: Acting | None = None) -> Context:
        """Return a context of the running generation for tools, valid while it is pinned."""
        return Context(
            caller=caller,
            clock=self.clock,
            database=self.database,
            agents=self.generation.agents,
            memories=self.generation.memories,
            webhooks=self.dynamic_webhooks,
            routes=self.dynamic_routes,
            audit=self.audit,
            public_url=self.public_url,
            acting=acting,
            progress=progress,
            declared_blocks=self._declared_blocks,
            budgets=self.budgets,
            storage=self.storage,
            sql=self.sql,
            on_called=self._count_call,
            recall=self.generation.recall,
            tasks=self.tasks,
            task_search=self.generation.tasks,
            on_thread_change=self.services.threads.on_change,
            build_prompt=partial(build_prompt, self.services),
            program=self.generation.program,
            on_queued=self.on_queued,
            cancel_run=self.cancel_run,
            switches=self.switches,
            stopping=self.is_stopping,
        )

    def agent_context(self, own: OwnAgent, caller: Caller, acting: Acting, webhook: str | None = None) -> AgentContext:
        """Return the context of the running generation for an agent as it is for the caller, valid while it is pinned.
        `webhook`: whose delivery woke it. Raises ModelUnavailable for a model that cannot be opened: it is not silently
        a recorder."""
        agent, models = own.agent, self.generation.models
        client, tool_context = models.client(agent.model), self.context(caller, acting=acting)
        tools = self.generation.tools()
        return AgentContext(
            agent=agent,
            settings=own.settings,
            memory=self.generation.memories.of(agent.name, webhook),
            services=self.services,
            client=client,
            summarizer=client if agent.summarizer.model is None else models.client(agent.summarizer.model),
            budgets=self.budgets,
            tool_context=tool_context,
            seconds=self.settings.run_seconds,
            tools=tools if tool_context.no_tables is None else tools.without_tables(),
            confirm_seconds=self.settings.confirm_seconds,
        )

    def _limits_of(self, agent: str) -> Limits:
        """Return the limits that the running program gives an agent."""
        declared = self.generation.program.agents.get(agent)
        return UNLIMITED if declared is None else limits_of(declared)

    def _waits_at_limit(self, agent: str) -> bool:
        declared = self.generation.program.agents.get(agent)
        return declared is not None and not refuses(declared, asked=True)

    def _declared_blocks(self, agent: str) -> Sequence[DeclaredBlock]:
        declared = self.generation.program.agents.get(agent)
        return () if declared is None else declared_blocks(declared)

    def admin_context(self) -> AdminContext:
        """Return a context of the running generation for operations, valid while it is pinned."""
        resolution, context = self.generation.resolution, self.context(OWNER_CALLER)
        return AdminContext(
            **{field.name: getattr(context, field.name) for field in fields(context)},
            secrets=self.secrets,
            tokens=self.tokens,
            mounts=self.mounts,
            addresses=self.addresses,
            services=self.services,
            agent_context=self.agent_context,
            follow_secrets=self.follow_secrets,
            user_settings=self.user_settings,
            servers=self.generation.servers,
            registry=self.servers,
            follow_approvals=self.follow_approvals,
            state=self.root.state,
            key_from=self.master_key.place,
            resealing=self.master_key.resealing,
            rotate_master_key=self.master_key.rotate,
            models=self.models,
            environment_notes=self.settings.environment.without_effect,
            resumed=self.resumed,
            reload_problem=None if self.problem is None else self.problem.text(),
            missing_secrets=tuple(resolution.problems.values()),
            kept_secrets=tuple(resolution.kept.values()),
        )

    @property
    def models(self) -> list[ModelStatus]:
        """Return the models of the running program."""
        opened = self.generation.models.items()
        return [ModelStatus(name, each.client, each.not_opened, each.agents) for name, each in opened]

    def public_url(self, path: str) -> str:
        """Return the URL at which senders reach `path`."""
        base = self.settings.public_url or f"http://{self.addresses.get('public', self.settings.listen)}"
        return f"{base.rstrip('/')}{path}"

    @property
    def storage_problem(self) -> str | None:
        """Return the reason why the database does not accept writes now; None if it does."""
        problem = self.database.outage.problem
        return None if problem is None else str(problem)

    async def load(self, paths: Sequence[Path]) -> Compiled:
        """Load the first generation, from `paths`. Raises UsageError if there is no program. A program with errors is
        returned and not loaded."""
        self.paths = tuple(path.absolute() for path in paths)
        began = self.clock.monotonic()
        compiled = await compile_paths(self.paths)
        self._refuse_emptied(compiled)
        if compiled.program is not None:
            await self.dynamic_routes.refresh()
            await self._swap(compiled, began)
        return compiled

    async def start(self, paths: Sequence[Path]) -> Compiled:
        """Load the first generation of a daemon: from `paths`, or, if those have errors, from the program that ran
        last; the error becomes `problem`. Without such a program, raises UsageError or returns the broken one, as
        `load` does."""
        wanted = [path.absolute() for path in paths]
        last = await asyncio.to_thread(last_program.kept, self.root, self.database.keys, wanted)
        self._filled = {source.name for source in last if source.data.strip()}
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
    ) -> Compiled | None:
        """Load the sources that ran last, because those with `digest` have `problems`; None if none of them compile."""
        kept = compile_sources(last)
        if not last or kept.program is None:
            return None
        await self.dynamic_routes.refresh()
        await self._swap(kept, self.clock.monotonic())
        self.resumed, self._digest = True, digest
        self._report(problems)
        return kept

    async def load_last_program(self, *, searching: bool = True) -> None:
        """Load the program of the last `symbi up`, for a command that runs without a daemon. Raises SymbiontError.

        `searching`: the command may read indexes; otherwise none is opened.
        """
        self._searching = searching
        recorded = self.root.read(PROGRAM_FILE).get("paths")
        if not recorded and not files.find([self.root.folder]):
            await self.load_nothing()
            return
        compiled = await self.load([Path(path) for path in recorded or [str(self.root.folder)]])
        compiled.must_be_right()

    async def load_nothing(self) -> None:
        """Load the first generation of a root without a program; its default collection is available."""
        await self.dynamic_routes.refresh()
        await self._swap(nothing(), self.clock.monotonic())

    def remember_program(self) -> None:
        """Record paths, database and key reference, so that commands find the same ones when no daemon runs, and the
        program's groups of tools, which `symbi mcp` lists without asking."""
        paths = [str(path) for path in self.paths]
        key, tools = self.master_key.reference, groups_of(self.generation.program).words
        self.root.write(
            PROGRAM_FILE, {"paths": paths, "database": self.database.shown, "master_key": key, "tools": tools}
        )
        self._remembers_program = True

    async def reload(self, *, force: bool = False) -> bool:
        """Read the paths again, and load a new generation if a file changed. `force`: load one in any case, and read
        secrets again.

        A program with an error, an unreadable or emptied file or an empty tree changes nothing and becomes
        `problem`. Returns True if there is a new generation.
        """
        async with self._loading:
            began = self.clock.monotonic()
            try:
                # Stored while it cannot run: the guard retries every second.
                compiled = self._not_running = await self._settled(await compile_paths(self.paths, self._not_running))
                self._refuse_emptied(compiled)
                if compiled.program is None:
                    # The same errors are reported once, unless the reload was requested.
                    self._digest = compiled.digest
                    self._report(compiled.problems, again=force)
                    return False
                if compiled.digest == self._digest and not force:
                    # The files are again as they were.
                    self.problem = self._not_running = None
                    self.metrics.reloads.add("unchanged")
                    return False
                await self._swap(compiled, began)
            except SymbiontError as error:
                self._report([ReloadError(error.line())], again=force)
                return False
        return True

    async def _settled(self, compiled: Compiled) -> Compiled:
        """Return `compiled`, or, if it removes running blocks, the files' content once they are stable."""
        while self._takes_away(compiled):
            await self.clock.sleep(SETTLE_SECONDS)
            again = await compile_paths(self.paths, compiled)
            if again.digest == compiled.digest:
                break
            compiled = again
        return compiled

    def _takes_away(self, compiled: Compiled) -> bool:
        running = self.generation
        if compiled.program is None:
            return False
        return not all(
            getattr(running.program, field).keys() <= getattr(compiled.program, field).keys() for field in BLOCK_FIELDS
        )

    def _refuse_emptied(self, compiled: Compiled) -> None:
        """Raise UsageError for a file that declared something and is blank now: an interrupted save leaves it so."""
        emptied = sorted(self._filled & compiled.blank)
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
            if not running.number or await generated.version(self.secrets) == self._secrets_version:
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
        declared, made = self.generation.mounts, self.dynamic_routes.mounts
        self.mounts = MappingProxyType({**made, **declared})
        self.table = self.dynamic_routes.table.joined(self.generation.table)

    def _report(self, problems: Sequence[ReloadError], *, again: bool = False) -> None:
        """Log the reasons why nothing changed, once; `again`: also if they were logged before."""
        if self.problem == problems[0] and not again:
            return
        self.problem = problems[0]
        self.metrics.reloads.add("refused")
        for problem in _most(problems):
            log.error("reload_rejected", problem=problem.text())

    async def _swap(self, compiled: Compiled, began: float) -> None:
        """Load the generation of `compiled`. `began`: when reading its files began, in monotonic seconds."""
        assert compiled.program is not None
        previous = self.generation.program
        generation, removed = await self._replace(compiled.program)
        self._digest, self.problem, self.resumed, self._not_running = compiled.digest, None, False, None
        self._filled = compiled.filled
        self.metrics.reloads.add("loaded")
        self.metrics.reload_seconds.observe(self.clock.monotonic() - began)
        for warning in _most([*generation.warnings, *compiled.warnings]):
            log.warning("program_warning", warning=warning)
        for entry in _most(removed):
            log.warning("webhook_removed", webhook=entry.name, path=entry.path)
        for entry in _most([entry for entry in generation.mounts.values() if entry.problem]):
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
                partial(last_program.keep, self.root, self.database.keys, self.paths, compiled.compilation.sources)
            )
            await self._wake_turns(previous)

    async def _wake_turns(self, previous: Program) -> None:
        try:
            woken = await wake_after(previous, self.generation.program, self.database, self.clock)
        except Unavailable as error:
            # They go on after the next start.
            log.warning("turns_not_woken", reason=str(error))
        else:
            if woken:
                self.on_queued()

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
        version = await generated.version(self.secrets)
        generation = await build(
            previous.number + 1,
            program,
            previous,
            opening=self._opening(),
            servers=ServerOpener(self.pools.servers, self.servers, self.root.state, self.root.folder),
            again=again,
            activate=self._activate_one,
            lock=self._loading,
        )
        removed = _removed(previous, generation)
        self.metrics.deliveries.declare(generation.mounts)
        self.generation, self._secrets_version = generation, version
        if program is not previous.program:
            # Set together with the routes: a reader that sees a webhook removed also sees its name here.
            self.removed = tuple(f"{entry.name} ({entry.path})" for entry in removed)
        self._join()
        await self._activate(generation, previous)
        await previous.retire()
        return generation, removed

    def _opening(self) -> MemoryOpener:
        index_folder = self.root.state / INDEXES if self._searching else None
        environment = self.settings.environment
        return MemoryOpener(self.root.folder, index_folder, self.secrets, self.pools, environment, self.switches)

    async def start_background(self, start: Start) -> None:
        """Keep indexes in step and servers connected in the background from now on, in tasks that `start` creates, also
        after a reload."""
        self._start = start
        async with self._loading:
            await self._activate(self.generation, None)

    async def _activate(self, generation: Generation, previous: Generation | None) -> None:
        """Activate the memories and the servers of `generation`; stop the background tasks of memories that only
        `previous` has."""
        used = {memory.indexer for memory in generation.opened}
        for memory in previous.opened if previous else ():
            if memory.indexer not in used:
                await memory.indexer.stop_background()
        for memory in generation.opened:
            await self._activate_one(memory)
        for server in generation.servers.values():
            if server.connection is not None and self._start is not None:
                server.connection.start(self._start)

    async def _activate_one(self, memory: OpenMemory) -> None:
        if memory.store not in self._watched_stores:
            self._watched_stores.add(memory.store)
            memory.store.subscribe(on_fatal=lambda error: self.on_fatal(str(error)))
            match memory.store:
                case RecallStore():
                    self.services.on_change(memory.store.changed)
                case TaskItems():
                    self.tasks.on_change = memory.store.changed
        await memory.activate(self._start, name=_NAMES.get(type(memory.store)))


_NAMES: Final[Mapping[type[Store], str]] = {RecallStore: RECALLED, TaskItems: TODO}
"""The names of tasks that keep an index which is no memory of the program."""


def _approvals(root: Root, database: Database) -> Approvals:
    """Return the approvals of a root, whose file only a process with the keys of the database can write."""
    key = database.keys.derive("mcp server approvals")
    return Approvals(lambda: root.read(APPROVALS_FILE), lambda content: root.write(APPROVALS_FILE, content), key)


def refuse_another_database(root: Root, settings: ProcessSettings) -> None:
    """Raise UsageError if the state of `root` was last stored in PostgreSQL and `settings` name no database.

    The database URL may contain a password and is not stored; the file in the root would have other secrets.
    """
    last = root.read(PROGRAM_FILE).get("database")
    if settings.database is None and str(last).startswith("postgresql:"):
        raise UsageError(f"the state of {root.folder} is in {last}", hint="set SYMBIONT_DATABASE to its URL")


def _removed(before: Generation, after: Generation) -> list[MountedWebhook]:
    """Return the webhooks of `before` that `after` does not mount."""
    if before.mounts.keys() <= after.mounts.keys():
        return []
    return [entry for name, entry in before.mounts.items() if name not in after.mounts]


def _most(lines: Sequence[Line]) -> Sequence[Line]:
    """Return the first MOST_LINES of `lines`; the number of the others is logged. Each line takes the event loop's
    time."""
    if len(lines) > MOST_LINES:
        log.warning("log_lines_omitted", lines=len(lines) - MOST_LINES)
    return lines[:MOST_LINES]
