"""`agent_usage`: sums of calls by agent, model, user and day, and who sees which."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from runtime.clock import milliseconds
from runtime.database.connection import Database
from runtime.errors import NotFound
from runtime.identity import users
from runtime.identity.caller import Caller, Forbidden, Scope
from runtime.models.budgets.limits import Amount, Limits
from runtime.models.calls.call import Call, CallOwner
from runtime.models.request import Usage
from runtime.tools import TOOLS
from runtime.tools.user_limits import UserLimits
from tests.clocks import ManualClock, until
from tests.runtime.api.app import App
from tests.runtime.models.budgets.spending import Spending

DAY = 86_400
LIMITS = Limits(tokens_per_day=1000, cost_per_day=4_000_000_000)


class World:
    """Two users, whose calls are stored."""

    def __init__(self, database: Database, clock: ManualClock, ada: str, bob: str) -> None:
        self.app = App(database, clock)
        self.ids = {"ada": ada, "bob": bob}
        self.app.declared = ("helper", "scout")
        self.spending = Spending(database, clock, {"helper": LIMITS}, of_users=Limits(runs_per_hour=5))
        self._clock = clock

    def call(self, user: str, agent: str | None = "helper", name: str = "fast", **changes: Any) -> None:
        now, counts = milliseconds(self._clock), Amount(130, 1_000_000_000)
        owner = CallOwner(self.ids[user], agent)
        call = Call(owner, "chat", name, "m-1", Usage(100, 30, 7), 1_000_000_000, 0.1, "answered", now, counts)
        self.spending.log.add(call._replace(**changes))

    async def usage(self, *, scope: Scope = "read", **given: Any) -> dict[str, Any]:
        """Call the tool for ada."""
        context = self.app.context(Caller(self.ids["ada"], frozenset({scope})))
        shown = await TOOLS["agent_usage"].call(replace(context, limits=UserLimits(self.spending.budgets)), given)
        return shown.model_dump()


@pytest.fixture
async def world(database: Database, clock: ManualClock) -> World:
    ada, bob = [await users.add(database, name, milliseconds(clock)) for name in ("ada", "bob")]
    made = World(database, clock, ada, bob)
    clock.advance(-DAY)
    made.call("ada")
    clock.advance(DAY)
    made.call("ada")
    made.call("ada", name="slow", outcome="refused", usage=Usage(), cost=None, counts=Amount())
    made.call("ada", None, name="openai", purpose="embedding", usage=Usage(50), cost=None, counts=Amount())
    made.call("bob")
    made.call("bob")
    await until(lambda: database.commits._task is None)
    return made


def rows(answer: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    return {
        row["name"]: (row["calls"], row["unanswered"], row["unpriced"], row["tokens_in"], row["tokens_out"])
        for row in answer["rows"]
    }


async def test_the_same_calls_are_added_up_by_each_group(world: World) -> None:
    everyone: dict[str, Any] = {"scope": "admin"}
    assert rows(await world.usage(by="user", **everyone)) == {"bob": (2, 0, 0, 200, 60), "ada": (3, 1, 1, 150, 30)}
    assert rows(await world.usage(by="agent", **everyone)) == {"helper": (4, 1, 0, 300, 90), "-": (1, 0, 1, 50, 0)}
    assert rows(await world.usage(by="model", **everyone)) == {
        "fast": (3, 0, 0, 300, 90),
        "embedding/openai": (1, 0, 1, 50, 0),
        "slow": (1, 1, 0, 0, 0),
    }
    days = await world.usage(by="day", **everyone)
    assert rows(days) == {"2026-02-14": (5, 1, 1, 350, 90), "2026-02-13": (1, 0, 0, 100, 30)}
    assert (days["total"]["cost"], days["total"]["cached"]) == (4.0, 28)
    assert rows(await world.usage(agent="helper", since="2d", user="ada", **everyone)) == {"helper": (3, 1, 0, 200, 60)}


async def test_a_user_sees_their_own_calls_and_limits_alone(world: World) -> None:
    answer = await world.usage(by="user")
    assert rows(answer) == {"ada": (3, 1, 1, 150, 30)}
    assert [(use["user"], use["agent"], use["limit"]) for use in answer["limits"]] == [("ada", None, "runs_per_hour")]
    with pytest.raises(Forbidden):
        await world.usage(user="bob")
    with pytest.raises(Forbidden):
        await world.usage(user="nobody")
    with pytest.raises(NotFound, match="no agent is called 'nobody'"):
        await world.usage(agent="nobody")


async def test_an_administrator_sees_how_much_of_each_limit_is_used_and_reserved(world: World) -> None:
    await world.spending.reserve(Amount(110, 500_000_000), world.ids["bob"])
    uses = {
        (use["agent"] or use["user"], use["limit"]): (use["most"], use["used"], use["reserved"], use["share"])
        for use in (await world.usage(scope="admin"))["limits"]
    }
    assert uses == {
        ("helper", "tokens_per_day"): (1000, 390, 110, 0.5),
        ("helper", "cost_per_day"): (4.0, 3.0, 0.5, 0.875),
        ("ada", "runs_per_hour"): (5, 0, 0, 0),
        ("bob", "runs_per_hour"): (5, 0, 0, 0),
    }
