"""The open state of a root, the same for every generation."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import structlog

from dslc.blocks.agent import Agent
from runtime.agents.act import refuses_at_limit
from runtime.agents.services import AgentServices
from runtime.clock import SYSTEM, Clock
from runtime.daemon.opening.memories import ResourcePools
from runtime.daemon.process.master_rotation import open_database
from runtime.daemon.process.root import APPROVALS_FILE, Root
from runtime.daemon.process.root_owner import is_for_another
from runtime.daemon.process.settings import ProcessSettings
from runtime.database.connection import Database
from runtime.database.resealing import Resealing
from runtime.identity.tokens import Tokens
from runtime.identity.user_settings import UserSettingsStore
from runtime.memory.item import Item
from runtime.memory.store import text_bytes
from runtime.metrics.instruments import OTHER
from runtime.metrics.metrics import Metrics
from runtime.models.budgets.budgets import Budgets
from runtime.models.budgets.limits import NANO, UNLIMITED, Limits, limits_of
from runtime.models.calls.call import Call
from runtime.models.calls.counted_calls import CallContext
from runtime.models.calls.service import Services
from runtime.models.calls.usage import UsageLog
from runtime.secrets.backend import SecretContext
from runtime.tables.postgres.database import PostgresTables
from runtime.tables.sql_database import SqlDatabase
from runtime.tables.sqlite.database import SqliteTables
from runtime.tables.storage import UserStorage
from runtime.tables.texts import TextStorage
from runtime.tasks.store import TaskStore
from runtime.tool_servers.approvals import Approvals
from runtime.tool_servers.logins import Logins
from runtime.tool_servers.server import ServerRegistry
from runtime.tools import TOOLS
from runtime.tools.failure import outcome_of
from runtime.tools.user_limits import UserLimits
from runtime.webhooks.request.refusal import REASONS
from runtime.webhooks.routing.dynamic_routes import DynamicRoutes
from runtime.webhooks.routing.dynamic_webhooks import DynamicWebhooks

log = structlog.get_logger("symbiont.reload")

AgentOf = Callable[[str], Agent | None]
"""Returns the block of an agent in the running program; None without one."""


class RootState:
    """The database and the keys of a root, what users have stored, the services that models are called through, and the
    webhooks made at run time. `sql`: the SQL tables of users."""

    def __init__(self, root: Root, settings: ProcessSettings, database: Database, clock: Clock) -> None:
        self.root = root
        self.settings, self.switches = settings, settings.switches
        self.database = database
        self.clock = clock
        # The superuser's environment is not available to a program of another user, whose rights the superuser has
        # taken on.
        environ = {} if is_for_another() else os.environ
        self.secrets = SecretContext(environ, root.folder, database, database.keys, clock)
        self.usage, self.resealing = UsageLog(database, clock), Resealing(database, clock)
        self.user_settings = UserSettingsStore(database, clock)
        self.agent_of: AgentOf = lambda _name: None
        self.budgets = Budgets(
            database,
            clock,
            self.user_settings,
            of_agent=self._limits_of,
            of_users=settings.user_limits,
            waits=self._waits_at_limit,
        )
        self.storage = UserStorage(database, clock, self.user_settings, settings.tiers, settings.tier)
        self.texts = TextStorage(database, clock, self.storage)
        self.limits = UserLimits(self.budgets, self.storage, self.texts)
        self.tasks = TaskStore(database, clock, per_hour=settings.tasks_per_hour)
        self.sql: SqlDatabase | None = None
        self.pools = ResourcePools(calls=CallContext(Services(clock), self._record_call, clock, self.budgets.reserve))
        self.metrics = Metrics(REASONS)
        self.budgets.on_exceeded = self.metrics.budget_exceeded.add
        self.metrics.agent_budget_used.ask = self.budgets.shares
        self.metrics.model_waiting.ask = self.pools.calls.services.waiting
        self.metrics.sql_connections.ask = lambda: None if self.sql is None else self.sql.connections
        self.services = AgentServices(database, clock)
        self.tokens = Tokens(database, clock)
        self.servers = ServerRegistry(_approvals(root, database), Logins(database, clock))
        self.dynamic_webhooks = DynamicWebhooks(database, clock)
        self.dynamic_routes = DynamicRoutes(database, clock, self.dynamic_webhooks)

    @classmethod
    @asynccontextmanager
    async def open(
        cls, root: Root, settings: ProcessSettings, clock: Clock = SYSTEM, *, changes: bool = True
    ) -> AsyncIterator[RootState]:
        """Open the state of `root`; `changes`: see `open_database`. Raises UsageError in one line for a database or key
        that cannot be used."""
        async with AsyncExitStack() as stack:
            database = await open_database(root, settings, changes=changes)
            stack.push_async_callback(database.close)
            if database.upgraded:
                log.warning("database_upgraded", what=database.upgraded)
            state = cls(root, settings, database, clock)
            state.sql = await _open_sql(database, root.state, state.storage)
            stack.callback(state.secrets.close)
            stack.push_async_callback(state._close)
            yield state

    async def _close(self) -> None:
        if self.sql is not None:
            await self.sql.close()
        await self.texts.flush()
        self.usage.store_pending()

    def count_call(self, name: str, error: BaseException | None) -> None:
        """Count a call of a tool, and the exception that ended it, if any."""
        tool = TOOLS.get(name)
        self.metrics.tool_calls.add(OTHER if tool is None else name, outcome_of(error, tool))

    def count_items(self, items: Iterable[Item]) -> None:
        """Count items that were written to files, see `TextStorage`."""
        for item in items:
            self.database.keys.texts.add(item.user_id, text_bytes(item))

    def _record_call(self, call: Call) -> None:
        """Store and count a call of a model or an embedding."""
        self.usage.add(call)
        label = f"embedding/{call.name}" if call.purpose == "embedding" else call.name
        self.metrics.model_called(
            label, call.outcome, call.seconds, (call.usage.tokens_in, call.usage.tokens_out, call.usage.cached)
        )
        if call.cost:
            self.metrics.model_cost.add(label, call.purpose, call.cost / NANO)

    def _limits_of(self, agent: str) -> Limits:
        """Return the limits that the running program gives an agent."""
        declared = self.agent_of(agent)
        return UNLIMITED if declared is None else limits_of(declared)

    def _waits_at_limit(self, agent: str) -> bool:
        declared = self.agent_of(agent)
        return declared is not None and not refuses_at_limit(declared, asked=True)


def _approvals(root: Root, database: Database) -> Approvals:
    """Return the approvals of a root, whose file only a process with the keys of the database can write."""
    key = database.keys.derive("mcp server approvals")
    return Approvals(partial(root.read, APPROVALS_FILE), partial(root.write, APPROVALS_FILE), key)


async def _open_sql(database: Database, state: Path, storage: UserStorage) -> SqlDatabase:
    """Return the SQL tables of the users of `database`; its `problem` says why there are none. What it needs is opened
    when it is first used. `state`: the state folder of the root."""
    match database.kind:
        case "sqlite":
            return SqliteTables(database, state, storage)
        case "postgresql":
            tables = PostgresTables(database, storage)
            await tables.look()
            return tables
