"""Limits hold for concurrent calls of several daemons, whatever happens to the calls."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from contextlib import suppress

import pytest
from sqlalchemy import Connection, select

from runtime.clock import SYSTEM
from runtime.database.connection import Database
from runtime.database.schema import reservations, runs
from runtime.identity.belongings import delete_rows
from runtime.models.budgets import budgets as budgets_module
from runtime.models.budgets.limits import Amount, BudgetExceeded, Limits
from tests.clocks import ManualClock, until
from tests.conftest import KEY
from tests.lanes import repeated
from tests.runtime.models.budgets.spending import Spending, counted

DAILY = Limits(tokens_per_day=1000)


async def settled(database: Database) -> None:
    """Wait until all writes so far are stored."""
    await until(lambda: database.commits._task is None)


async def refusal(spending: Spending, most: Amount, **whose: str) -> BudgetExceeded:
    with pytest.raises(BudgetExceeded) as caught:
        await spending.reserve(most, **whose)
    assert "\n" not in caught.value.line()
    return caught.value


# Concurrent calls.


AGENTS = {"helper": Limits(tokens_per_day=40_000, cost_per_day=9_000), "free": Limits(cost_per_day=5_000)}
MOST = {
    ("", "helper"): Amount(40_000, 9_000),
    ("", "free"): Amount(10**9, 5_000),
    ("ada", ""): Amount(20_000, 10**9),
}


@repeated("calls", 60, 1500)
async def test_what_ended_and_what_is_reserved_never_exceed_a_limit(
    database_url: str, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two daemons on one database (on SQLite two budgets of one), and a reader that looks all the time."""
    monkeypatch.setattr(budgets_module, "BUSY_SECONDS", 0.05)
    databases = [await Database.open(database_url, KEY)]
    if database_url.startswith("postgresql"):
        databases.append(await Database.open(database_url, KEY))
    try:
        daemons = [Spending(each, SYSTEM, AGENTS) for each in databases * (3 - len(databases))]
        await daemons[0].limit("ada", 20_000)
        exceeded: list[Amount] = []
        looking = asyncio.create_task(look(databases[0], exceeded))
        refused = await spend(daemons, calls)
        for each in databases:
            await settled(each)
        looking.cancel()
        await asyncio.wait([looking])

        assert not exceeded
        assert refused
        async with databases[0].read() as connection:
            assert not (await connection.execute(select(reservations))).all()
    finally:
        for each in databases:
            await each.close()


async def spend(daemons: Sequence[Spending], calls: int) -> int:
    """Make calls of random sizes, of which some are cancelled at any point. Returns how many were refused."""
    chance, at_once = random.Random(calls), asyncio.Semaphore(16)

    async def call(number: int) -> int:
        async with at_once:
            daemon, user = chance.choice(daemons), chance.choice(["ada", "bob"])
            agent, most = (
                chance.choice(["helper", "free", "unlimited"]),
                Amount(chance.randint(1, 4000), chance.randint(1, 900)),
            )
            reserving = asyncio.create_task(daemon.reserve(most, user, agent))
            if number % 7 == 0:
                await asyncio.sleep(chance.random() / 200)
                reserving.cancel()
            try:
                reserved = await reserving
            except BudgetExceeded:
                return 1
            except asyncio.CancelledError:
                return 0
            await asyncio.sleep(chance.random() / 500)
            share = chance.random()
            daemon.end(reserved, Amount(int(most.tokens * share), int(most.cost * share)), user, agent)
            return 0

    return sum(await asyncio.gather(*map(call, range(calls))))


async def look(database: Database, exceeded: list[Amount]) -> None:
    """Add what exceeds a limit to `exceeded`, until cancelled."""
    while True:
        for (user, agent), most in MOST.items():
            found = await counted(database, user=user, agent=agent)
            if found.tokens > most.tokens or found.cost > most.cost:
                exceeded.append(found)


async def test_no_more_runs_begin_in_an_hour_than_allowed_and_attempts_count_once(
    database: Database, clock: ManualClock
) -> None:
    spending = Spending(database, clock, {"helper": Limits(runs_per_hour=5)})
    await begun_runs(database, [str(number) for number in range(12)])

    async def begin(run_id: str) -> bool:
        with suppress(BudgetExceeded):
            await spending.budgets.begin(run_id, "ada", "helper", calls=True)
            return True
        return False

    attempts = [str(number) for number in range(12)] * 2
    began = {run for run, done in zip(attempts, await asyncio.gather(*map(begin, attempts)), strict=True) if done}
    assert len(began) == 5

    # Another attempt of one that began goes on, others wait for the next hour.
    assert [run for run in sorted(set(attempts)) if await begin(run)] == sorted(began)
    error = await spending.budgets.refusal("bob", "helper")
    assert error is not None
    assert (error.limit, error.until) == ("runs_per_hour", 1_771_066_800_000)
    clock.advance(30 * 60)
    assert await spending.budgets.refusal("bob", "helper") is None
    assert sum([await begin(run) for run in sorted(set(attempts))]) == 10


async def begun_runs(database: Database, ids: list[str]) -> None:
    made = {"user_id": "ada", "agent": "helper", "state": "running", "attempt": 1, "started_at": 1}

    def make(connection: Connection) -> None:
        connection.execute(runs.insert(), [{"id": each, **made} for each in ids])

    await database.transact(make)


