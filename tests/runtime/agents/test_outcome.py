"""What an error means decides what happens to the turn: it waits, is tried again, or is given up."""

from __future__ import annotations

from typing import Any

import structlog

from runtime.agents.outcome import AWAY_SECONDS, outcome_name, outcome_of
from runtime.database.connection import Database
from runtime.database.errors import Unavailable
from runtime.database.schema import OWNER, inputs
from runtime.errors import GiveUp, Retry
from runtime.metrics.metrics import OUTCOMES
from runtime.models.model import ModelRefused, ModelUnavailable, NoSuchModel
from runtime.threads.inputs import ClaimedInput
from runtime.threads.turns.named_run import named_run
from runtime.threads.turns.turn import AgentGone, ThreadBusy
from tests.cases import each_case
from tests.clocks import ManualClock, until
from tests.runtime.threads.turns.sending import Entering, dispatching, send, settled, thread_id
from tests.runtime.webhooks.candidates import rows

AWAY = ModelUnavailable("the model m on localhost does not answer")


def turn(attempt: int = 1) -> ClaimedInput:
    ids: dict[str, Any] = {"id": "i", "run_id": "i", "agent": "a", "user_id": OWNER, "thread_id": "t"}
    return ClaimedInput(**ids, attempt=attempt, tries=1, text="hello", scopes=frozenset(), sent_at=0)


@each_case(
    ("error", "state", "counts", "run_state", "name"),
    [
        (AWAY, "queued", False, "model_unavailable", "model_unavailable"),
        (Unavailable("the database does not answer"), "queued", False, "waiting", "interrupted"),
        (ModelRefused("wrong key"), "dead", True, None, "dead"),
        (NoSuchModel("no model m"), "dead", True, None, "dead"),
        (GiveUp("no use"), "dead", True, None, "dead"),
        (ThreadBusy("t"), "waiting", False, None, "waiting"),
        (AgentGone("a"), "agent_gone", True, None, "agent_gone"),
        (Retry("busy"), "queued", True, None, "retry"),
        (ZeroDivisionError(), "queued", True, None, "retry"),
    ],
)
def test_the_meaning_of_an_error_decides(
    error: Exception, state: str, counts: bool, run_state: str | None, name: str
) -> None:
    outcome = outcome_of(turn(), error)
    assert (outcome.state, outcome.counts, outcome.run_state) == (state, counts, run_state)
    assert outcome_name(outcome) == name
    assert name in OUTCOMES


@each_case("attempt", [1, 2, 5, 1000])
@each_case(("asked", "least", "most"), [(None, 1, AWAY_SECONDS), (0, 1, 1), (7, 7, 7), (900, 30, 30)])
def test_a_model_that_is_away_is_asked_again_within_half_a_minute(
    attempt: int, asked: float | None, least: float, most: float
) -> None:
    outcome = outcome_of(turn(attempt), ModelUnavailable("away", retry_after=asked))
    assert least <= outcome.wait <= most


async def test_an_outage_of_the_model_costs_no_try_and_is_logged_once(database: Database, clock: ManualClock) -> None:
    agent = Entering(database, clock, thread_id("0"), *[AWAY] * 8)
    first, second = await send(database, clock, "one", "two")
    with structlog.testing.capture_logs() as logged:
        async with dispatching(database, clock, agent):
            for attempt in range(1, 9):
                await until(lambda wanted=attempt: len(agent.order) == wanted)  # type: ignore[misc]
                await settled(database, {first: "queued", second: "waiting"})
                assert (await named_run(database, first, OWNER)).run.state == "model_unavailable"
                clock.advance(AWAY_SECONDS)
            await settled(database, {first: "done", second: "done"})
    assert [each["error"] for each in logged if each["event"] == "run_interrupted"] == [str(AWAY)]
    [one, two] = await rows(database, inputs, "tries", "attempt", "id")
    assert ((one.tries, one.attempt), (two.tries, two.attempt)) == ((1, 9), (1, 1))


async def test_a_model_that_refuses_ends_the_run_at_once(database: Database, clock: ManualClock) -> None:
    agent = Entering(database, clock, thread_id("0"), ModelRefused("the key is wrong", hint="set another"))
    [first] = await send(database, clock, "one")
    async with dispatching(database, clock, agent):
        await settled(database, {first: "dead"})
    found = (await named_run(database, first, OWNER)).run
    assert (found.ended, found.error) == ("failed", "the key is wrong (set another)")
