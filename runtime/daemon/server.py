"""The daemon. `serve` reads top to bottom: own, open, load, listen, watch; then stop in reverse order."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import structlog
from aiohttp import web

from dslc.blocks.agent import Agent
from dslc.program import Program
from runtime.agents.act import act
from runtime.agents.dispatcher import Dispatcher
from runtime.agents.thread_modes import retentions
from runtime.agents.turn import Turn
from runtime.api.admin.readiness import unmounted_webhooks
from runtime.daemon.listeners.operators import admin, operators
from runtime.daemon.listeners.sockets import (
    AdminSocket,
    Runner,
    address_of,
    bind,
    is_loopback,
    listen,
    listen_public,
)
from runtime.daemon.process.open_files import room_for, room_for_operators
from runtime.daemon.process.root import PROVEN_FILE, Root, is_owned, own
from runtime.daemon.process.settings import ProcessSettings
from runtime.daemon.process.systemd import Notifier
from runtime.daemon.program.app import App
from runtime.daemon.program.key_upkeep import KeyUpkeep
from runtime.daemon.program.reload import CompiledSources, compile_paths
from runtime.daemon.program.upkeep import check_database
from runtime.daemon.tasks import DaemonParts, start_all, supervisor
from runtime.database.errors import Unavailable
from runtime.database.notifications import EVENTS, INBOX, KEYS, WEBHOOKS, Notifications
from runtime.errors import Parked, UsageError
from runtime.http.aiohttp_private import parses_strictly
from runtime.http.error import ERRORS
from runtime.http.limits import HttpLimits
from runtime.http.server import Server
from runtime.identity import users
from runtime.identity.caller import Caller, Scope
from runtime.outbound.key_store import KeyStore
from runtime.switches import SwitchedOff
from runtime.threads import thread_retention
from runtime.threads.events.other_daemons import OtherDaemons
from runtime.threads.inputs import ClaimedInput
from runtime.threads.run import SWITCHED_OFF
from runtime.threads.run_log import RunLog
from runtime.threads.turns.concurrency import ConcurrencyLimits
from runtime.threads.turns.turn import AgentGone
from runtime.tools.agent.access import model_of
from runtime.tools.agent.overrides import OwnAgent
from runtime.tools.context import ActingAgent
from runtime.webhooks.audit.audit import Audit
from runtime.webhooks.deliveries.delivery import ClaimedDelivery
from runtime.webhooks.deliveries.inbox import Inbox
from runtime.webhooks.deliveries.retention import Retention
from runtime.webhooks.deliveries.storage_usage import StorageUsage
from runtime.webhooks.receiving.address_limit import AddressLimit
from runtime.webhooks.receiving.admission import Admission
from runtime.webhooks.receiving.receiver import Receiver
from runtime.webhooks.schemes.scheme import KeyNeeded

log = structlog.get_logger("symbiont.daemon")

Announce = Callable[[App, Mapping[str, str]], None]

LOOKS_FOR_CYCLES = (2_500, 4, 5_000)
"""Arguments of gc.set_threshold: number of new objects after which the youngest generation is collected, and numbers of
collections of a generation after which the next one is collected."""
AGENT_SCOPES: Final[frozenset[Scope]] = frozenset({"write"})
"""Scopes of an agent for the user of its turn: read and write."""

GUARD_SECONDS = 1
OPERATORS_SECONDS = 2
"""Seconds for which a stop waits for operators' requests; aiohttp's default of a minute outlasts the service
manager. Also how long an unread body is read."""

# No handler reads compressed bodies, and a client without access must not have any inflated.
_COMMANDS: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "access_log": None,
        "shutdown_timeout": OPERATORS_SECONDS,
        "lingering_time": OPERATORS_SECONDS,
        "auto_decompress": False,
    }
)


async def serve(
    find: Callable[[], Root],
    settings: ProcessSettings,
    paths: Sequence[Path],
    *,
    is_new: bool,
    announce: Announce,
    refuse: Callable[[CompiledSources], None],
) -> int:
    """Run until SIGTERM or SIGINT. Returns the exit status: 0 after a requested stop, 1 after a failure, 2 if the first
    program has errors.

    `find` returns the root; if it `is_new`, it is created only after the ports are bound and the program compiled
    without errors. `announce` is called once, when everything listens, with the names of users by id; `refuse` if the
    first program has errors, and nothing is started then. Raises UsageError for a problem that the user can fix before
    the start.
    """
    if not parses_strictly():
        raise UsageError(
            "aiohttp lacks its parser in C, which both listeners need",
            hint="unset AIOHTTP_NO_EXTENSIONS, or install one of its wheels",
        )
    # Requests create and free thousands of small objects; the default threshold of 700 would start a collection every
    # few requests. A reload creates millions, and all threads wait for a collection, so all but the rare full ones
    # visit few objects.
    gc.set_threshold(*LOOKS_FOR_CYCLES)
    with ExitStack() as stack:
        root = None if is_new else _own_root(find, stack)
        # The ports are bound before the state is opened: they are the most likely problem, and nothing has been changed
        # yet.
        public = stack.enter_context(bind("--listen", settings.listen))
        private = stack.enter_context(bind("--admin-listen", settings.admin_listen))
        if root is None:
            compiled = await compile_paths([path.absolute() for path in paths])
            if compiled.program is None:
                refuse(compiled)
                return 2
            root = _own_root(find, stack)
        async with App.open(root, settings) as app:
            compiled = await app.start(paths)
            if not app.generation.number:
                refuse(compiled)
                return 2
            app.remember_program()
            # A program may consist of tens of thousands of objects that live until the next program: no collection
            # visits them.
            gc.collect()
            gc.freeze()
            stopped_well = await Daemon(app, Notifier(os.environ)).run(public, private, announce)
    log.info("stopped")
    return 0 if stopped_well else 1


def _own_root(find: Callable[[], Root], stack: ExitStack) -> Root:
    root = find()
    stack.enter_context(own(root))
    return root


def _room(connections: int) -> int:
    """Return the number of senders' connections that may be open; logged if it is fewer than configured."""
    room = room_for(connections)
    if room < connections:
        log.warning("connections_limited", asked=connections, room=room)
    return room


