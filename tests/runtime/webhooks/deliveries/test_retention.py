"""Old or too large data is deleted; waiting deliveries stay, whatever the clock does."""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import select, update
from structlog.testing import capture_logs

from runtime.clock import milliseconds
from runtime.crypto import MasterKey
from runtime.database.connection import Database
from runtime.database.drivers import sqlite
from runtime.database.schema import (
    bodies,
    deliveries,
    inputs,
    rates,
    replay_keys,
    reservations,
    runs,
    thread_turns,
    usage,
    usage_totals,
)
from runtime.models.budgets.limits import Amount, Limits
from runtime.models.calls.call import BACKGROUND, Call
from runtime.models.calls.usage import UsageLog
from runtime.models.request import Usage
from runtime.threads.inputs import Inputs
from runtime.threads.turns.backoff import TRIES, delay
from runtime.threads.turns.turn import Outcome
from runtime.webhooks.deliveries.delivery import Candidate
from runtime.webhooks.deliveries.expiry_clock import SlowClock
from runtime.webhooks.deliveries.inbox import Inbox
from runtime.webhooks.deliveries.retention import Retention, forget
from runtime.webhooks.deliveries.storage_usage import EACH_BYTES, StorageUsage
from runtime.webhooks.receiving.admission import Admission, Full
from tests.clocks import START, ManualClock, until
from tests.lanes import LONG
from tests.runtime.models.budgets.spending import Spending
from tests.runtime.threads.turns.sending import send
from tests.runtime.webhooks.candidates import candidate, rows, verdicts

DAY = 86_400
KEEP = 30 * DAY
BODY = b"x" * 1000


class Kept:
    """Admission, inbox and retention of one daemon."""

    def __init__(self, database: Database, clock: ManualClock, keep: int = 10_000) -> None:
        self.database = database
        self.usage = StorageUsage(keep)
        self.retention = Retention(database, clock, self.usage, keep_seconds=KEEP)
        self.admission = Admission(database, clock, usage=self.usage)
        self.inbox = Inbox(database, clock)

    async def handled(self, *names: str, state: str = "done") -> None:
        """Accept deliveries and finish them."""
        for name in names:
            await self.admission.admit(candidate(name, body=BODY))
        for turn in await self.inbox.claim(len(names)):
            await self.inbox.finish(turn, Outcome(state))

    async def bodies(self) -> list[str | None]:
        """Return the ids of deliveries that have their bodies, oldest first."""
        have = {row.delivery_id for row in await rows(self.database, bodies, "delivery_id")}
        return [row.provider_delivery_id for row in await rows(self.database, deliveries) if row.id in have]


@pytest.fixture
async def kept(database: Database, clock: ManualClock) -> Kept:
    kept = Kept(database, clock)
    await kept.retention.open()
    return kept


def timed(mac: bytes, at: float) -> Candidate:
    """Return a request that was signed at `at`, with a tolerance of five minutes."""
    return candidate(replay_key=mac, replay_until=at + 300)


async def both(admission: Admission, many: Sequence[Candidate]) -> list[str]:
    return verdicts([await admission.admit(each) for each in many])


async def test_dropping_a_body_opens_none(kept: Kept) -> None:
    await kept.handled(*map(str, range(20)))
    async with kept.database.write() as connection:
        other = select(bodies.c.body).order_by(bodies.c.delivery_id.desc()).limit(1).scalar_subquery()
        await connection.execute(bodies.update().values(body=other))
    await kept.retention.prune()
    assert {row.body_sha256 for row in await rows(kept.database, deliveries)} == {hashlib.sha256(BODY).hexdigest()}


async def test_the_oldest_handled_bodies_go_first_and_their_rows_stay(kept: Kept, clock: ManualClock) -> None:
    for number in range(20):
        await kept.handled(str(number))
        clock.advance(1)
    await kept.retention.prune()
    left = await kept.bodies()
    assert left == [str(number) for number in range(20 - len(left), 20)]
    assert 8 <= len(left) <= 9
    assert kept.usage.used <= kept.usage.keep
    oldest = (await rows(kept.database, deliveries))[0]
    assert oldest.body_sha256 == hashlib.sha256(BODY).hexdigest()
    assert (await kept.admission.admit(candidate("0", body=BODY))).verdict == "repeated"


