"""A run by its id: whether it goes on, from the state of its turn."""

from __future__ import annotations

import pytest

from runtime.database.connection import Database
from runtime.database.schema import OWNER
from runtime.errors import GiveUp, NotFound
from runtime.threads.inputs import Inputs
from runtime.threads.turns.named_run import TurnBefore, named_run
from runtime.threads.turns.turn import AGENT_GONE, NEVER, Outcome
from runtime.webhooks.deliveries.inbox import Inbox
from runtime.webhooks.deliveries.redelivery import redeliver
from runtime.webhooks.receiving.admission import Admission
from tests.clocks import ManualClock
from tests.runtime.threads.turns.sending import send
from tests.runtime.webhooks.candidates import candidate


async def test_a_message_is_living_until_its_run_has_ended(database: Database, clock: ManualClock) -> None:
    (sent,) = await send(database, clock, "Hello")
    found = await named_run(database, sent, OWNER)
    assert (found.run.id, found.run.trigger, found.living) == (sent, "message", "queued")
    assert found.arrived_at == found.run.started_at
    inputs = Inputs(database, clock)
    (turn,) = await inputs.claim(1)
    assert (await named_run(database, sent, OWNER)).living == "running"
    await inputs.finish(turn, Outcome("done", ended="answered"))
    ended = await named_run(database, sent, OWNER)
    assert (ended.run.ended, ended.living) == ("answered", None)


async def test_a_message_that_waits_for_its_thread_names_what_the_turn_before_waits_for(
    database: Database, clock: ManualClock
) -> None:
    first, second = await send(database, clock, "One", "Two")
    inputs = Inputs(database, clock)
    (turn,) = await inputs.claim(1)
    assert (await named_run(database, second, OWNER)).before == TurnBefore("running", None)
    await inputs.finish(turn, Outcome("queued", "no budget", run_state="budget_exceeded", until=NEVER))
    assert (await named_run(database, second, OWNER)).before == TurnBefore("budget_exceeded", "no budget")
    assert (await named_run(database, first, OWNER)).before is None


async def test_a_delivery_whose_agent_is_gone_is_not_living_until_it_is_sent_again(
    database: Database, clock: ManualClock
) -> None:
    inbox = Inbox(database, clock)
    received = await Admission(database, clock).admit(candidate())
    clock.advance(60)
    (turn,) = await inbox.claim(1)
    await inbox.finish(turn, Outcome(AGENT_GONE, "gone"))
    found = await named_run(database, turn.run_id, OWNER)
    assert (found.living, found.run.delivery_id) == (None, received.delivery_id)
    assert found.run.state == AGENT_GONE
    assert found.arrived_at == found.run.started_at - 60_000
    await redeliver(database, clock, received.delivery_id)
    assert (await named_run(database, turn.run_id, OWNER)).living == "queued"
    (again,) = await inbox.claim(1)
    await inbox.finish(again, Outcome("dead", GiveUp("no").line()))
    assert (await named_run(database, turn.run_id, OWNER)).living is None
    await redeliver(database, clock, received.delivery_id, fresh=True)
    (new,) = await inbox.claim(1)
    assert (await named_run(database, turn.run_id, OWNER)).living is None
    assert (await named_run(database, new.run_id, OWNER)).living == "running"


@pytest.mark.parametrize("user", [OWNER, "bob"])
async def test_an_unknown_run_and_one_of_another_user_are_not_told_apart(
    database: Database, clock: ManualClock, user: str
) -> None:
    (sent,) = await send(database, clock, "Hello")
    asked = "none" if user == OWNER else sent
    with pytest.raises(NotFound, match=f"there is no run {asked}"):
        await named_run(database, asked, user)
