"""What a person is asked is stored once, decided once, and only by the run that waits for it or by a person."""

from __future__ import annotations

import asyncio

import pytest
from sqlalchemy import text

from runtime.clock import milliseconds
from runtime.database.connection import Database
from runtime.database.resealing import Resealing
from runtime.database.schema import OWNER, approvals, inputs
from runtime.errors import Conflict, NotFound
from runtime.threads import run
from runtime.threads.approvals.approval import APPROVED, DENIED, Approval, Question
from runtime.threads.approvals.asking import Asker
from runtime.threads.approvals.store import Approvals
from runtime.threads.inputs import Inputs
from runtime.threads.step import Superseded
from runtime.threads.turns.turn import QUEUED, Outcome
from tests.clocks import ManualClock
from tests.conftest import KEY
from tests.runtime.threads.thread_runs import statements
from tests.runtime.threads.turns.sending import AGENT, send, thread_id
from tests.runtime.webhooks.candidates import rows

CALL = Question("c1", "merge", '{"number":5}', "digest")


async def asked(database: Database, clock: ManualClock) -> tuple[Approval, Asker]:
    """Let a run ask, and park it."""
    [run_id] = await send(database, clock, "one")
    queue = Inputs(database, clock)
    [turn] = await queue.claim(1)
    by = Asker(OWNER, turn.agent, thread_id("0"), run_id, turn.attempt)
    stored = await Approvals(database, clock).ask(by, [CALL], 60)
    again = await Approvals(database, clock).ask(by, [CALL], 3600)
    assert stored == again
    parked = Outcome(QUEUED, counts=False, run_state=run.AWAITING, until=milliseconds(clock) + 60_000)
    await queue.finish(turn, parked)
    approval = stored["c1"]
    assert approval is not None
    return approval, by


async def test_a_question_is_stored_once_and_only_by_the_current_attempt(
    database: Database, clock: ManualClock
) -> None:
    approval, by = await asked(database, clock)
    assert (approval.tool, approval.arguments, approval.digest) == ("merge", '{"number":5}', "digest")
    assert [row.id for row in await rows(database, approvals)] == [approval.id]
    with pytest.raises(Superseded):
        await Approvals(database, clock).ask(by, [CALL._replace(call_id="c2")], 60)
    assert len(await rows(database, approvals)) == 1


async def test_of_decisions_on_several_daemons_one_counts_and_wakes_the_run(
    database: Database, database_url: str, clock: ManualClock
) -> None:
    approval, _ = await asked(database, clock)
    others = [database] if database.kind == "sqlite" else [database, await Database.open(database_url, KEY)]
    deciding = [
        Approvals(each, clock).decide(approval.id, state, by=OWNER, via="cli", reason=None)
        for each in others
        for state in (APPROVED, DENIED) * 3
    ]
    done = await asyncio.gather(*deciding, return_exceptions=True)
    counted = [each for each in done if isinstance(each, Approval)]
    assert len(counted) == 1
    assert all(isinstance(each, Conflict | Approval) for each in done)
    assert counted[0] == await Approvals(database, clock).find(approval.id, OWNER)
    [row] = await rows(database, inputs)
    assert (row.state, row.next_attempt_at) == ("queued", milliseconds(clock))
    for each in others[1:]:
        await each.close()


async def test_a_decision_and_the_end_of_its_run_do_not_wait_for_each_other(
    database: Database, database_url: str, clock: ManualClock
) -> None:
    other = database if database.kind == "sqlite" else await Database.open(database_url, KEY)
    for _ in range(5):
        approval, by = await asked(database, clock)

        def end(connection: object, by: Asker = by) -> None:
            Approvals(other, clock).cancel(connection, {by.run_id: milliseconds(clock)})  # type: ignore[arg-type]

        ending = Inputs(other, clock, on_ended=lambda connection, _, end=end: end(connection))  # type: ignore[misc]
        deciding = Approvals(database, clock).decide(approval.id, APPROVED, by=OWNER, via="cli")
        done = await asyncio.gather(deciding, ending.cancel(by.run_id, OWNER), return_exceptions=True)
        assert done[1] == "cancelled"
        assert isinstance(done[0], Conflict | Approval)
    if other is not database:
        await other.close()


async def test_an_approval_is_found_by_the_beginning_of_its_id(database: Database, clock: ManualClock) -> None:
    approval, _ = await asked(database, clock)
    store = Approvals(database, clock)
    assert await store.find(approval.id[:-4], OWNER) == approval
    for start, user_id in (("", OWNER), ("%", OWNER), (approval.id, "another"), (f"{approval.id}0", OWNER)):
        with pytest.raises(NotFound):
            await store.find(start, user_id)


@pytest.mark.parametrize("agent", [None, AGENT])
async def test_calls_that_wait_are_listed_without_reading_those_that_were_decided(
    database: Database, clock: ManualClock, agent: str | None
) -> None:
    waits, _ = await asked(database, clock)
    columns = "user_id, agent, thread_id, call_id, tool, deadline, created_at, content"
    copies = f"""
        INSERT INTO approvals (id, run_id, state, {columns})
        WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 2000)
        SELECT CAST(n AS TEXT), CAST(n AS TEXT), 'approved', {columns} FROM numbers, approvals
    """
    async with database.write() as connection:
        await connection.execute(text(copies))
    with statements() as recorded:
        assert await Approvals(database, clock).newest(OWNER, waiting=True, agent=agent) == [waits]
    [(listing, given)] = [each for each in recorded if "FROM approvals" in each[0]]
    explain = "EXPLAIN QUERY PLAN" if database.kind == "sqlite" else "EXPLAIN"
    async with database.read() as connection:
        plan = "\n".join(row[-1] for row in await connection.exec_driver_sql(f"{explain} {listing}", given))
    assert "ix_approvals_awaiting" in plan
    assert "TEMP B-TREE" not in plan


