"""Every rejected request is recorded; a flood of refusals takes few rows, and no body or secret is stored."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.database.connection import Database
from runtime.database.errors import Unavailable
from runtime.database.schema import attempts, metadata
from runtime.threads.turns.turn import Outcome
from runtime.webhooks.audit.audit import Audit, chosen_headers, fair_share, noted_names
from runtime.webhooks.audit.log import LogQuery, read
from runtime.webhooks.deliveries.delivery import RejectedRequest
from runtime.webhooks.deliveries.inbox import Inbox
from runtime.webhooks.receiving.admission import Admission
from runtime.webhooks.request.headers import Headers
from tests.clocks import ManualClock, until
from tests.runtime.webhooks.candidates import candidate, rows


def attempt(verdict: str = "refused", reason: str = "signature_mismatch", **more: Any) -> RejectedRequest:
    given: dict[str, Any] = {"status": 401, "size": 10, "webhook": "github-events", "source": "192.0.2.1", **more}
    return RejectedRequest(verdict=verdict, reason=reason, **given)


@pytest.fixture
def audit(database: Database, clock: ManualClock) -> Audit:
    return Audit(database, clock, kept=20)


async def test_accepted_and_refused_are_told_together_in_the_order_in_which_they_came(
    audit: Audit, database: Database, clock: ManualClock
) -> None:
    audit.put(attempt())
    clock.advance(1)
    await Admission(database, clock).admit(candidate("1", event="push", source="192.0.2.7", verified=False))
    [work] = await Inbox(database, clock).claim(1)
    await Inbox(database, clock).finish(work, Outcome("dead", "no"))
    clock.advance(1)
    audit.put(attempt("filtered", "filtered", status=200, webhook="other", headers=(("user-agent", "x"),)))
    await audit.close()
    oldest, accepted, newest = await read(database, LogQuery(), 100)
    assert (newest.verdict, newest.status, newest.headers, newest.count) == ("filtered", 200, (("user-agent", "x"),), 1)
    assert (oldest.verdict, oldest.reason, oldest.source) == ("refused", "signature_mismatch", "192.0.2.1")
    assert (accepted.verdict, accepted.reason, accepted.status, accepted.verified) == (
        "accepted",
        "unverified",
        202,
        False,
    )
    assert (accepted.event, accepted.provider_delivery_id, accepted.size) == ("push", "1", len(work.body))
    assert (accepted.state, accepted.error, accepted.run_id, accepted.run_state) == ("dead", "no", work.run_id, "dead")
    assert [row.webhook for row in await read(database, LogQuery(name="other"), 100)] == ["other"]
    assert await read(database, LogQuery(), 2) == [accepted, newest]


async def test_the_first_alike_refusals_of_a_minute_have_a_row_each_and_the_rest_are_counted(
    audit: Audit, database: Database, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runtime.webhooks.audit.aggregation.ONE_BY_ONE", 1)
    for _ in range(3):
        audit.put(attempt())
        audit.put(attempt(reason="stale"))
        clock.advance(1)
        await audit.flush()
    audit.put(attempt(source="192.0.2.2"))
    clock.advance(60)
    audit.put(attempt())
    await audit.flush()
    counted = [(row.reason, row.source, row.count) for row in await rows(database, attempts)]
    assert sorted(counted) == [
        ("signature_mismatch", "192.0.2.1", 1),
        ("signature_mismatch", "192.0.2.1", 3),
        ("signature_mismatch", "192.0.2.2", 1),
        ("stale", "192.0.2.1", 3),
    ]
    assert (await read(database, LogQuery(), 1))[0].received_at == int(clock.now() * 1000)


async def test_what_was_not_wanted_or_repeated_has_a_row_each(audit: Audit, database: Database) -> None:
    for number in range(3):
        audit.put(attempt("repeated", "repeated", provider_delivery_id=str(number)))
    await audit.flush()
    assert [row.count for row in await rows(database, attempts)] == [1, 1, 1]


async def test_a_flood_keeps_the_newest_of_each_reason_only(
    audit: Audit, database: Database, clock: ManualClock
) -> None:
    audit.put(attempt(reason="stale"))
    for number in range(200):
        audit.put(attempt(source=f"192.0.2.{number}"))
        clock.advance(0.01)
        await audit.flush()
    kept = [row.source for row in await rows(database, attempts) if row.reason == "signature_mismatch"]
    assert 20 <= len(kept) <= 25
    assert kept[-1] == "192.0.2.199"
    assert "stale" in {row.reason for row in await rows(database, attempts)}


async def test_what_waits_to_be_written_is_bounded_and_the_rest_is_counted(
    database: Database, clock: ManualClock
) -> None:
    audit = Audit(database, clock, waiting=5)
    for number in range(9):
        audit.put(attempt(source=str(number)))
    await audit.flush()
    counted = [(row.source, row.count) for row in await rows(database, attempts)]
    assert sorted(counted, key=str) == [*((str(number), 1) for number in range(5)), (None, 4)]


async def test_a_flood_from_everywhere_takes_few_rows_a_minute(
    database: Database, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runtime.webhooks.audit.aggregation.PER_MINUTE", 10)
    audit = Audit(database, clock)
    for number in range(500):
        clock.advance(0.1)
        audit.put(attempt(source=f"2001:db8::{number:x}", headers=(("user-agent", "x"),)))
        if number % 50 == 0:
            audit.put(attempt("filtered", "filtered"))
            await audit.flush()
    await audit.flush()
    stored = [row for row in await rows(database, attempts) if row.verdict == "refused"]
    assert [(row.source, row.count) for row in stored[10:]] == [(None, 490)]
    assert (stored[10].headers, stored[10].body_sha256, stored[10].size) == ("[]", None, 0)
    assert stored[10].received_at == int(clock.now() * 1000)
    assert sum(row.verdict == "filtered" for row in await rows(database, attempts)) == 10


async def test_a_flood_at_one_webhook_pushes_out_nothing_of_another(
    audit: Audit, database: Database, clock: ManualClock
) -> None:
    audit.put(attempt(webhook="quiet"))
    audit.put(attempt(webhook=None, reason="not_found", status=404))
    for number in range(100):
        audit.put(attempt(source=str(number)))
        clock.advance(1)
        await audit.flush()
    left = [row.webhook for row in await rows(database, attempts)]
    assert left[:2] == ["quiet", None]
    assert len(left) <= 2 + 25


async def test_all_together_have_a_bound_and_the_largest_give_way(database: Database, clock: ManualClock) -> None:
    audit = Audit(database, clock, kept=100, kept_in_all=100)
    audit.put(attempt(webhook="quiet"))
    for number in range(120):
        audit.put(attempt(webhook=f"w{number % 3}", source=str(number)))
        clock.advance(1)
        await audit.flush()
    again = Audit(database, clock, kept=100, kept_in_all=60)
    again.put(attempt(webhook="quiet"))
    await again.flush()
    left = [row.webhook for row in await rows(database, attempts)]
    assert left.count("quiet") == 2
    assert [left.count(f"w{number}") for number in range(3)] == [19, 19, 19]


@given(st.lists(st.integers(0, 1000), max_size=30), st.integers(1, 1000))
def test_a_fair_share_leaves_small_groups_whole_and_uses_what_there_is(counts: list[int], total: int) -> None:
    share = fair_share(counts, total)
    kept = sum(min(count, share) for count in counts)
    assert kept <= max(total, len(counts))
    # One row more for each group would exceed the total.
    assert kept == sum(counts) or sum(min(count, share + 1) for count in counts) > total


async def test_which_secret_matched_is_told_and_that_none_was_asked_for(
    audit: Audit, database: Database, clock: ManualClock
) -> None:
    audit.put(attempt("filtered", "filtered", status=200, secret_index=1))
    audit.put(attempt("handshake", "handshake", status=200, verified=False))
    await audit.flush()
    admission = Admission(database, clock)
    clock.advance(1)
    await admission.admit(candidate("1", secret_index=0))
    clock.advance(1)
    await admission.admit(candidate("2", verified=False))
    told = [(row.verdict, row.verified, row.secret_index) for row in await read(database, LogQuery(), 100)]
    assert told[2:] == [("accepted", True, 0), ("accepted", False, None)]
    assert sorted(told[:2]) == [("filtered", True, 1), ("handshake", False, None)]


async def test_what_was_answered_is_told_also_where_a_row_prescribes_it(database: Database, clock: ManualClock) -> None:
    admission = Admission(database, clock)
    for name in ("github", "zoom", "discord-events"):
        await admission.admit(candidate(name, provider=name))
        clock.advance(1)
    assert [row.status for row in await read(database, LogQuery(), 100)] == [202, 200, 204]
    for status, found in (((200, 200), ["zoom"]), ((200, 299), ["github", "zoom", "discord-events"]), ((400, 499), [])):
        assert [row.provider_delivery_id for row in await read(database, LogQuery(status=status), 100)] == found


async def test_it_writes_by_itself(audit: Audit, database: Database, clock: ManualClock) -> None:
    task = asyncio.create_task(audit.run())
    audit.put(attempt())
    await until(lambda: clock.sleepers == 1)
    clock.advance(0.5)
    async with asyncio.timeout(60):
        while not await rows(database, attempts):
            await asyncio.sleep(0.005)
    task.cancel()
    await asyncio.wait({task})


async def test_what_is_being_written_is_waited_for(audit: Audit, database: Database) -> None:
    audit.put(attempt())
    async with database.write():
        first = asyncio.create_task(audit.flush())
        await asyncio.sleep(0)
        second = asyncio.create_task(audit.flush())
        await asyncio.wait({second}, timeout=0.05)
    await second
    assert len(await rows(database, attempts)) == 1
    await first


async def test_a_stop_in_the_middle_of_a_write_loses_nothing(audit: Audit, database: Database) -> None:
    audit.put(attempt())
    writing = asyncio.create_task(audit.flush())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    writing.cancel()
    await asyncio.wait({writing})
    await audit.close()
    assert len(await rows(database, attempts)) == 1


async def test_a_failing_database_does_not_end_it(
    audit: Audit, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(function: object) -> None:
        raise Unavailable("away")

    audit.put(attempt())
    with monkeypatch.context() as patched:
        patched.setattr(database, "transact", away)
        await audit.flush()
    audit.put(attempt())
    await audit.flush()
    assert [row.count for row in await rows(database, attempts)] == [1]


async def test_text_from_outside_is_cut_and_storable(audit: Audit, database: Database) -> None:
    audit.put(attempt(event="x" * 5000, provider_delivery_id="\x00\ud800", source="\x00"))
    await audit.flush()
    [row] = await rows(database, attempts)
    assert (row.event, row.provider_delivery_id, row.source) == ("x" * 200, "��", "�")


def test_headers_that_speak_of_a_secret_are_never_kept() -> None:
    headers = [
        ("Content-Type", "application/json"),
        ("User-Agent", "x" * 5000),
        ("X-GitHub-Event", "push"),
        ("X-Hub-Signature-256", "sha256=…"),
        ("Authorization", "Bearer …"),
        ("Cookie", "…"),
        ("X-Other", "…"),
    ]
    chosen = chosen_headers(Headers(headers), noted_names("X-GitHub-Event", "x-hub-signature-256", "authorization"))
    assert [name for name, _ in chosen] == ["content-type", "user-agent", "x-github-event"]
    assert {len(value) for _, value in chosen} == {16, 200, 4}


def test_the_audit_has_no_place_for_a_body() -> None:
    assert "body" not in metadata.tables["attempts"].c
