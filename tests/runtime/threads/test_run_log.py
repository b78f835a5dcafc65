"""The intent is recorded before the act, the result after it; a finished act is not repeated, and an uncertain one is
reported."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from sqlalchemy import Connection, select

from runtime.crypto import MasterKey
from runtime.database.connection import Database
from runtime.database.errors import Unavailable
from runtime.database.group_commit import Stage
from runtime.database.schema import runs, steps
from runtime.database.sealed import Seal
from runtime.errors import GiveUp, Retry
from runtime.threads import run
from runtime.threads.run_log import RunLog
from runtime.threads.step import INTENDED, StepUncertain, StepWrite, Superseded, store_steps
from tests.clocks import ManualClock

RUN = "00000000-0000-7000-8000-000000000000"
Begin = Callable[[int], Awaitable[RunLog]]


def _nothing(connection: Connection, items: Sequence[None]) -> Sequence[None]:
    return items


@pytest.fixture
def begin(database: Database, clock: ManualClock) -> Begin:
    """Begin an attempt, as a claim does."""

    async def attempt(number: int) -> RunLog:
        # Claims are written after everything that was queued before.
        await database.commits.store(Stage(9, _nothing), None)

        def claimed(connection: Connection) -> None:
            run.begin(connection, [run.Begin(RUN, "owner", "message", None, None, "agent", number, 1, new=number == 1)])

        await database.transact(claimed)
        return RunLog(database, clock, RUN, number)

    return attempt


class Act:
    """An act that counts its calls."""

    def __init__(self, *results: object) -> None:
        self.results = list(results)
        self.done = 0

    async def __call__(self) -> object:
        self.done += 1
        result = self.results.pop(0)
        if isinstance(result, BaseException):
            raise result
        return result


async def test_a_step_is_intended_before_it_acts_and_done_after(database: Database, begin: Begin) -> None:
    log = await begin(1)
    states: list[str] = []

    async def act() -> dict[str, int]:
        async with database.read() as connection:
            states.extend((await connection.execute(select(steps.c.state))).scalars())
        return {"status": 200}

    assert await log.step("request", {"url": "https://example.com"}, act) == {"status": 200}
    await log.settle()
    async with database.read() as connection:
        [row] = (await connection.execute(select(steps))).all()
    assert states == ["intended"]
    assert (row.run_id, row.position, row.kind, row.state) == (RUN, 0, "request", "done")
    assert b"example" not in row.intent
    assert b"status" not in row.result


async def test_a_retry_goes_on_after_the_last_step_that_is_done(begin: Begin) -> None:
    first, second = Act({"n": [1, None]}), Act(Retry("busy"), "two")
    log = await begin(1)
    assert await log.step("one", {}, first) == {"n": [1, None]}
    with pytest.raises(Retry):
        await log.step("two", {}, second)
    log = await begin(2)
    assert await log.step("one", {}, first) == {"n": [1, None]}
    assert await log.step("two", {}, second) == "two"
    assert (first.done, second.done) == (1, 2)


async def test_a_result_is_the_same_on_the_first_try_and_on_a_retry(begin: Begin) -> None:
    answers = [await (await begin(number)).step("one", {}, Act((1, 2))) for number in (1, 2)]
    assert answers == [[1, 2], [1, 2]]


@pytest.mark.parametrize("error", [OSError("connection reset"), asyncio.CancelledError()])
async def test_a_step_that_may_have_happened_is_reported_and_not_done_again(begin: Begin, error: BaseException) -> None:
    act = Act(error, "again")
    with pytest.raises(type(error)):
        await (await begin(1)).step("pay", {}, act)
    with pytest.raises(StepUncertain, match=r"step 1 \(pay\) was begun and may have happened"):
        await (await begin(2)).step("pay", {}, act)
    assert act.done == 1


async def test_a_repeatable_step_that_may_have_happened_is_done_again(begin: Begin) -> None:
    act = Act(OSError("connection reset"), "again")
    with pytest.raises(OSError, match="reset"):
        await (await begin(1)).step("remember", {}, act, repeatable=True)
    assert await (await begin(2)).step("remember", {}, act, repeatable=True) == "again"
    assert await (await begin(3)).step("remember", {}, act, repeatable=True) == "again"
    assert act.done == 2


async def test_a_step_that_could_not_be_repeated_when_it_began_is_not_repeated(begin: Begin) -> None:
    """A tool that the program does not have any more is repeatable, as far as is known."""
    act = Act(OSError("connection reset"), "again")
    with pytest.raises(OSError, match="reset"):
        await (await begin(1)).step("tool", {}, act)
    with pytest.raises(StepUncertain):
        await (await begin(2)).step("tool", {}, act, repeatable=True)
    assert act.done == 1


async def test_an_agent_that_was_changed_in_between_is_given_up_on(begin: Begin) -> None:
    await (await begin(1)).step("one", {}, Act(1))
    with pytest.raises(GiveUp, match="step 1 was 'one' in an earlier try and is 'two' now"):
        await (await begin(2)).step("two", {}, Act(1))


async def test_an_old_attempt_acts_no_more_once_another_has_begun(begin: Begin, database: Database) -> None:
    old = await begin(1)
    await old.step("one", {}, Act(1))
    new = await begin(2)
    act = Act(2)
    with pytest.raises(Superseded):
        await old.step("two", {}, act)
    assert act.done == 0
    assert await new.step("one", {}, Act()) == 1


async def test_what_an_old_attempt_did_late_is_not_recorded(begin: Begin, database: Database) -> None:
    old = await begin(1)
    begun, go = asyncio.Event(), asyncio.Event()

    async def slow() -> str:
        begun.set()
        await go.wait()
        return "late"

    task = asyncio.create_task(old.step("one", {}, slow))
    await begun.wait()
    await begin(2)
    go.set()
    assert await task == "late"
    with pytest.raises(Superseded):
        await old.settle()
    async with database.read() as connection:
        assert (await connection.execute(select(steps.c.state))).scalar_one() == "intended"


async def test_a_run_that_ended_takes_no_more_steps(begin: Begin, database: Database) -> None:
    log = await begin(1)
    await database.transact(lambda connection: run.end(connection, [run.End(RUN, 1, run.DONE, 2, None)]))
    with pytest.raises(Superseded):
        await log.step("one", {}, Act(1))
    async with database.read() as connection:
        assert (await connection.execute(select(runs.c.finished_at))).scalar_one() == 2


async def _side_by_side(log: RunLog, order: Sequence[str], acts: dict[str, Act], *, keys: bool) -> list[object]:
    """Run these steps at once, begun in this order; return their results and errors."""
    asked = (log.step(f"tool:{name}", {}, acts[name], key=name if keys else None) for name in order)
    return list(await asyncio.gather(*asked, return_exceptions=True))


@pytest.mark.parametrize("keys", [True, False])
async def test_steps_side_by_side_are_found_again_by_a_later_attempt(begin: Begin, keys: bool) -> None:
    names = ("a", "b", "c", "d", "e")
    acts = {name: Act(Retry("busy"), name) if name == "c" else Act(name) for name in names}
    first = await _side_by_side(await begin(1), names, acts, keys=keys)
    assert [*map(str, first)] == ["a", "b", "busy", "d", "e"]
    for attempt in (2, 3):
        assert await _side_by_side(await begin(attempt), names, acts, keys=keys) == list(names)
    assert {name: act.done for name, act in acts.items()} == {"a": 1, "b": 1, "c": 2, "d": 1, "e": 1}


async def test_a_step_with_a_key_is_found_again_wherever_it_is_asked_for(begin: Begin, database: Database) -> None:
    acts = {name: Act(name) for name in "abc"}
    log = await begin(1)
    assert await _side_by_side(log, "ab", acts, keys=True) == ["a", "b"]
    assert await log.step("plan", {}, Act(1)) == 1
    log = await begin(2)
    assert await log.step("plan", {}, Act()) == 1
    assert await _side_by_side(log, "cba", acts, keys=True) == ["c", "b", "a"]
    await log.settle()
    async with database.read() as connection:
        rows = (await connection.execute(select(steps.c.position, steps.c.key).order_by(steps.c.position))).all()
    assert [row[0] for row in rows] == [0, 1, 2, 3]
    assert {row[1] for row in rows} == {"a", "b", "c", "#0"}


async def test_a_key_is_that_of_one_step(begin: Begin) -> None:
    log = await begin(1)
    await log.step("tool", {}, Act(1), key="call-1")
    with pytest.raises(ValueError, match="two steps of one run have the key 'call-1'"):
        await log.step("tool", {}, Act(), key="call-1")
    with pytest.raises(ValueError, match="the key of a step cannot be empty or begin with #: '#0'"):
        await log.step("tool", {}, Act(), key="#0")
    with pytest.raises(ValueError, match="the key of a step cannot be empty"):
        await log.step("tool", {}, Act(), key="")


async def available(log: RunLog) -> None:
    """Settle as soon as the database is available."""
    async with asyncio.timeout(60):
        while True:
            with suppress(Unavailable):
                return await log.settle()
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("error", [None, Retry("later")])
async def test_an_outage_that_begins_during_an_act_loses_neither_its_result_nor_its_failure(
    database: Database, begin: Begin, error: Retry | None
) -> None:
    log, act = await begin(1), Act(error or "paid", "paid")

    async def act_in_an_outage() -> object:
        database.outage.begin(Unavailable("the server stopped"))
        return await act()

    if error is None:
        assert await log.step("pay", {}, act_in_an_outage) == "paid"
    else:
        with pytest.raises(Retry, match="later"):
            await log.step("pay", {}, act_in_an_outage)
    with pytest.raises(Unavailable):
        await log.settle()
    await available(log)
    assert await (await begin(2)).step("pay", {}, act) == "paid"
    assert act.done == (1 if error is None else 2)


async def test_an_intent_that_is_stored_after_it_was_refused_is_a_step_that_did_not_happen(
    tmp_path: Path, master_key: MasterKey, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = await Database.open(tmp_path / "db", master_key)
    monkeypatch.setattr(database.commits, "_answer_seconds", 0.2)
    begun = run.Begin(RUN, "owner", "message", None, None, "agent", 1, 1, new=True)
    await database.transact(lambda connection: run.begin(connection, [begun]))

    def slowly(connection: Connection, items: Sequence[None]) -> Sequence[None]:
        time.sleep(1.5)
        return items

    log, act = RunLog(database, clock, RUN, 1), Act("paid")
    slow = database.commits.put(Stage(0, slowly), None)
    with pytest.raises(Unavailable):
        await log.step("pay", {}, act)
    with pytest.raises(Unavailable):
        await slow
    await available(log)
    async with database.read() as connection:
        assert list((await connection.execute(select(steps.c.state))).scalars()) == ["failed"]
    again = run.Begin(RUN, "owner", "message", None, None, "agent", 2, 1, new=False)
    await database.transact(lambda connection: run.begin(connection, [again]))
    assert await RunLog(database, clock, RUN, 2).step("pay", {}, act) == "paid"
    assert act.done == 1
    await database.close()


async def test_an_intent_whose_commit_was_lost_is_stored_once(database: Database, begin: Begin) -> None:
    await begin(1)
    sealed = Seal(database.keys, steps.c.intent).close(b"{}", row=f"{RUN}/0", user_id="owner")
    intent = StepWrite(RUN, 1, 0, "#0", INTENDED, "owner", "pay", False, 1, None, sealed, None)
    for _ in range(2):
        assert await database.transact(lambda connection: store_steps(connection, [intent])) == [None]
    async with database.read() as connection:
        assert list((await connection.execute(select(steps.c.state))).scalars()) == [INTENDED]


async def test_twenty_steps_side_by_side_are_never_confused_in_twenty_retries(begin: Begin, database: Database) -> None:
    chance = random.Random(7)
    names = [f"call-{number}" for number in range(20)]
    # The last one succeeds on attempt 20; each fails several times before.
    acts = {name: Act(*[Retry("busy")] * number, name) for number, name in enumerate(names)}
    for attempt in range(1, 21):
        order = chance.sample(names, len(names))
        results = dict(zip(order, await _side_by_side(await begin(attempt), order, acts, keys=True), strict=True))
        for number, name in enumerate(names):
            if number < attempt:
                assert results[name] == name
            else:
                assert isinstance(results[name], Retry)
    assert [acts[name].done for name in names] == list(range(1, 21))
    async with database.read() as connection:
        found = (await connection.execute(select(steps.c.position, steps.c.key, steps.c.kind))).all()
    assert sorted(row.position for row in found) == list(range(20))
    assert {row.key: row.kind for row in found} == {name: f"tool:{name}" for name in names}


async def test_new_steps_of_a_later_attempt_run_beside_those_of_an_earlier_one(
    begin: Begin, database: Database
) -> None:
    acts = {f"{number}": Act(f"{number}") for number in range(20)}
    early, every = list(acts)[:7], list(reversed(acts))
    assert await _side_by_side(await begin(1), early, acts, keys=True) == early
    log = await begin(2)
    assert await _side_by_side(log, every, acts, keys=True) == every
    await log.settle()
    assert {act.done for act in acts.values()} == {1}
    async with database.read() as connection:
        positions = (await connection.execute(select(steps.c.position).order_by(steps.c.position))).scalars().all()
    assert list(positions) == list(range(20))