async def test_what_is_approved_for_good_is_one_user_s_and_one_agent_s(database: Database, clock: ManualClock) -> None:
    approval, by = await asked(database, clock)
    await Approvals(database, clock).decide(approval.id, APPROVED, by="boss", via="http", always=True)
    [kept] = await Approvals(database, clock).standing.of_user(OWNER)
    assert (kept.agent, kept.tool, kept.decided_by, kept.via) == (by.agent, "merge", "boss", "http")
    assert await Approvals(database, clock).standing.of_user(OWNER, "another") == []
    [turn] = await Inputs(database, clock).claim(1)
    now = by._replace(attempt=turn.attempt)
    others = [CALL._replace(call_id="c2"), CALL._replace(call_id="c3", tool="merge_all")]
    found = await Approvals(database, clock).ask(now, others, 60)
    assert found["c2"] is None
    assert found["c3"] is not None
    await Approvals(database, clock).standing.revoke(kept.id, OWNER)
    found = await Approvals(database, clock).ask(now, [CALL._replace(call_id="c4")], 60)
    assert found["c4"] is not None


async def test_nobody_decides_after_the_deadline(database: Database, clock: ManualClock) -> None:
    approval, by = await asked(database, clock)
    clock.advance(60)
    store = Approvals(database, clock)
    assert await store.newest(OWNER, waiting=True) == []
    with pytest.raises(Conflict, match="nobody decided about this call until"):
        await store.decide(approval.id, APPROVED, by=OWNER, via="cli")
    [turn] = await Inputs(database, clock).claim(1)
    found = await store.ask(by._replace(attempt=turn.attempt), [CALL], 60)
    assert found["c1"] is not None
    assert found["c1"].state == "expired"


async def test_a_tool_is_approved_for_good_as_it_is_defined(database: Database, clock: ManualClock) -> None:
    approval, by = await asked(database, clock)
    store = Approvals(database, clock)
    await store.decide(approval.id, APPROVED, by=OWNER, via="cli", always=True)
    [turn] = await Inputs(database, clock).claim(1)
    now = by._replace(attempt=turn.attempt)
    other = CALL._replace(call_id="c2", definition="another")
    waits = (await store.ask(now, [other], 60))["c2"]
    assert waits is not None
    await store.decide(waits.id, APPROVED, by=OWNER, via="cli", always=True)
    assert len(await store.standing.of_user(OWNER)) == 1
    assert (await store.ask(now, [other._replace(call_id="c3")], 60))["c3"] is None
    assert (await store.ask(now, [CALL._replace(call_id="c4")], 60))["c4"] is not None


async def test_a_row_that_something_without_a_key_has_written_approves_nothing(
    database: Database, clock: ManualClock
) -> None:
    approval, by = await asked(database, clock)
    store = Approvals(database, clock)
    forged = "INSERT INTO standing_approvals (id, user_id, agent, tool, created_at, decided_by, content) VALUES "
    async with database.write() as connection:
        statement = text(f"{forged} ('s1', '{OWNER}', '{by.agent}', 'merge', 1, '{OWNER}', :content)")
        await connection.execute(statement, {"content": b"forged"})
        flipped = f"UPDATE approvals SET state = 'approved', decided_by = '{OWNER}', decided_at = 1"
        await connection.execute(text(flipped))
        await connection.execute(text("UPDATE inputs SET next_attempt_at = 1"))
    found = await store.find(approval.id, OWNER)
    assert (found.state, found.digest, found.decided_via) == ("approved", "", None)
    [row] = await store.standing.of_user(OWNER)
    assert row.via is None
    [turn] = await Inputs(database, clock).claim(1)
    now = by._replace(attempt=turn.attempt)
    second = (await store.ask(now, [CALL._replace(call_id="c2")], 60))["c2"]
    assert second is not None
    # A real approval of another tool, of another call, or of another user is none for this row.
    await store.decide(second.id, APPROVED, by=OWNER, via="cli", always=True)
    async with database.write() as connection:
        real = f"SELECT decision FROM approvals WHERE id = '{second.id}'"
        await connection.execute(text(f"UPDATE approvals SET decision = ({real})"))
        await connection.execute(text("UPDATE standing_approvals SET tool = 'merge_all'"))
    assert (await store.find(approval.id, OWNER)).digest == ""
    assert (await store.find(second.id, OWNER)).digest == "digest"
    found_again = await store.ask(now, [CALL._replace(call_id="c3"), CALL._replace(call_id="c4", tool="merge_all")], 60)
    assert None not in found_again.values()


async def test_a_decision_is_one_after_the_keys_were_rotated(database: Database, clock: ManualClock) -> None:
    approval, _ = await asked(database, clock)
    store = Approvals(database, clock)
    await store.decide(approval.id, APPROVED, by=OWNER, via="cli", always=True)
    assert database.keys.rotate([OWNER], milliseconds(clock)) == 1
    clock.advance(3600)
    await Resealing(database, clock).run_if_due()
    assert database.keys.retired == []
    assert (await store.find(approval.id, OWNER)).digest == "digest"
    [row] = await store.standing.of_user(OWNER)
    assert row.via == "cli"