# What counts.


async def test_a_call_waits_for_others_that_may_use_less_than_they_reserved(
    database: Database, clock: ManualClock
) -> None:
    spending = Spending(database, clock, {"helper": DAILY})
    first = await spending.reserve(Amount(800))
    second = asyncio.create_task(spending.reserve(Amount(800)))
    await until(lambda: clock.sleepers > 0)
    spending.end(first, Amount(150))
    while not second.done():
        clock.advance(1)
        await asyncio.sleep(0.001)

    assert await second is not None
    assert await counted(database, agent="helper") == Amount(950)


async def test_a_call_that_used_more_than_it_reserved_is_followed_by_none(
    database: Database, clock: ManualClock
) -> None:
    spending = Spending(database, clock, {"helper": DAILY})
    spending.end(await spending.reserve(Amount(100)), Amount(5000))
    error = await refusal(spending, Amount(1))

    assert (error.limit, error.fits_never) == ("tokens_per_day", False)
    assert str(error) == "the limit of the agent helper, 1,000 tokens per day, is used up"
    assert error.until == 1_771_113_600_000
    assert error.retry_after == 48_600


async def test_what_a_killed_daemon_left_counts_until_the_end_of_its_day(
    database: Database, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budgets_module, "BUSY_SECONDS", 0.0)
    await Spending(database, clock, {"helper": DAILY}).reserve(Amount(900))
    after = Spending(database, clock, {"helper": DAILY})

    await refusal(after, Amount(101))
    assert await after.reserve(Amount(100)) is not None
    clock.advance(86_400)
    assert await after.reserve(Amount(1000)) is not None


async def test_a_call_counts_for_the_day_on_which_it_began(database: Database, clock: ManualClock) -> None:
    spending = Spending(database, clock, {"helper": DAILY})
    clock.advance(13.5 * 3600 - 1)
    before_midnight = await spending.reserve(Amount(1000))
    clock.advance(2)
    assert await spending.reserve(Amount(1000)) is not None
    spending.end(before_midnight, Amount(700))
    await settled(database)

    # A clock that is set back finds what was used on that day.
    clock.step(-86_400)
    await refusal(spending, Amount(301))
    assert await spending.reserve(Amount(300)) is not None
    clock.step(86_400)
    await refusal(spending, Amount(1001))


async def test_a_call_without_limits_counts_for_those_that_come_later_and_writes_nothing_before(
    database: Database, clock: ManualClock
) -> None:
    """Also for another daemon, whose program has other limits."""
    commits: list[int] = []
    database.commits.on_commit = lambda writes, seconds: commits.append(writes)
    free = Spending(database, clock, {})
    reserved = await free.reserve(Amount(600))
    await free.budgets.begin("run-1", "ada", "helper", calls=True)
    assert (reserved, commits) == (None, [])
    free.end(reserved, Amount(600))
    await settled(database)
    assert commits == [1]

    error = await refusal(Spending(database, clock, {"helper": DAILY}), Amount(401))
    assert error.limit == "tokens_per_day"


async def test_a_user_has_the_default_their_own_limit_or_none(database: Database, clock: ManualClock) -> None:
    spending = Spending(database, clock, {}, of_users=Limits(tokens_per_day=100))
    await spending.limit("bob", 50)
    await spending.limit("eve", 0)
    await refusal(spending, Amount(101))
    await refusal(spending, Amount(51), user="bob")
    assert await spending.reserve(Amount(10**9), user="eve") is None
    await spending.limit("bob", None)
    assert await spending.reserve(Amount(100), user="bob") is not None
    # Over all agents.
    await refusal(spending, Amount(101), user="bob", agent="another")


async def test_a_call_that_can_never_fit_says_so(database: Database, clock: ManualClock) -> None:
    spending = Spending(database, clock, {"helper": Limits(tokens_per_day=1000, cost_per_day=500_000_000)})
    tokens, cost = await refusal(spending, Amount(1001, 1)), await refusal(spending, Amount(1, 500_000_001))

    assert tokens.fits_never
    assert str(tokens) == (
        "the limit of the agent helper, 1,000 tokens per day, is less than one call of the model may take, 1,001 tokens"
    )
    assert "$0.50 per day" in str(cost)
    assert "$0.500000001" in str(cost)


async def test_a_model_without_prices_is_not_called_under_a_limit_of_costs(
    database: Database, clock: ManualClock
) -> None:
    spending = Spending(database, clock, {"helper": Limits(cost_per_day=1)})
    with pytest.raises(BudgetExceeded, match="the model fast has no prices"):
        await spending.reserve(Amount(1, None))  # type: ignore[arg-type]


async def test_a_removed_user_takes_nothing_from_the_budget_of_an_agent(
    database: Database, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budgets_module, "BUSY_SECONDS", 0.0)
    spending = Spending(database, clock, {"helper": DAILY}, of_users=Limits(tokens_per_day=5000))
    spending.end(await spending.reserve(Amount(400)), Amount(400))
    running = await spending.reserve(Amount(500))
    await delete_rows(database, "ada")

    assert await counted(database, user="ada") == Amount()
    await refusal(spending, Amount(101), user="bob")
    spending.end(running, Amount(300))
    assert await spending.reserve(Amount(300), user="bob") is not None
    assert await counted(database, agent="helper") == Amount(1000)