@pytest.mark.parametrize("state", ["dead", "agent_gone", "cancelled"])
async def test_what_can_be_sent_again_counts_and_is_not_dropped(kept: Kept, state: str, clock: ManualClock) -> None:
    await kept.handled(*map(str, range(12)), state=state)
    await kept.handled("done")
    await kept.admission.admit(candidate("waits", body=BODY))
    await kept.retention.prune()
    assert await kept.bodies() == [*map(str, range(12)), "waits"]
    clock.advance(31 * DAY)
    await kept.retention.prune()
    clock.advance(DAY)
    await kept.retention.prune()
    assert await kept.bodies() == ["waits"]


async def test_messages_go_with_their_runs_when_they_have_ended(kept: Kept, clock: ManualClock) -> None:
    queue = Inputs(kept.database, clock)
    first, second, third = await send(kept.database, clock, "one", "two", "three")
    [turn] = await queue.claim(1)
    await queue.finish(turn, Outcome("done"))
    await queue.claim(1)
    clock.advance(31 * DAY)
    await kept.retention.prune()
    clock.advance(DAY)
    await kept.retention.prune()
    for table in (inputs, runs):
        assert [row.id for row in await rows(kept.database, table, "id")] == [second, third] != [first, second]
    assert {row.turn_id for row in await rows(kept.database, thread_turns, "turn_id")} == {second, third}


async def test_what_is_only_kept_goes_as_what_was_handled_does(kept: Kept, clock: ManualClock) -> None:
    for number in range(20):
        await kept.admission.admit(candidate(str(number), body=BODY, agent=None))
        clock.advance(1)
    await kept.retention.prune()
    left = await kept.bodies()
    assert left == [str(number) for number in range(20 - len(left), 20)]
    assert 8 <= len(left) <= 9
    clock.advance(31 * DAY)
    await kept.retention.prune()
    clock.advance(DAY)
    await kept.retention.prune()
    assert await rows(kept.database, deliveries) == []


