"""Calls that reserve, and use what a test says; without a model."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import text

from runtime.clock import Clock
from runtime.database import bulk
from runtime.database.connection import Database
from runtime.database.schema import users
from runtime.identity.user_settings import UserSettingsStore
from runtime.models.budgets.budgets import Budgets, CallEstimate, Reservation
from runtime.models.budgets.limits import UNLIMITED, Amount, Limits
from runtime.models.calls.call import Call, CallOwner
from runtime.models.calls.usage import UsageLog
from runtime.models.request import Usage


class Spending:
    """The budgets of one daemon. `agents`: limits by name of the agent."""

    def __init__(
        self, database: Database, clock: Clock, agents: Mapping[str, Limits], of_users: Limits = UNLIMITED
    ) -> None:
        self.database = database
        self.agents = dict(agents)
        self.log = UsageLog(database, clock)
        self.settings = UserSettingsStore(database, clock)
        self.budgets = Budgets(
            database,
            clock,
            self.settings,
            of_agent=lambda agent: self.agents.get(agent, UNLIMITED),
            of_users=of_users,
        )
        self._clock = clock

    async def limit(self, user: str, tokens: int | None) -> None:
        """Set the `tokens_per_day` of a user, who is added if there is none."""
        columns, row = ("user_id", "name", "created_at"), (user, user, 0)
        await self.database.transact(lambda connection: bulk.insert(connection, users, columns, [row], ignore=True))
        await self.settings.change(user, {"tokens_per_day": tokens})

    async def reserve(self, most: Amount, user: str = "ada", agent: str = "helper") -> Reservation | None:
        """Raises BudgetExceeded."""
        return await self.budgets.reserve(user, agent, lambda: CallEstimate(most.tokens, most.cost, "fast"))

    def end(self, reserved: Reservation | None, used: Amount, user: str = "ada", agent: str = "helper") -> None:
        """Store the end of a call that used so much."""
        at = int(self._clock.now() * 1000) if reserved is None else reserved.at
        held = None if reserved is None else reserved.id
        owner = CallOwner(user, agent)
        self.log.add(Call(owner, "chat", "fast", "m-1", Usage(used.tokens, 0), None, 0.1, "answered", at, used, held))


async def counted(database: Database, *, user: str = "", agent: str = "") -> Amount:
    """Return what counts against the limits of a total: of ended calls, and of others. One statement, one moment."""
    sums = " + ".join(
        f"(SELECT coalesce(sum({{column}}), 0) FROM {table} WHERE user_id = :user AND agent = :agent)"
        for table in ("usage_totals", "reservations")
    )
    query = text(f"SELECT {sums.format(column='tokens')}, {sums.format(column='cost')}")
    async with database.read() as connection:
        row = (await connection.execute(query, {"user": user, "agent": agent})).one()
    return Amount(int(row[0]), int(row[1]))