class Daemon:
    """The parts that serve an app, wired together."""

    def __init__(self, app: App, notifier: Notifier) -> None:
        self._app = app
        self._notifier = notifier
        self._serving = False
        # False under nohup(1): the end of its terminal must not stop such a process.
        self._had_terminal = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN and _has_terminal()
        self._drained_by = 0.0
        self._tasks = supervisor(app.state.switches)
        settings, database, clock = app.state.settings, app.state.database, app.state.clock
        database.on_fatal = lambda error: self._tasks.fail(str(error))
        database.outage.on_change = self._note_storage
        app.daemon.on_fatal = self._tasks.fail
        database.commits.on_commit = app.state.metrics.committed
        self._audit = app.daemon.audit = Audit(database, clock)
        self._notifications = Notifications(database)
        self._dispatcher = Dispatcher(
            database,
            clock,
            [
                Inbox(database, clock, limits=self._concurrency, on_ended=app.state.services.note_ends),
                app.state.services.inputs,
            ],
            self._run_agent,
            workers=settings.workers,
            on_full=lambda: self._notifications.send(INBOX),
            stand_back=self._has_no_agent,
            has_model=self._has_model,
            metrics=app.state.metrics,
        )
        app.daemon.on_queued = self._dispatcher.wake
        app.daemon.cancel_run = self._dispatcher.cancel
        app.daemon.is_stopping = lambda: self._drained_by > 0
        other_daemons = OtherDaemons(database, clock)
        database.changes.on_publish = lambda: self._notifications.send(EVENTS)
        self._notifications.listen(EVENTS, other_daemons.on_announcement)
        self._notifications.listen(INBOX, self._dispatcher.on_announcement)
        self._notifications.listen(WEBHOOKS, self._look_at_dynamic)
        self._key_upkeep = KeyUpkeep(app, self._tasks.fail)
        self._notifications.listen(KEYS, self._look_at_keys)
        usage = StorageUsage(settings.keep_size)
        self._retention = Retention(
            database, clock, usage, keep_seconds=int(settings.keep_time.total_seconds()), also=self._delete_threads
        )
        self._admission = Admission(
            database, clock, capacity=settings.inbox_capacity, usage=usage, on_admitted=self._dispatcher.wake
        )
        addresses = AddressLimit(clock, trusted=settings.trusted_proxies, per_minute=settings.address_per_minute)
        self._keys = KeyStore(
            clock, proven=_proven_urls(app.state.root), on_proven=partial(_keep_proven, app.state.root)
        )
        self._parts = DaemonParts(
            app=app,
            audit=self._audit,
            dispatcher=self._dispatcher,
            notifications=self._notifications,
            retention=self._retention,
            notifier=notifier,
            other_daemons=other_daemons,
            keys=self._key_upkeep,
            guard=self._guard,
        )
        self._receiver = Receiver(
            lambda: app.table,
            self._admission,
            self._audit,
            clock,
            keys=self._keys.find,
            fetch=self._fetch_keys,
            prove=self._keys.prove,
            addresses=addresses,
            metrics=app.state.metrics,
        )

    async def run(self, public: socket.socket, private: socket.socket, announce: Announce) -> bool:
        """Serve on the bound sockets until a stop is requested; return False after a failure."""
        app, tasks = self._app, self._tasks
        drain = app.state.settings.drain_timeout.total_seconds()
        known = await users.names(app.state.database)
        limits = HttpLimits(connections=_room(app.state.settings.connections))
        app.state.metrics.refusals.also(ERRORS)
        hooks = Server(
            self._receiver.handle,
            limits,
            refuse=self._receiver.refuse,
            behind_proxies=app.state.settings.trusted_proxies > 0,
        )
        app.state.metrics.connections.ask = lambda: len(hooks.connections)
        for_operators = operators(app, self._is_serving, local=is_loopback(private))
        for_commands = admin(app, self._is_serving)
        async with AsyncExitStack() as stack:
            # Entered first, so left last: no more deliveries arrive when it is called.
            stack.push_async_callback(self._stop)
            await self._retention.open()
            most = HttpLimits(connections=room_for_operators(limits.connections))
            runner = Runner(for_operators, limits=most, shutdown_timeout=OPERATORS_SECONDS)
            await stack.enter_async_context(listen(runner, private))
            await stack.enter_async_context(listen_public(hooks, public, drain=drain))
            commands = AdminSocket(app.state.root, web.AppRunner(for_commands, **_COMMANDS), os.environ)
            await stack.enter_async_context(commands)
            app.daemon.addresses = {"public": address_of(public), "admin": address_of(private)}
            await commands.open(app.daemon.addresses)
            for reason in app.state.switches.reasons:
                log.warning("switched_off", reason=reason)
            start_all(tasks, self._parts)
            tasks.start("admin socket", commands.keep())
            await app.start_background(tasks.start)
            self._on_signals()
            try:
                self._serving = True
                announce(app, known)
                self._notifier.ready(self._status())
                await tasks.wait()
            finally:
                self._drained_by = asyncio.get_running_loop().time() + drain
                self._serving = False
                self._notifier.stopping()
                log.info("stopping")
        return not tasks.failed

    async def _fetch_keys(self, needed: KeyNeeded, address: str) -> None:
        named_by = address if needed.named else None
        await self._keys.fetch(needed.url, outdated=needed.outdated, configured=needed.configured, named_by=named_by)

    async def _delete_threads(self, now: int) -> int:
        """Delete threads that are older than the retention of their agents."""
        return await thread_retention.prune(self._app.state.database, retentions(self._app.generation.program), now)

    async def _stop(self) -> None:
        """Finish the stop after the last delivery arrived; accepted ones are on disk."""
        await self._keys.close()
        await self._dispatcher.stop(max(0.0, self._drained_by - asyncio.get_running_loop().time()))
        await self._tasks.cancel()
        await self._admission.close()
        await self._audit.close()
        await self._app.state.tokens.flush()

    def _concurrency(self) -> ConcurrencyLimits:
        return ConcurrencyLimits(self._app.generation.concurrency)

    def _has_no_agent(self) -> bool:
        """Return True if no agent of this program could run waiting deliveries while another daemon's may. Memories in
        files bind agents to one of the daemons that share a database, and this daemon must not turn deliveries for them
        into dead letters."""
        return self._app.state.database.kind == "postgresql" and not self._app.generation.agents

    def _has_model(self, name: str) -> bool:
        agent = self._app.generation.agent(name)
        return agent is not None and model_of(agent) is not None

    def _is_serving(self) -> bool:
        return self._serving

    def _note_storage(self, problem: str | None) -> None:
        if problem is not None:
            log.error("storage_unavailable", reason=problem)
        else:
            log.info("storage_recovered")
            self._app.state.usage.store_pending()

    async def _run_agent(self, turn: Turn, run_log: RunLog) -> str | None:
        """Run the agent of the generation that is current when the attempt begins. Returns how the run ended."""
        async with self._app.pinned() as generation:
            agent = generation.agent(turn.agent)
            if agent is None or not agent.enabled:
                raise AgentGone(turn.agent)
            caller, webhook = Caller(turn.user_id, AGENT_SCOPES, via="agent"), None
            match turn:
                case ClaimedDelivery():
                    webhook = turn.webhook
                case ClaimedInput():
                    # An agent may do no more than the person who asks it.
                    caller = Caller(turn.user_id, turn.scopes, via="agent")
            acting = ActingAgent(turn.agent, turn.run_id, turn.thread_id, attempt=turn.attempt)
            own = await self._own_agent(generation.program, agent, turn.user_id)
            return await act(turn, run_log, self._app.contexts.agent(own, caller, acting, webhook))

    async def _own_agent(self, program: Program, agent: Agent, user_id: str) -> OwnAgent:
        """Return an agent of the program as it is for a user. Raises Parked while the user has switched it off."""
        try:
            return await self._app.state.services.running_agent(program, agent, user_id)
        except SwitchedOff as error:
            raise Parked(str(error), state=SWITCHED_OFF, until=None, hint=error.hint) from None

    async def _guard(self) -> None:
        """Stop when the database belongs to another process, retry a reload that failed for a reason outside the files,
        and update the status line of the service manager."""
        app = self._app
        shown: object = None
        while True:
            await app.state.clock.sleep(GUARD_SECONDS)
            await check_database(app, self._tasks.fail)
            if not is_owned(app.state.root):
                self._tasks.fail(f"the lock of {app.state.root.folder} was removed, so another process may use it too")
            if app.state.database.kind == "postgresql":
                with contextlib.suppress(Unavailable):
                    await app.follow_secrets()
            if app.problem is not None and app.problem.file is None:
                await app.reload()
            if shown != (now := (app.mounts, app.problem, app.storage_problem, app.red_checks)):
                shown = now
                self._notifier.status(self._status())

    def _on_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._tasks.stop)
        loop.add_signal_handler(signal.SIGHUP, self._on_hangup)

    def _on_hangup(self) -> None:
        if self._had_terminal and not _has_terminal():
            log.info("terminal_closed")
            self._tasks.stop()
        else:
            self._tasks.start("reload", self._reload())

    def _look_at_dynamic(self) -> None:
        self._tasks.start("dynamic webhooks", self._app.state.dynamic_routes.look())

    def _look_at_keys(self) -> None:
        self._tasks.start("changed keys", self._key_upkeep.follow_notification())

    async def _reload(self) -> None:
        self._notifier.reloading()
        await self._app.reload(force=True)
        self._notifier.ready(self._status())

    def _status(self) -> str:
        app = self._app
        status = f"{len(app.table)} webhooks on {app.daemon.addresses['public']}"
        if missing := unmounted_webhooks(app.mounts):
            status += f"; {len(missing)} not mounted"
        if app.storage_problem is not None:
            status += f"; deliveries cannot be stored: {app.storage_problem}"
        if app.red_checks:
            status += f"; {app.red_checks[0].check}: {app.red_checks[0].text}"
        if app.problem is not None:
            status += f"; the last program was refused: {app.problem.text()}"
        # Each line is one message to the service manager.
        return " ".join(status.split())


def _has_terminal() -> bool:
    """Return True if this process still has the terminal that it was started from."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


def _proven_urls(root: Root) -> list[str]:
    kept = root.read(PROVEN_FILE).get("urls")
    return [url for url in kept if isinstance(url, str)] if isinstance(kept, list) else []


def _keep_proven(root: Root, urls: Sequence[str]) -> None:
    # Deliveries are verified without the file; after a restart they share the budget of unproven documents.
    with contextlib.suppress(OSError):
        root.write(PROVEN_FILE, {"urls": list(urls)})