async def test_more_than_one_transaction_makes_room(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.webhooks.deliveries.retention.CHUNK_BYTES", 3000)
    await kept.handled(*map(str, range(20)))
    await kept.retention.prune()
    assert len(await kept.bodies()) <= 9


async def test_what_another_daemon_redelivers_meanwhile_is_not_deleted(
    postgres_url: str, master_key: MasterKey, clock: ManualClock
) -> None:
    one, other = [await Database.open(postgres_url, master_key) for _ in range(2)]
    await Kept(one, clock).handled("1")
    async with one.write() as connection:
        await connection.execute(update(deliveries).values(state="queued"))
        assert await forget(other, milliseconds(clock) + DAY * 1000) == 0
    assert [row.state for row in await rows(other, deliveries)] == ["queued"]
    for database in (one, other):
        await database.close()


async def test_room_is_made_as_soon_as_there_is_none(kept: Kept) -> None:
    task = asyncio.create_task(kept.retention.run())
    async with asyncio.timeout(60):
        for number in range(30):
            # On a busy machine four times the room may be used before the first pass.
            while kept.usage.full:
                await asyncio.sleep(0.01)
            await kept.handled(str(number))
        # Nothing else triggers another pass: each pass also covered the deliveries that arrived during it.
        while len(await kept.bodies()) > 9:
            await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.wait({task})


def test_what_comes_during_a_measurement_is_not_forgotten() -> None:
    usage = StorageUsage(10_000)
    usage.set_measured(8_000, began=usage.counted)
    began = usage.counted
    usage.add(1_400 - EACH_BYTES)
    assert not usage.prune_requested.is_set()
    usage.set_measured(8_000, began=began)
    assert usage.used == 9_400
    usage.add(1_400 - EACH_BYTES)
    assert usage.prune_requested.is_set()


def test_too_much_that_came_during_a_measurement_is_a_reason_for_another() -> None:
    usage = StorageUsage(10_000)
    began = usage.counted
    usage.add(3_000 - EACH_BYTES)
    assert not usage.prune_requested.is_set()
    usage.set_measured(8_000, began=began)
    assert usage.prune_requested.is_set()


async def test_when_what_waits_is_too_much_deliveries_are_refused_until_there_is_room(kept: Kept) -> None:
    with capture_logs() as logs:
        for number in range(8):
            await kept.admission.admit(candidate(str(number), body=BODY * 5))
        with pytest.raises(Full):
            await kept.admission.admit(candidate("8"))
        await kept.retention.prune()
        await kept.retention.prune()
        with pytest.raises(Full):
            await kept.admission.admit(candidate("8"))
        for turn in await kept.inbox.claim(1000):
            await kept.inbox.finish(turn, Outcome("done"))
        await kept.retention.prune()
    assert [(entry["log_level"], entry["event"]) for entry in logs] == [
        ("error", "inbox_full"),
        ("info", "inbox_has_room"),
    ]
    assert (await kept.admission.admit(candidate())).verdict == "accepted"


async def test_a_request_whose_key_is_forgotten_is_not_taken_for_new(
    kept: Kept, database: Database, clock: ManualClock
) -> None:
    first = timed(b"first", clock.now())
    assert await both(kept.admission, [first, first]) == ["accepted", "replayed"]
    clock.advance(2 * DAY)
    await kept.retention.prune()
    assert await rows(database, replay_keys) == []
    clock.step(-2 * DAY)
    assert await both(kept.admission, [first]) == ["replayed"]
    assert await both(kept.admission, [timed(b"other", clock.now() + 1)]) == ["accepted"]
    again = Kept(database, clock)
    await again.retention.open()
    assert await both(again.admission, [first]) == ["replayed"]


async def test_a_repeat_by_id_is_answered_as_such_even_then(kept: Kept, clock: ManualClock) -> None:
    first = candidate("1", replay_key=b"mac", replay_until=clock.now() + 300)
    await kept.admission.admit(first)
    clock.advance(2 * DAY)
    await kept.retention.prune()
    assert await both(kept.admission, [first]) == ["repeated"]


async def test_a_clock_set_far_ahead_makes_nothing_old(kept: Kept, database: Database, clock: ManualClock) -> None:
    await kept.handled("1")
    first = timed(b"first", clock.now())
    await kept.admission.admit(first)
    clock.step(400 * DAY)
    for _ in range(3):
        await kept.retention.prune()
        clock.advance(3600)
    clock.step(-400 * DAY)
    assert len(await rows(database, deliveries)) == 2
    assert await both(kept.admission, [first, timed(b"other", clock.now())]) == ["replayed", "accepted"]


async def test_a_start_with_a_clock_far_ahead_makes_nothing_old(
    kept: Kept, database: Database, clock: ManualClock
) -> None:
    await kept.handled("1")
    clock.step(400 * DAY)
    again = Kept(database, clock)
    await again.retention.open()
    await again.retention.prune()
    assert len(await rows(database, deliveries)) == 1
    clock.advance(DAY + 1)
    await again.retention.prune()
    await again.retention.prune()
    assert await rows(database, deliveries) == []


@pytest.mark.parametrize("seconds", [10 * DAY, 1800, 300])
async def test_what_waits_for_a_time_that_a_clock_was_set_back_from_does_not_wait_for_it(
    kept: Kept, clock: ManualClock, seconds: float
) -> None:
    clock.step(seconds)
    await kept.admission.admit(candidate("1"))
    clock.step(-seconds)
    assert await kept.inbox.claim(1) == []
    await kept.retention.prune()
    assert len(await kept.inbox.claim(1)) == 1


async def test_a_retry_keeps_its_time(kept: Kept, database: Database, clock: ManualClock) -> None:
    await kept.admission.admit(candidate("1"))
    soon = int((clock.now() + delay(TRIES - 1, spread=1)) * 1000)
    async with database.write() as connection:
        await connection.execute(update(deliveries).values(next_attempt_at=soon))
    await kept.retention.prune()
    assert [row.next_attempt_at for row in await rows(database, deliveries)] == [soon]


async def test_counters_of_webhooks_that_are_gone_go_too(kept: Kept, database: Database, clock: ManualClock) -> None:
    await kept.admission.admit(candidate("1", per_minute=5))
    clock.advance(DAY)
    await kept.retention.prune()
    assert len(await rows(database, rates)) == 1
    clock.advance(61)
    await kept.retention.prune()
    assert await rows(database, rates) == []
    assert (await kept.admission.admit(candidate("2", per_minute=5))).verdict == "accepted"


@LONG
async def test_a_large_prune_does_not_leave_a_large_log(tmp_path: Path, master_key: MasterKey) -> None:
    path = tmp_path / "symbiont.db"
    database = await Database.open(path, master_key)
    clock = ManualClock()
    kept = Kept(database, clock, keep=100_000)
    for turn in range(3):
        many = [candidate(f"{turn}-{number}", body=b"x" * 20_000) for number in range(300)]
        await asyncio.gather(*map(kept.admission.admit, many))
        for claimed in await kept.inbox.claim(1000):
            await kept.inbox.finish(claimed, Outcome("done"))
        await kept.retention.prune()
        size = path.stat().st_size
        await asyncio.sleep(0.25)
        await kept.retention.prune()
    assert len(await kept.bodies()) < 10
    # Freed space is used again: the third turn needs no more disk than the second.
    assert path.stat().st_size <= size * 1.2
    await database.close()
    assert path.stat().st_size < 12_000_000


async def test_the_file_does_not_stay_as_large_as_it_once_was(
    tmp_path: Path, master_key: MasterKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "SPARE", 64)
    path = tmp_path / "symbiont.db"
    database = await Database.open(path, master_key)
    kept = Kept(database, ManualClock(), keep=1_000_000_000)
    many = [candidate(str(number), body=b"x" * 40_000, agent=None) for number in range(200)]
    await asyncio.gather(*map(kept.admission.admit, many))
    # Everything in the log is then in the file.
    await database.close()
    largest = path.stat().st_size
    database = await Database.open(path, master_key)
    await Kept(database, ManualClock(), keep=100_000).retention.prune()
    ids = {row.provider_delivery_id for row in await rows(database, deliveries, "provider_delivery_id", "id")}
    await database.close()
    assert largest > 8_000_000
    assert path.stat().st_size < 2_000_000
    assert len(ids) == 200
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


async def test_a_file_that_cannot_be_made_shorter_is_used_as_it_is(
    tmp_path: Path, master_key: MasterKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "SPARE", 64)
    path = tmp_path / "symbiont.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("PRAGMA auto_vacuum=NONE; PRAGMA journal_mode=WAL; CREATE TABLE alembic_version (a);")
        connection.executescript("DROP TABLE alembic_version;")
    database = await Database.open(path, master_key)
    kept = Kept(database, ManualClock(), keep=100_000)
    many = [candidate(str(number), body=b"x" * 40_000, agent=None) for number in range(100)]
    await asyncio.gather(*map(kept.admission.admit, many))
    await kept.retention.prune()
    assert len(await kept.bodies()) < 5
    await database.close()


def test_time_for_forgetting_goes_on_from_before_a_step_and_believes_it_after_a_day(clock: ManualClock) -> None:
    slow = SlowClock(clock)
    start = slow.milliseconds()
    clock.step(10 * DAY)
    assert slow.milliseconds() == start
    clock.advance(DAY - 1)
    assert slow.milliseconds() == start + (DAY - 1) * 1000
    clock.advance(2)
    assert slow.milliseconds() == int(clock.now() * 1000)
    clock.step(-20 * DAY)
    assert slow.milliseconds() == int(clock.now() * 1000)


async def test_rows_of_calls_are_deleted_with_the_deliveries_of_their_time(
    kept: Kept, database: Database, clock: ManualClock
) -> None:
    """And so are their totals, and what is reserved for calls of which nothing was heard any more."""
    log, spending = UsageLog(database, clock), Spending(database, clock, {"helper": Limits(tokens_per_day=100)})

    def call(model: str) -> Call:
        now = milliseconds(clock)
        return Call(BACKGROUND, "chat", "quick", model, Usage(), None, 1.0, "answered", now, Amount(7))

    log.add(call("old"))
    await spending.reserve(Amount(50))
    clock.advance(2 * DAY)
    log.add(call("new"))
    await until(lambda: database.commits.depth == 0)
    clock.advance(KEEP - DAY)
    await spending.reserve(Amount(60))
    await kept.retention.prune()

    assert [row.service_model for row in await rows(database, usage)] == ["new"]
    days = {row.day for row in await rows(database, usage_totals) if row.tokens}
    assert days == {START // DAY + 2}
    assert [row.tokens for row in await rows(database, reservations)] == [60]
