"""TABLE of background tasks: what makes each of them, and which switches stop it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias

from runtime import switches
from runtime.agents.dispatcher import Dispatcher
from runtime.daemon.process.supervisor import Supervisor
from runtime.daemon.process.systemd import Notifier
from runtime.daemon.program.app import RECALLED, TODO, App
from runtime.daemon.program.key_upkeep import KeyUpkeep
from runtime.daemon.program.upkeep import (
    compact_on_schedule,
    look_at_models,
    look_at_state,
    reload_on_changes,
    reload_on_installs,
)
from runtime.daemon.program.user_removal import Removal
from runtime.database.notifications import Notifications
from runtime.extension_table import table_of
from runtime.secrets import BACKENDS
from runtime.secrets.backend import SecretBackend
from runtime.switches import Switches
from runtime.tables.kv.expiry import Expiry
from runtime.threads.events.other_daemons import OtherDaemons
from runtime.webhooks.audit.audit import Audit
from runtime.webhooks.deliveries.expiry_clock import SlowClock
from runtime.webhooks.deliveries.retention import Retention

Work: TypeAlias = Coroutine[Any, Any, None]


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonParts:
    """The parts of a daemon that work in the background. `guard`: watches the database and the program."""

    app: App
    audit: Audit
    dispatcher: Dispatcher
    notifications: Notifications
    retention: Retention
    notifier: Notifier
    other_daemons: OtherDaemons
    keys: KeyUpkeep
    guard: Callable[[], Work]


@dataclass(frozen=True, slots=True)
class BackgroundTask:
    """One row. `name`: of the task; one that ends with `*` is of several tasks, whose names begin so.

    `make`: returns its work, at the start of the daemon; None for one that is started elsewhere, or when it is needed.
    `stopped_by`: names of the switches of which each stops it.
    """

    name: str
    make: Callable[[DaemonParts], Work] | None = None
    stopped_by: tuple[str, ...] = ()

    def is_of(self, name: str) -> bool:
        """Return True if this is the row of the task `name`."""
        return name == self.name or (self.name.endswith("*") and name.startswith(self.name[:-1]))


def _secrets() -> Iterator[BackgroundTask]:
    """Return a row for each backend that keeps secrets up to date."""
    for name, backend in BACKENDS.items():
        if backend.keep is not None:
            yield BackgroundTask(f"secrets of {name}", partial(_keep_secrets, backend))


def _keep_secrets(backend: SecretBackend, parts: DaemonParts) -> Work:
    assert backend.keep is not None
    return backend.keep(parts.app.state.secrets)


def _expiry(app: App) -> Expiry:
    return Expiry(app.state.database, app.state.clock, app.state.storage, SlowClock(app.state.clock).milliseconds)


_AGENTS: Final = (switches.AGENTS,)

TASKS: Final = table_of(
    "background task",
    [
        BackgroundTask("audit", lambda parts: parts.audit.run()),
        BackgroundTask("dispatcher", lambda parts: parts.dispatcher.run(), _AGENTS),
        BackgroundTask("watch", lambda parts: reload_on_changes(parts.app)),
        BackgroundTask("installed packages", lambda parts: reload_on_installs(parts.app)),
        BackgroundTask("guard", lambda parts: parts.guard()),
        BackgroundTask("admin socket"),
        BackgroundTask("models", lambda parts: look_at_models(parts.app), _AGENTS),
        BackgroundTask("readiness", lambda parts: look_at_state(parts.app)),
        BackgroundTask("notifications", lambda parts: parts.notifications.run()),
        BackgroundTask("events of other daemons", lambda parts: parts.other_daemons.run(), _AGENTS),
        BackgroundTask("retention", lambda parts: parts.retention.run()),
        BackgroundTask("dynamic webhooks", lambda parts: parts.app.state.dynamic_routes.run()),
        BackgroundTask("tokens", lambda parts: parts.app.state.tokens.run()),
        # Of memories, by their retention; threads are summarized in runs.
        BackgroundTask("compaction", lambda parts: compact_on_schedule(parts.app)),
        BackgroundTask("removed users", lambda parts: Removal(parts.app).run()),
        BackgroundTask("expired entries", lambda parts: _expiry(parts.app).run()),
        BackgroundTask("sizes of texts", lambda parts: parts.app.state.texts.run()),
        BackgroundTask("keys", lambda parts: parts.keys.run()),
        *_secrets(),
        BackgroundTask("watchdog", lambda parts: parts.notifier.watch()),
        # Of memories and servers, started with their generation.
        BackgroundTask(f"index of {RECALLED}", stopped_by=_AGENTS),
        BackgroundTask(f"embedding of {RECALLED}", stopped_by=(switches.AGENTS, switches.EMBEDDING)),
        BackgroundTask(f"index of {TODO}"),
        BackgroundTask(f"embedding of {TODO}"),
        BackgroundTask("index of *"),
        # The memories of agents wait by themselves while `agent_embedding` is off.
        BackgroundTask("embedding of *"),
        BackgroundTask("edits in *"),
        BackgroundTask("mcp server *", stopped_by=(switches.AGENTS, switches.TOOLS)),
        # Started by an event.
        BackgroundTask("reload"),
        BackgroundTask("changed keys"),
        # Of a process that is no daemon.
        BackgroundTask("end"),
    ],
)
"""Every background task of a process that owns a root."""


def row_of(name: str) -> BackgroundTask:
    """Return the row of the task `name`. Raises KeyError for a task that is not in the table."""
    for row in TASKS.values():
        if row.is_of(name):
            return row
    raise KeyError(f"the background task {name} is not in the table")


def supervisor(settings: Switches) -> Supervisor:
    """Return a supervisor that starts the tasks of the table, but those that a switch stops."""
    return Supervisor(lambda name: all(map(settings.on, row_of(name).stopped_by)))


def start_all(tasks: Supervisor, parts: DaemonParts) -> None:
    """Start every task of a daemon that no event starts."""
    for row in TASKS.values():
        if row.make is not None:
            tasks.start(row.name, row.make(parts))
