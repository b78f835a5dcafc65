"""A message to an agent is stored when `send` returns, belongs to a thread of its user, and tells how it went."""

from __future__ import annotations

import pytest
from sqlalchemy import update

from runtime.crypto import Unsealable
from runtime.database.connection import Database
from runtime.database.schema import OWNER, inputs, runs
from runtime.database.sealed import Seal
from runtime.errors import NotFound, UsageError
from runtime.threads.inputs import LONGEST, Inputs
from runtime.threads.turns.named_run import named_run
from runtime.threads.turns.turn import Outcome
from runtime.tools.agent.run_answer import AnsweredRun
from tests.clocks import ManualClock
from tests.runtime.threads.turns.sending import AGENT, open_thread, send
from tests.runtime.webhooks.candidates import rows


async def test_a_message_arrives_as_it_was_sent(database: Database, clock: ManualClock) -> None:
    thread, queue = await open_thread(database, clock), Inputs(database, clock)
    text = "ünïcode \U0001f600\x00 and\nlines " + "x" * (LONGEST - 100)
    made = await queue.send(OWNER, AGENT, thread, text, {"write", "read"})
    [turn] = await queue.claim(1)
    assert (turn.id, turn.run_id, turn.text, turn.thread_id) == (made, made, text, thread)
    assert (turn.user_id, turn.agent, turn.scopes) == (OWNER, AGENT, frozenset({"read", "write"}))
    assert turn.sent_at == turn.arrived_at == int(clock.now() * 1000)


async def test_what_was_sent_is_unreadable_in_the_database(database: Database, clock: ManualClock) -> None:
    await send(database, clock, "okapiquux")
    [row] = await rows(database, inputs)
    assert b"okapiquux" not in row.content
    with pytest.raises(Unsealable):
        Seal(database.keys, inputs.c.content).open(row.content, row="another", user_id=OWNER)


@pytest.mark.parametrize("text", ["", " \n\t", "x" * (LONGEST + 1), "é" * (LONGEST // 2 + 1), "\ud800"])
async def test_what_cannot_be_sent_is_refused(database: Database, clock: ManualClock, text: str) -> None:
    thread = await open_thread(database, clock)
    with pytest.raises(UsageError):
        await Inputs(database, clock).send(OWNER, AGENT, thread, text, {"write"})
    assert await rows(database, inputs) == await rows(database, runs) == []


async def test_a_thread_of_another_user_or_agent_is_not_found(database: Database, clock: ManualClock) -> None:
    thread, queue = await open_thread(database, clock), Inputs(database, clock)
    for user, agent, where in (("ada", AGENT, thread), (OWNER, "other", thread), (OWNER, AGENT, "no such")):
        with pytest.raises(NotFound):
            await queue.send(user, agent, where, "hello", {"write"})
    assert await rows(database, inputs) == await rows(database, runs) == []


async def test_a_sender_sees_what_becomes_of_a_message(database: Database, clock: ManualClock) -> None:
    queue = Inputs(database, clock)
    first, second = await send(database, clock, "one", "two")

    async def seen(run_id: str) -> tuple[str, str, str | None, str | None, str | None]:
        run = AnsweredRun.of(await named_run(database, run_id, OWNER))
        return run.turn, run.state, run.ended, run.error, run.behind

    assert await seen(second) == ("waiting", "waiting", None, None, None)
    [turn] = await queue.claim(1)
    assert await seen(first) == ("running", "running", None, None, None)
    await queue.finish(turn, Outcome("queued", "m is away", counts=False, run_state="model_unavailable"))
    assert await seen(first) == ("queued", "model_unavailable", None, "m is away", None)
    # The next one of the thread waits for the model too.
    behind = "an earlier turn of the thread waits: m is away"
    assert await seen(second) == ("waiting", "waiting", None, behind, "model_unavailable")
    [turn] = await queue.claim(1)
    assert (turn.tries, turn.attempt) == (1, 2)
    await queue.finish(turn, Outcome("done", ended="max_steps"))
    assert await seen(first) == ("done", "done", "max_steps", None, None)
    [turn] = await queue.claim(1)
    await queue.finish(turn, Outcome("dead", "no use"))
    assert await seen(second) == ("dead", "dead", "failed", "no use", None)
    with pytest.raises(NotFound):
        await named_run(database, second, "ada")


async def test_a_message_that_was_stored_by_a_lost_commit_is_stored_once(
    database: Database, clock: ManualClock
) -> None:
    thread, queue = await open_thread(database, clock), Inputs(database, clock)
    given: list[object] = []
    store = database.commits.store

    async def twice(stage: object, item: object) -> object:
        given.append(item)
        await store(stage, item)  # type: ignore[arg-type]
        await database.transact(lambda connection: connection.execute(update(inputs).values(state="done")))
        return await store(stage, item)  # type: ignore[arg-type]

    database.commits.store = twice  # type: ignore[method-assign,assignment]
    made = await queue.send(OWNER, AGENT, thread, "hello", {"write"})
    [row] = await rows(database, inputs)
    assert (row.id, row.state) == (made, "done")
    assert len(given) == 1
