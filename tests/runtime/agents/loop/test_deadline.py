"""A run that takes too long ends; the time in which it waits does not count."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from runtime.database.schema import OWNER, deliveries
from runtime.webhooks.deliveries.redelivery import redeliver
from tests.runtime.agents.loop.acting import acting, program
from tests.runtime.agents.loop.test_away import MISSING
from tests.runtime.agents.scripted import ScriptedModel, says
from tests.runtime.webhooks.candidates import rows

SAID = "The turn failed: the run took longer than 1 second (SYMBIONT_RUN_TIMEOUT allows more or less)"


@contextmanager
def held() -> Iterator[Callable[[Any], str]]:
    """Yield an answer that a model gives only after the end of the block."""
    release = threading.Event()

    def answer(_: Any) -> str:
        release.wait(60)
        return says("Too late.")

    try:
        yield answer
    finally:
        release.set()


@pytest.fixture
def one_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SYMBIONT_RUN_TIMEOUT", "1s")


@pytest.mark.usefixtures("one_second")
async def test_a_message_whose_run_takes_too_long_fails_and_its_thread_says_why(tmp_path: Path) -> None:
    with ScriptedModel() as model, held() as answer:
        model.replies.append(answer)
        async with acting(tmp_path, program(model)) as agent:
            assert await agent.ask("Hello.") == "failed"
            assert await agent.events() == ["run_failed"]
            assert (await agent.messages())[-1].text == SAID


@pytest.mark.usefixtures("one_second")
async def test_a_delivery_whose_run_takes_too_long_is_a_dead_letter(tmp_path: Path) -> None:
    with ScriptedModel() as model, held() as answer:
        model.replies.append(answer)
        async with acting(tmp_path, program(model)) as agent:
            assert await agent.end(await agent.deliver({"number": 1})) == "failed"
            [row] = await rows(agent.app.state.database, deliveries, "state", "tries", "last_error")
            assert (row.state, row.tries) == ("dead", 1)
            assert "the run took longer than 1 second" in row.last_error
        assert len(model.bodies) == 1


@pytest.mark.usefixtures("one_second")
async def test_waiting_for_the_model_does_not_count(tmp_path: Path) -> None:
    with ScriptedModel(says("Hello.")) as model:
        async with acting(tmp_path, program(model, models=MISSING, chosen="model closed")) as agent:
            turn = await agent.send("Hello.")
            # The wait takes a second or more.
            row = await agent.until(turn, lambda row: row.attempt == 2 and row.state == "model_unavailable")
            assert row.ended is None


@pytest.mark.usefixtures("one_second")
async def test_a_dead_letter_that_is_sent_again_has_its_time_anew(tmp_path: Path) -> None:
    with ScriptedModel() as model, held() as answer:
        model.replies += [answer, says("In time.")]
        async with acting(tmp_path, program(model)) as agent:
            delivery = await agent.deliver({"number": 1})
            assert await agent.end(delivery) == "failed"
            await redeliver(agent.app.state.database, agent.app.state.clock, delivery)
            agent.dispatcher.wake()
            row = await agent.until(delivery, lambda row: row.ended == "answered")
            assert row.attempt == 2


async def test_a_run_is_cancelled_before_its_time_is_over(tmp_path: Path) -> None:
    with ScriptedModel() as model, held() as answer:
        model.replies.append(answer)
        async with acting(tmp_path, program(model)) as agent:
            turn = await agent.send("Hello.")
            await agent.until(turn, lambda _: bool(model.bodies))
            assert await agent.dispatcher.cancel(turn, OWNER) == "running"
            assert await agent.end(turn) == "cancelled"
            assert await agent.events() == ["run_cancelled"]
