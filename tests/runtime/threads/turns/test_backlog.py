"""The backlog of accepted, unhandled turns: counted exactly, seldom, and cheaply."""

from __future__ import annotations

from sqlalchemy import text, update

from runtime.database.connection import Database
from runtime.database.schema import TURN_TABLES, deliveries
from runtime.threads.turns.backlog import _QUERY, BacklogReader
from runtime.threads.turns.turn import Outcome
from runtime.webhooks.deliveries.inbox import Inbox
from runtime.webhooks.receiving.admission import Admission
from tests.clocks import ManualClock
from tests.runtime.webhooks.candidates import candidate

NOTHING = {"queued": 0, "running": 0, "waiting": 0, "agent_gone": 0}


async def test_each_delivery_is_counted_in_its_state(database: Database, clock: ManualClock) -> None:
    admission, inbox, reader = Admission(database, clock), Inbox(database, clock), BacklogReader(database, clock)
    for state in ("done", "dead", "agent_gone", None):
        await admission.admit(candidate())
        [turn] = await inbox.claim(1)
        if state is not None:
            await inbox.finish(turn, Outcome(state))
    for _ in range(2):
        await admission.admit(candidate())
    await reader.look()
    assert reader.all is not None
    assert reader.all.states == {"queued": 2, "running": 1, "waiting": 0, "agent_gone": 1}
    assert reader.all.dead == 1


async def test_how_long_the_first_has_waited_is_told_from_when_it_was_due(
    database: Database, clock: ManualClock
) -> None:
    admission, inbox, reader = Admission(database, clock), Inbox(database, clock), BacklogReader(database, clock)
    await admission.admit(candidate())
    [turn] = await inbox.claim(1)
    await inbox.finish(turn, Outcome("queued", "busy", wait=60))
    await reader.look()
    assert reader.all is not None
    assert reader.all.oldest_seconds == 0, "it waits for its time, nobody waits for it"
    clock.advance(90)
    await admission.admit(candidate())
    await reader.look()
    assert reader.all.oldest_seconds == 30


async def test_one_that_waits_for_its_turn_is_waiting_too(database: Database, clock: ManualClock) -> None:
    reader = BacklogReader(database, clock)
    await Admission(database, clock).admit(candidate())
    await database.transact(lambda connection: connection.execute(update(deliveries).values(lane="github-events")))
    clock.advance(5)
    await reader.look()
    assert reader.all is not None
    assert (reader.all.states["queued"], reader.all.oldest_seconds) == (1, 5)


async def test_the_database_is_asked_once_a_second(database: Database, clock: ManualClock) -> None:
    reader = BacklogReader(database, clock)
    await reader.look()
    await Admission(database, clock).admit(candidate())
    await reader.look()
    assert reader.all is not None
    assert reader.all.states == NOTHING
    clock.advance(1)
    await reader.look()
    assert reader.all.states["queued"] == 1


async def test_each_count_reads_an_index_over_its_own_deliveries(database: Database) -> None:
    """Checks the query plan of SQLite; PostgreSQL considers the size of the table first, and here it is empty."""
    if database.kind != "sqlite":
        return
    async with database.read() as connection:
        plan = [row[3] for row in await connection.execute(text(f"EXPLAIN QUERY PLAN {_QUERY.text}"))]
    for table in TURN_TABLES.values():
        reading = [step for step in plan if table.name in step]
        assert len(reading) == 8
        assert all(f"INDEX ix_{table.name}_" in step for step in reading), plan
