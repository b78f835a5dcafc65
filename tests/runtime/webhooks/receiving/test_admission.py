"""A decision that was returned is committed; one delivery for one id; a repeat gets the first one's answer."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, update

from runtime.crypto import MasterKey
from runtime.database.connection import Database
from runtime.database.errors import Unavailable
from runtime.database.schema import bodies, deliveries, replay_keys
from runtime.database.sealed import Seal
from runtime.database.text import storable
from runtime.webhooks.deliveries.delivery import Decision
from runtime.webhooks.deliveries.storage_usage import StorageUsage
from runtime.webhooks.deliveries.stored_request import body_of
from runtime.webhooks.receiving.admission import Admission, Busy, Original, decide
from runtime.webhooks.receiving.pending_delivery import prepare_delivery
from tests.clocks import ManualClock, until
from tests.lanes import EFFORT, LONG
from tests.runtime.webhooks.candidates import BODY, candidate, cut_off, rows, verdicts


@pytest.fixture
def admission(database: Database, clock: ManualClock) -> Admission:
    return Admission(database, clock)


def _body(database: Database, row: Any) -> bytes:
    return body_of(Seal(database.keys, bodies.c.body).open(row.body, row=row.delivery_id), row.headers_size)


@given(st.none() | st.builds(Original, st.text(), st.text()), st.booleans())
def test_a_known_id_is_a_repeat_and_otherwise_a_known_key_a_replay(first: Original | None, seen: bool) -> None:
    verdict = decide(first, seen=seen)
    assert (verdict == "repeated") == (first is not None)
    assert (verdict == "accepted") == (first is None and not seen)


async def test_an_accepted_delivery_is_stored_with_its_sealed_body(admission: Admission, database: Database) -> None:
    decision = await admission.admit(candidate("1", event="pull_request", headers=(("user-agent", "GitHub"),)))
    [row] = await rows(database, deliveries)
    assert (row.id, row.state, row.event, row.headers, row.size) == (
        decision.delivery_id,
        "queued",
        "pull_request",
        '[["user-agent","GitHub"]]',
        len(BODY),
    )
    [stored] = await rows(database, bodies)
    assert BODY not in stored.body
    assert _body(database, stored) == BODY


@pytest.mark.parametrize("keep_body", [True, False])
async def test_what_is_for_no_agent_is_only_kept_and_wakes_nobody(
    admission: Admission, database: Database, keep_body: bool
) -> None:
    woken: list[None] = []
    admission.on_admitted = lambda: woken.append(None)
    first = await admission.admit(candidate("1", agent=None, keep_body=keep_body))
    [row] = await rows(database, deliveries)
    assert (row.state, row.agent) == ("kept", "")
    assert len(await rows(database, bodies)) == keep_body
    again = await admission.admit(candidate("1", agent=None, keep_body=keep_body))
    assert again == Decision("repeated", first.delivery_id)
    assert woken == []


async def test_a_repeat_is_told_of_the_first_one(admission: Admission, database: Database) -> None:
    first = await admission.admit(candidate("1"))
    again = await admission.admit(candidate("1"))
    assert again == Decision("repeated", first.delivery_id)
    assert len(await rows(database, deliveries)) == 1


async def test_a_repeat_is_told_of_the_first_one_while_that_is_being_committed(
    admission: Admission, database: Database
) -> None:
    many = await asyncio.gather(*(admission.admit(candidate("1")) for _ in range(40)))
    assert sorted(verdicts(many)) == ["accepted", *["repeated"] * 39]
    assert {decision.delivery_id for decision in many} == {many[0].delivery_id}
    assert len(await rows(database, deliveries)) == 1


async def test_the_same_id_at_another_webhook_or_of_another_user_is_another_delivery(admission: Admission) -> None:
    many = [candidate("1"), candidate("1", webhook="other"), candidate("1", user_id="somebody")]
    assert verdicts(await asyncio.gather(*map(admission.admit, many))) == ["accepted"] * 3


async def test_deliveries_without_id_and_key_are_never_repeats(admission: Admission) -> None:
    assert verdicts([await admission.admit(candidate()) for _ in range(3)]) == ["accepted"] * 3


async def test_a_request_seen_before_is_refused(admission: Admission, database: Database) -> None:
    first = await admission.admit(candidate(replay_key=b"mac", replay_until=2e9))
    again = await admission.admit(candidate(replay_key=b"mac", replay_until=2e9))
    assert verdicts([first, again]) == ["accepted", "replayed"]
    assert [row.expires_at for row in await rows(database, replay_keys)] == [2_000_000_000_000]


async def test_of_the_same_request_sent_twice_at_once_one_is_accepted(admission: Admission) -> None:
    both = await asyncio.gather(*(admission.admit(candidate(replay_key=b"mac")) for _ in range(2)))
    assert sorted(verdicts(both)) == ["accepted", "replayed"]


async def test_a_repeat_that_is_byte_for_byte_the_first_is_a_repeat(admission: Admission) -> None:
    both = [await admission.admit(candidate("1", replay_key=b"mac")) for _ in range(2)]
    assert verdicts(both) == ["accepted", "repeated"]


async def test_only_what_is_accepted_leaves_a_key(admission: Admission, database: Database) -> None:
    await admission.admit(candidate("1", replay_key=b"first"))
    await admission.admit(candidate("1", replay_key=b"second"))
    assert [row.mac for row in await rows(database, replay_keys)] == [b"first"]


async def test_a_repeat_of_a_dead_letter_queues_it_again(admission: Admission, database: Database) -> None:
    first = await admission.admit(candidate("1"))
    async with database.write() as connection:
        await connection.execute(update(deliveries).values(state="dead", tries=5))
        await connection.execute(bodies.delete())
    many = await asyncio.gather(*(admission.admit(candidate("1")) for _ in range(3)))
    assert [(again.delivery_id, again.queued_again) for again in many] == [
        (first.delivery_id, True),
        (first.delivery_id, False),
        (first.delivery_id, False),
    ]
    assert [(row.state, row.tries) for row in await rows(database, deliveries)] == [("queued", 0)]
    [body] = await rows(database, bodies)
    assert _body(database, body) == BODY


async def test_the_dispatcher_is_woken_after_the_commit(admission: Admission, database: Database) -> None:
    woken: list[int] = []
    admission.on_admitted = lambda: woken.append(1)
    await admission.admit(candidate("1"))
    await admission.admit(candidate("1"))
    assert woken == [1]


async def test_over_its_capacity_it_is_busy_and_recovers(database: Database, clock: ManualClock) -> None:
    admission = Admission(database, clock, capacity=3)
    results = await asyncio.gather(*(admission.admit(candidate()) for _ in range(10)), return_exceptions=True)
    assert sum(isinstance(result, Busy) for result in results) == 7
    assert (await admission.admit(candidate())).verdict == "accepted"


async def test_bodies_that_wait_are_bounded_too(
    database: Database, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runtime.webhooks.receiving.admission.CAPACITY_BYTES", 100)
    admission = Admission(database, clock)
    results = await asyncio.gather(
        *(admission.admit(candidate(body=b"x" * 60)) for _ in range(3)), return_exceptions=True
    )
    assert [isinstance(result, Busy) for result in results] == [False, True, True]
    assert (await admission.admit(candidate(body=b"x" * 1000))).verdict == "accepted"


async def test_a_client_that_goes_away_does_not_hurt_the_others(admission: Admission, database: Database) -> None:
    tasks = [asyncio.create_task(admission.admit(candidate(str(number)))) for number in range(6)]
    await asyncio.sleep(0)
    tasks[2].cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [isinstance(result, Decision) for result in results] == [True, True, False, True, True, True]
    assert len(await rows(database, deliveries)) == 6


async def test_a_row_that_cannot_be_stored_fails_alone(admission: Admission, database: Database) -> None:
    broken = candidate("broken", provider=None)
    many = [candidate("1"), broken, candidate("2")]
    results = await asyncio.gather(*map(admission.admit, many), return_exceptions=True)
    assert [isinstance(result, Decision) for result in results] == [True, False, True]
    assert (await admission.admit(candidate("broken"))).verdict == "accepted"


async def test_a_failed_commit_releases_the_ids(
    admission: Admission, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = admission._insert

    def fails(connection: Connection, accepted: list[object]) -> None:
        real(connection, accepted)  # type: ignore[arg-type]
        raise Unavailable("the disk is full")

    monkeypatch.setattr(admission, "_insert", fails)
    both = await asyncio.gather(*(admission.admit(candidate("1")) for _ in range(2)), return_exceptions=True)
    assert [str(error) for error in both] == ["the disk is full"] * 2
    monkeypatch.undo()
    await until(lambda: database.outage.problem is None)
    assert (await admission.admit(candidate("1"))).verdict == "accepted"


async def test_text_that_databases_refuse_is_stored_readably(admission: Admission, database: Database) -> None:
    await admission.admit(candidate("a\x00b", event="\ud800", headers=(("user-agent", "\udcff\x00"),)))
    [row] = await rows(database, deliveries)
    assert (row.provider_delivery_id, row.event) == ("a�b", "�")
    assert row.headers == '[["user-agent","��"]]'


@given(st.text())
def test_what_is_storable_has_no_nul_and_is_unicode(value: str) -> None:
    stored = storable(value)
    assert stored is not None
    assert "\x00" not in stored
    stored.encode()


async def test_an_id_of_any_length_is_recognised(admission: Admission) -> None:
    both = [await admission.admit(candidate("x" * 100_000)) for _ in range(2)]
    assert verdicts(both) == ["accepted", "repeated"]
    assert (await admission.admit(candidate("x" * 100_001))).verdict == "accepted"


async def test_what_was_asked_before_closing_is_stored(database_url: str, master_key: MasterKey) -> None:
    database = await Database.open(database_url, master_key)
    admission = Admission(database, ManualClock())
    tasks = [asyncio.create_task(admission.admit(candidate())) for _ in range(300)]
    await asyncio.sleep(0)
    await database.close()
    assert verdicts(await asyncio.gather(*tasks)) == ["accepted"] * 300
    with pytest.raises(Unavailable, match="closed"):
        await admission.admit(candidate())


async def test_two_daemons_accept_one_delivery_once(postgres_url: str, master_key: MasterKey) -> None:
    databases = [await Database.open(postgres_url, master_key) for _ in range(2)]
    admissions = [Admission(database, ManualClock()) for database in databases]
    # Both get the same 200 deliveries at the same moment, in opposite orders.
    many = [candidate(str(number), replay_key=str(number).encode()) for number in range(200)]
    orders = (many, many[::-1])
    first, second = await asyncio.gather(
        *(asyncio.gather(*map(a.admit, order)) for a, order in zip(admissions, orders, strict=True))
    )
    pairs = list(zip(first, second[::-1], strict=True))
    assert {tuple(sorted(verdicts(pair))) for pair in pairs} == {("accepted", "repeated")}
    assert all(one.delivery_id == other.delivery_id for one, other in pairs)
    assert len(await rows(databases[0], bodies)) == 200
    for database in databases:
        await database.close()


async def test_a_lost_connection_is_told_and_the_next_delivery_is_stored(
    postgres_url: str, master_key: MasterKey
) -> None:
    database = await Database.open(postgres_url, master_key)
    admission = Admission(database, ManualClock())
    await admission.admit(candidate("1"))
    await cut_off(database)
    results = [await _tried(admission, str(number)) for number in range(2, 6)]
    assert isinstance(results[-1], Decision)
    stored = {row.provider_delivery_id for row in await rows(database, deliveries)}
    acknowledged = {str(number) for number, result in enumerate(results, 2) if isinstance(result, Decision)}
    assert stored == {"1"} | acknowledged
    await database.close()


async def _tried(admission: Admission, name: str) -> Decision | Unavailable:
    try:
        return await admission.admit(candidate(name))
    except Unavailable as error:
        return error


@pytest.mark.parametrize("given", [{"provider_delivery_id": "1"}, {"replay_key": b"mac"}, {}])
async def test_a_delivery_whose_commit_was_not_heard_of_is_accepted_once(
    database: Database, clock: ManualClock, given: dict[str, Any]
) -> None:
    admission = Admission(database, clock)
    entry = prepare_delivery(candidate(**given), clock, StorageUsage())
    for _ in range(2):
        [decision] = await database.transact(lambda connection: admission._admit(connection, [entry]))
        assert decision == Decision("accepted", entry.delivery_id)
    assert len(await rows(database, deliveries)) == 1


ROOT = Path(__file__).parents[4]


@LONG
async def test_everything_acknowledged_is_there_after_kill_9(database_url: str, master_key: MasterKey) -> None:
    acknowledged: set[str] = set()
    for round_number in range(1, 11 if EFFORT > 1 else 3):
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.runtime.webhooks.admitter", database_url),
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None
        for _ in range(100 * round_number):
            acknowledged.add((await process.stdout.readline()).decode().strip())
        process.kill()
        # Everything that it printed before it died was acknowledged, except a torn last line.
        tail = (await process.stdout.read()).decode()
        acknowledged.update(tail.splitlines() if tail.endswith("\n") else tail.splitlines()[:-1])
        await process.wait()
    database = await Database.open(database_url, master_key)
    assert acknowledged <= {row.id for row in await rows(database, deliveries, "id")}
    seal = Seal(database.keys, bodies.c.body)
    whole = {
        row.delivery_id
        for row in await rows(database, bodies)
        if body_of(seal.open(row.body, row=row.delivery_id), row.headers_size) == b"x" * 5000
    }
    assert whole == {row.id for row in await rows(database, deliveries, "id")}
    await database.close()
