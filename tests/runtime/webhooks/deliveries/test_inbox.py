"""A delivery belongs to one attempt at a time; late writes of an old attempt do not count."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from sqlalchemy import text, update

from runtime.crypto import MasterKey
from runtime.database.connection import Database
from runtime.database.schema import bodies, deliveries, runs
from runtime.errors import SymbiontError
from runtime.threads.step import Superseded
from runtime.threads.turns.backoff import TRIES
from runtime.threads.turns.turn import Outcome
from runtime.webhooks.deliveries.inbox import Inbox
from runtime.webhooks.deliveries.redelivery import redeliver
from runtime.webhooks.deliveries.retention import prune
from runtime.webhooks.receiving.admission import Admission
from tests.clocks import ManualClock
from tests.runtime.webhooks.candidates import BODY, candidate, rows

DAY = 86_400


@pytest.fixture
def admission(database: Database, clock: ManualClock) -> Admission:
    return Admission(database, clock)


@pytest.fixture
def inbox(database: Database, clock: ManualClock) -> Inbox:
    return Inbox(database, clock)


async def test_a_claimed_delivery_is_all_that_was_admitted(
    admission: Admission, inbox: Inbox, clock: ManualClock
) -> None:
    headers = (("user-agent", "GitHub-Hookshot"),)
    decision = await admission.admit(candidate("1", event="push", headers=headers, content_type="text/plain"))
    [turn] = await inbox.claim(10)
    assert turn.delivery_id == decision.delivery_id
    assert (turn.webhook, turn.agent, turn.provider, turn.event) == ("github-events", "reviewer", "github", "push")
    assert (turn.body, turn.headers, turn.content_type) == (BODY, headers, "text/plain")
    assert (turn.provider_delivery_id, turn.received_at) == ("1", int(clock.now() * 1000))
    assert (turn.attempt, turn.tries, turn.verified, turn.user_id) == (1, 1, True, "owner")


async def test_the_oldest_come_first_and_each_once(admission: Admission, inbox: Inbox, clock: ManualClock) -> None:
    admitted = []
    for _ in range(5):
        admitted.append((await admission.admit(candidate())).delivery_id)
        clock.advance(1)
    first, second = await inbox.claim(3), await inbox.claim(3)
    assert [turn.delivery_id for turn in first + second] == admitted
    assert await inbox.claim(3) == []


async def test_what_waits_for_its_next_try_is_claimed_when_its_time_has_come(
    admission: Admission, inbox: Inbox, clock: ManualClock
) -> None:
    await admission.admit(candidate())
    [turn] = await inbox.claim(1)
    await inbox.finish(turn, Outcome("queued", "later", wait=10))
    clock.advance(9)
    assert await inbox.claim(1) == []
    clock.advance(1)
    [again] = await inbox.claim(1)
    assert (again.run_id, again.attempt, again.tries) == (turn.run_id, 2, 2)


async def test_deliveries_put_off_to_one_time_are_claimed_in_the_order_of_their_arrival(
    database: Database, admission: Admission, inbox: Inbox, clock: ManualClock
) -> None:
    admitted = [(await admission.admit(candidate())).delivery_id for _ in range(8)]
    midnight = int(clock.now() * 1000) + 1000
    for turn in await inbox.claim(8):
        await inbox.finish(turn, Outcome("queued", counts=False, until=midnight))
    # In another order than that of their ids: a database returns rows as they are stored, unless it is told otherwise.
    stored = [row._asdict() for row in await rows(database, deliveries)]
    async with database.write() as connection:
        await connection.execute(deliveries.delete())
        for row in stored[::-1]:
            await connection.execute(deliveries.insert().values(**row))
    clock.advance(1)
    assert [turn.delivery_id for _ in admitted for turn in await inbox.claim(1)] == admitted


async def test_a_try_that_we_broke_off_does_not_count(admission: Admission, inbox: Inbox) -> None:
    await admission.admit(candidate())
    [turn] = await inbox.claim(1)
    await inbox.finish(turn, Outcome("queued", counts=False))
    [again] = await inbox.claim(1)
    assert (again.attempt, again.tries) == (2, 1)


async def test_the_end_of_a_run_is_recorded(admission: Admission, inbox: Inbox, database: Database) -> None:
    await admission.admit(candidate())
    await admission.admit(candidate())
    one, other = await inbox.claim(2)
    await inbox.finish(one, Outcome("done"))
    await inbox.finish(other, Outcome("dead", "no use " + "x" * 1000))
    stored = {row.id: row for row in await rows(database, deliveries)}
    assert [stored[turn.delivery_id].state for turn in (one, other)] == ["done", "dead"]
    assert stored[other.delivery_id].last_error.startswith("no use xxx")
    assert len(stored[other.delivery_id].last_error) == 500
    assert {row.id: (row.state, row.delivery_id) for row in await rows(database, runs)} == {
        one.run_id: ("done", one.delivery_id),
        other.run_id: ("dead", other.delivery_id),
    }


async def test_an_error_that_no_database_takes_as_it_is_ends_a_run_all_the_same(
    admission: Admission, inbox: Inbox, database: Database
) -> None:
    await admission.admit(candidate("1"))
    [turn] = await inbox.claim(1)
    await inbox.finish(turn, Outcome("dead", "half a pair \udcff, and \x00"))
    [row] = await rows(database, deliveries, "state", "last_error")
    assert tuple(row) == ("dead", "half a pair \ufffd, and \ufffd")
    [run] = await rows(database, runs, "state", "error")
    assert tuple(run) == ("dead", "half a pair \ufffd, and \ufffd")


async def test_a_body_that_shall_not_be_kept_goes_when_its_run_is_done(
    admission: Admission, inbox: Inbox, database: Database
) -> None:
    await admission.admit(candidate("kept"))
    await admission.admit(candidate("not kept", keep_body=False))
    turns = await inbox.claim(2)
    assert [turn.body for turn in turns] == [BODY, BODY]
    for turn in turns:
        await inbox.finish(turn, Outcome("done"))
    kept = next(turn for turn in turns if turn.provider_delivery_id == "kept")
    assert [row.delivery_id for row in await rows(database, bodies)] == [kept.delivery_id]


async def test_a_late_write_of_an_old_attempt_is_rejected(
    admission: Admission, inbox: Inbox, database: Database
) -> None:
    await admission.admit(candidate())
    [old] = await inbox.claim(1)
    async with database.write() as connection:
        await connection.execute(update(deliveries).values(state="queued"))
    [new] = await inbox.claim(1)
    with pytest.raises(Superseded):
        await inbox.finish(old, Outcome("done"))
    await inbox.finish(new, Outcome("dead"))
    with pytest.raises(Superseded):
        await inbox.finish(new, Outcome("done"))
    assert [row.state for row in await rows(database, deliveries)] == ["dead"]


async def restarted(database: Database, clock: ManualClock) -> Inbox:
    """Return the inbox of the next daemon, after the last one was killed."""
    inbox = Inbox(database, clock)
    await inbox.recover()
    return inbox


async def test_after_a_kill_what_was_running_is_queued_to_run_alone(tmp_path: Path, clock: ManualClock) -> None:
    database = await Database.open(f"sqlite:///{tmp_path}/db", MasterKey(b"k" * 32))
    for number in range(3):
        await Admission(database, clock).admit(candidate(str(number)))
    turns = await Inbox(database, clock).claim(2)
    inbox = await restarted(database, clock)
    assert [row.state for row in await rows(database, runs)] == ["waiting", "waiting"]
    assert [turn.provider_delivery_id for turn in await inbox.claim(10)] == ["2"]
    assert inbox.suspects == 2
    for turn in turns:
        again = await inbox.claim_suspect()
        assert again is not None
        assert (again.id, again.run_id, again.attempt, again.tries) == (turn.id, turn.run_id, 2, 1)
    assert await inbox.claim_suspect() is None
    await database.close()


async def test_only_a_kill_while_it_runs_alone_counts_as_a_try(tmp_path: Path, clock: ManualClock) -> None:
    database = await Database.open(f"sqlite:///{tmp_path}/db", MasterKey(b"k" * 32))
    for number in range(3):
        await Admission(database, clock).admit(candidate(str(number)))
    await Inbox(database, clock).claim(3)
    for _ in range(TRIES):
        inbox = await restarted(database, clock)
        while (turn := await inbox.claim_suspect()) is not None:
            if turn.provider_delivery_id == "0":
                break  # it kills the daemon
            await inbox.finish(turn, Outcome("done"))
    assert await (await restarted(database, clock)).claim_suspect() is None
    found = await rows(database, deliveries, "state", "tries", "last_error", "suspect", "id")
    assert [tuple(row)[:4] for row in found] == [
        ("dead", TRIES, "the daemon stopped during the last of 5 tries, which recorded nothing new", False),
        ("done", 1, None, False),
        ("done", 1, None, False),
    ]
    await database.close()


async def test_a_delivery_that_ends_the_daemon_each_time_becomes_a_dead_letter(
    admission: Admission, inbox: Inbox, database: Database
) -> None:
    await admission.admit(candidate())
    for _ in range(5):
        assert len(await inbox.claim(1)) == 1
        async with database.write() as connection:
            await connection.execute(update(deliveries).values(state="queued"))
    assert await inbox.claim(1) == []
    [row] = await rows(database, deliveries)
    assert row.state == "dead"
    assert row.last_error == "the daemon stopped during the last of 5 tries, which recorded nothing new"
    assert [row.state for row in await rows(database, runs)] == ["dead"]


async def test_one_damaged_row_does_not_stop_the_others(admission: Admission, inbox: Inbox, database: Database) -> None:
    damaged = await admission.admit(candidate("damaged"))
    gone = await admission.admit(candidate("gone"))
    torn = await admission.admit(candidate("torn"))
    await admission.admit(candidate("whole"))
    async with database.write() as connection:
        await connection.execute(update(deliveries).where(deliveries.c.id == torn.delivery_id).values(headers="[["))
        await connection.execute(
            text("UPDATE bodies SET delivery_id = 'moved' WHERE delivery_id = :id"), {"id": gone.delivery_id}
        )
        await connection.execute(
            text(
                "UPDATE bodies SET body = (SELECT body FROM bodies WHERE delivery_id = 'moved') WHERE delivery_id = :id"
            ),
            {"id": damaged.delivery_id},
        )
    assert [turn.provider_delivery_id for turn in await inbox.claim(10)] == ["whole"]
    errors = {row.provider_delivery_id: row.last_error for row in await rows(database, deliveries)}
    assert "was changed or moved" in errors["damaged"]
    assert errors["gone"] == "its body is no longer stored"
    assert errors["torn"] == "its headers were changed"


async def test_a_lease_that_is_not_renewed_is_claimed_by_another(
    postgres_url: str, master_key: MasterKey, clock: ManualClock
) -> None:
    database = await Database.open(postgres_url, master_key)
    mine, theirs = Inbox(database, clock), Inbox(database, clock)
    await Admission(database, clock).admit(candidate())
    [turn] = await mine.claim(1)
    assert await theirs.claim(1) == []
    async with database.write() as connection:
        await connection.execute(update(deliveries).values(lease_until=1))
    assert await mine.renew([turn]) == {(turn.delivery_id, turn.attempt)}
    assert await theirs.claim(1) == []
    async with database.write() as connection:
        await connection.execute(update(deliveries).values(lease_until=1))
    [taken] = await theirs.claim(1)
    assert (taken.delivery_id, taken.attempt) == (turn.delivery_id, 2)
    assert await mine.renew([turn]) == set()
    await database.close()


async def test_two_daemons_never_claim_one_delivery(
    postgres_url: str, master_key: MasterKey, clock: ManualClock
) -> None:
    databases = [await Database.open(postgres_url, master_key) for _ in range(2)]
    await asyncio.gather(*(Admission(databases[0], clock).admit(candidate()) for _ in range(100)))
    claims = await asyncio.gather(*(Inbox(databases[n % 2], clock).claim(7) for n in range(30)))
    claimed = [turn.delivery_id for turns in claims for turn in turns]
    assert len(claimed) == len(set(claimed)) == 100
    for database in databases:
        await database.close()


async def test_a_dead_letter_sent_again_goes_on_with_its_run(
    admission: Admission, inbox: Inbox, database: Database, clock: ManualClock
) -> None:
    await admission.admit(candidate())
    [turn] = await inbox.claim(1)
    await inbox.finish(turn, Outcome("dead", "no"))
    await redeliver(database, clock, turn.delivery_id)
    [again] = await inbox.claim(1)
    assert (again.run_id, again.attempt, again.tries, again.body) == (turn.run_id, 2, 1, BODY)


@pytest.mark.parametrize(("state", "fresh"), [("done", False), ("dead", True), ("agent_gone", True)])
async def test_a_done_delivery_or_a_fresh_one_begins_a_new_run(
    admission: Admission, inbox: Inbox, database: Database, clock: ManualClock, state: str, fresh: bool
) -> None:
    await admission.admit(candidate())
    [turn] = await inbox.claim(1)
    await inbox.finish(turn, Outcome(state))
    await redeliver(database, clock, turn.delivery_id, fresh=fresh)
    [again] = await inbox.claim(1)
    assert again.run_id != turn.run_id


async def test_what_cannot_be_sent_again_says_why(
    admission: Admission, inbox: Inbox, database: Database, clock: ManualClock
) -> None:
    queued = await admission.admit(candidate())
    for delivery_id, reason in (
        ("nonsense", "there is no such delivery"),
        (queued.delivery_id, "it is queued already"),
    ):
        with pytest.raises(SymbiontError, match=f"{delivery_id} again: {reason}"):
            await redeliver(database, clock, delivery_id)
    [turn] = await inbox.claim(1)
    await inbox.finish(turn, Outcome("done"))
    async with database.write() as connection:
        await connection.execute(bodies.delete())
    with pytest.raises(SymbiontError, match="its body is no longer stored"):
        await redeliver(database, clock, turn.delivery_id)


async def test_what_ended_long_ago_is_forgotten_and_what_waits_is_not(
    admission: Admission, inbox: Inbox, database: Database, clock: ManualClock
) -> None:
    done = await admission.admit(candidate(replay_key=b"old", replay_until=clock.now() + 300))
    [turn] = await inbox.claim(1)
    await inbox.finish(turn, Outcome("done"))
    waiting = await admission.admit(candidate())
    clock.advance(20 * DAY)
    recent = await admission.admit(candidate(replay_key=b"new", replay_until=clock.now() + 300))
    clock.advance(11 * DAY)
    assert await prune(database, clock, keep_seconds=30 * DAY) == 3
    left = {row.id for row in await rows(database, deliveries)}
    assert left == {waiting.delivery_id, recent.delivery_id}
    assert {row.delivery_id for row in await rows(database, bodies)} == left
    assert await rows(database, runs) == []
    assert done.delivery_id not in left


async def test_replay_keys_outlive_their_requests_by_a_day(
    admission: Admission, database: Database, clock: ManualClock
) -> None:
    await admission.admit(candidate(replay_key=b"mac", replay_until=clock.now() + 300))
    clock.advance(DAY)
    await prune(database, clock, keep_seconds=30 * DAY)
    assert (await admission.admit(candidate(replay_key=b"mac"))).verdict == "replayed"
    clock.advance(301)
    await prune(database, clock, keep_seconds=30 * DAY)
    assert (await admission.admit(candidate(replay_key=b"mac"))).verdict == "accepted"


async def test_more_than_one_chunk_is_forgotten(
    admission: Admission, inbox: Inbox, database: Database, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runtime.webhooks.deliveries.retention.CHUNK", 4)
    await asyncio.gather(*(admission.admit(candidate()) for _ in range(10)))
    for turn in await inbox.claim(10):
        await inbox.finish(turn, Outcome("done"))
    clock.advance(2 * DAY)
    assert await prune(database, clock, keep_seconds=DAY) == 10
    assert await rows(database, bodies) == []
