"""Finished deliveries can be sent again, one or many, and asking twice runs nothing twice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from sqlalchemy import update

from runtime.database.connection import Database
from runtime.database.schema import bodies, deliveries
from runtime.errors import NotFound, UsageError
from runtime.threads.turns.turn import Outcome
from runtime.webhooks.audit import log
from runtime.webhooks.audit.audit import Audit
from runtime.webhooks.audit.log import LogQuery
from runtime.webhooks.deliveries import queries
from runtime.webhooks.deliveries.delivery import RejectedRequest
from runtime.webhooks.deliveries.inbox import Inbox
from runtime.webhooks.deliveries.queries import DeliveryQuery
from runtime.webhooks.deliveries.redelivery import Redelivery, redeliver_all
from runtime.webhooks.receiving.admission import Admission
from tests.clocks import ManualClock
from tests.runtime.webhooks.candidates import BODY, candidate, rows

RECEIVED = (("X-GitHub-Event", "push"), ("X-Odd", "Ä"))


async def oldest_ids(database: Database, wanted: DeliveryQuery, limit: int, after: str = "") -> list[str]:
    return [row.id for row in await queries.list_deliveries(database, wanted, limit, after)]


async def ended(database: Database, clock: ManualClock, *outcomes: str, **more: Any) -> list[str]:
    """Return the ids of deliveries that ended in this state, oldest first, a second apart."""
    inbox, ids = Inbox(database, clock), []
    for outcome in outcomes:
        decision = await Admission(database, clock).admit(candidate(received=RECEIVED, **more))
        ids.append(decision.delivery_id)
        if outcome != "queued":
            [turn] = await inbox.claim(1)
            await inbox.finish(turn, Outcome(outcome, None if outcome == "done" else "no use"))
        clock.advance(1)
    return ids


async def test_a_range_that_is_sent_twice_is_queued_once(database: Database, clock: ManualClock) -> None:
    ids = await ended(database, clock, "dead", "done", "dead", "agent_gone")
    dead = await oldest_ids(database, DeliveryQuery(states=("dead",)), 100)
    assert dead == [ids[0], ids[2]]
    first, second = await asyncio.gather(*(redeliver_all(database, clock, dead, states=("dead",)) for _ in range(2)))
    assert first == [Redelivery(each) for each in dead]
    assert second == [Redelivery(each, "it is queued already") for each in dead]
    assert await oldest_ids(database, DeliveryQuery(states=("dead",)), 100) == []
    turns = await Inbox(database, clock).claim(10)
    assert [turn.delivery_id for turn in turns] == dead
    assert [turn.tries for turn in turns] == [1, 1]


async def test_what_changed_meanwhile_is_left_alone(database: Database, clock: ManualClock) -> None:
    [delivery] = await ended(database, clock, "done")
    assert await redeliver_all(database, clock, [delivery], states=("dead",)) == [Redelivery(delivery, "it is done")]


async def test_many_are_claimed_in_the_order_in_which_they_were_named(database: Database, clock: ManualClock) -> None:
    ids = await ended(database, clock, *["dead"] * 6)
    order = [ids[place] for place in (3, 0, 5, 1, 4, 2)]
    assert await redeliver_all(database, clock, [*order, order[0]]) == [Redelivery(each) for each in order]
    inbox = Inbox(database, clock)
    claimed = [(await inbox.claim(1))[0].delivery_id for _ in ids]
    assert claimed == order


async def test_of_many_each_that_cannot_be_sent_says_why(database: Database, clock: ManualClock) -> None:
    dead, no_body, no_agent, queued = await ended(database, clock, "dead", "dead", "agent_gone", "queued")
    async with database.write() as connection:
        await connection.execute(bodies.delete().where(bodies.c.delivery_id == no_body))
        await connection.execute(update(deliveries).where(deliveries.c.id == no_agent).values(agent="gone"))
    sent = await redeliver_all(database, clock, [dead, no_body, no_agent, queued, "nonsense"], agents=("reviewer",))
    assert [each.reason for each in sent] == [
        None,
        "its body is no longer stored",
        "the agent gone is not declared",
        "it is queued already",
        "there is no such delivery",
    ]
    assert [row.state for row in await rows(database, deliveries, "state", "id")] == [
        *("queued", "dead", "agent_gone", "queued")
    ]


async def test_what_is_only_kept_is_sent_when_its_webhook_wakes_an_agent(
    database: Database, clock: ManualClock
) -> None:
    kept = (await Admission(database, clock).admit(candidate(agent=None))).delivery_id
    refused = [Redelivery(kept, "the webhook github-events has no agent")]
    assert await redeliver_all(database, clock, [kept], agents=("reviewer",)) == refused
    assert await Inbox(database, clock).claim(1) == []
    assert await redeliver_all(
        database, clock, [kept], agents=("reviewer",), wakes={"github-events": "reviewer"}.get
    ) == [Redelivery(kept)]
    [turn] = await Inbox(database, clock).claim(1)
    assert (turn.agent, turn.body) == ("reviewer", BODY)


async def test_a_repeat_and_a_replay_of_one_dead_letter_run_it_once(database: Database, clock: ManualClock) -> None:
    [dead] = await ended(database, clock, "dead", provider_delivery_id="1")
    decision = await Admission(database, clock).admit(candidate("1"))
    assert (decision.delivery_id, decision.queued_again) == (dead, True)
    assert await redeliver_all(database, clock, [dead]) == [Redelivery(dead, "it is queued already")]
    assert len(await Inbox(database, clock).claim(10)) == 1


async def test_deliveries_are_found_by_webhook_state_and_time(database: Database, clock: ManualClock) -> None:
    begun = int(clock.now() * 1000)
    ids = await ended(database, clock, "dead", "done", "agent_gone", "queued")
    for wanted, places in (
        (DeliveryQuery(), [3, 2, 1, 0]),
        (DeliveryQuery(name="github-events", states=("dead", "agent_gone")), [2, 0]),
        (DeliveryQuery(name="payments"), []),
        (DeliveryQuery(since=begun + 1000), [3, 2, 1]),
        (DeliveryQuery(since=begun + 1000, until=begun + 3000), [2, 1]),
        (DeliveryQuery(states=("running",)), []),
    ):
        assert [row.id for row in await queries.list_deliveries(database, wanted, 10)] == [
            ids[place] for place in places
        ]
    assert await oldest_ids(database, DeliveryQuery(), 2) == ids[:2]
    assert await oldest_ids(database, DeliveryQuery(), 2, ids[1]) == ids[2:]
    with pytest.raises(UsageError, match="unknown state"):
        await queries.list_deliveries(database, DeliveryQuery(states=("dead' OR '1'='1",)), 10)


async def test_a_delivery_is_found_by_the_beginning_of_its_id(database: Database, clock: ManualClock) -> None:
    ids = await ended(database, clock, "done", "done")
    assert await queries.resolve(database, ids[0]) == ids[0]
    assert await queries.resolve(database, ids[1][:23].upper()) == ids[1]
    with pytest.raises(UsageError, match=f"several deliveries begin with {ids[0][:6]}"):
        await queries.resolve(database, ids[0][:6])
    for text in ("00000000", ids[0][:-1] + ("0" if ids[0][-1] != "0" else "1")):
        with pytest.raises(NotFound, match="there is no delivery"):
            await queries.resolve(database, text)
    with pytest.raises(UsageError, match="is not the id of a delivery"):
        await queries.resolve(database, "01%")


async def test_a_delivery_is_shown_with_all_that_was_received(database: Database, clock: ManualClock) -> None:
    [delivery] = await ended(database, clock, "dead")
    shown = await queries.show(database, delivery)
    assert (shown.headers, shown.body, shown.why) == (RECEIVED, BODY, None)
    assert (shown.row.state, shown.row.last_error) == ("dead", "no use")
    assert [(run.state, run.error) for run in shown.runs] == [("dead", "no use")]
    async with database.write() as connection:
        await connection.execute(bodies.delete())
    assert (await queries.show(database, delivery)).why == "its body is no longer stored"
    with pytest.raises(NotFound):
        await queries.show(database, "nonsense")


async def test_attempts_are_read_by_reason_status_and_time(database: Database, clock: ManualClock) -> None:
    audit = Audit(database, clock)
    begun = int(clock.now() * 1000)
    [first] = await ended(database, clock, "done")
    audit.put(
        RejectedRequest(verdict="refused", reason="signature_mismatch", status=401, size=2, webhook="github-events")
    )
    clock.advance(1)
    audit.put(RejectedRequest(verdict="refused", reason="not_found", status=404, size=0))
    await audit.flush()
    clock.advance(1)
    [last] = await ended(database, clock, "done", webhook="payments", verified=False)
    for asked, reasons in (
        (LogQuery(), ["verified", "signature_mismatch", "not_found", "unverified"]),
        (LogQuery(reason="not_found"), ["not_found"]),
        (LogQuery(reason="unverified"), ["unverified"]),
        (LogQuery(status=(400, 499)), ["signature_mismatch", "not_found"]),
        (LogQuery(status=(404, 404)), ["not_found"]),
        (LogQuery(name="payments"), ["unverified"]),
        (LogQuery(since=begun + 2000), ["not_found", "unverified"]),
    ):
        assert [row.reason for row in await log.read(database, asked, 10)] == reasons
    newest = await log.read(database, LogQuery(), 2)
    assert [row.reason for row in newest] == ["not_found", "unverified"]
    assert [row.reason for row in await log.read(database, LogQuery(since=begun), 2)] == [
        *("verified", "signature_mismatch")
    ]
    assert {row.delivery_id for row in await log.read(database, LogQuery(status=(202, 202)), 10)} == {first, last}
