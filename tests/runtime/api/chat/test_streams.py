"""Streams of what happens in runs: from any place, without gaps, for their owner alone, and bounded."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, delete
from structlog.contextvars import get_contextvars

from runtime.api.admin.user_removal import erase
from runtime.api.rest import agent_streams, handler
from runtime.database.connection import Database
from runtime.database.errors import Unavailable
from runtime.database.schema import OWNER, inputs, run_events, runs
from runtime.database.transaction_end import MOST_EVENTS
from runtime.identity import users
from runtime.identity.caller import OWNER_CALLER
from runtime.threads.events.log import EventLog, changes_of
from runtime.threads.events.run_event import RunEvent
from runtime.tools.agent import follower
from tests.lanes import repeated
from tests.runtime.agents.loop.acting import program
from tests.runtime.agents.scripted import ScriptedModel, says
from tests.runtime.api.chat.talking import CHAT, EVENTS, Talking, is_named, talking, until
from tests.runtime.api.chat.test_chat import HELLO, UNKNOWN, Held
from tests.runtime.webhooks.candidates import rows

pytestmark = pytest.mark.asyncio(loop_scope="module")

FEED = "/v1/agent/events"


async def test_the_feed_tells_what_happens_in_all_runs_also_of_deliveries(talk: Talking) -> None:
    talk.model.replies[:] = [says("Hi.")]
    token = await talk.token("owner", "read")
    async with (
        talk.stream(token, FEED) as (_, first),
        talk.stream(token, "/v1/agents/helper/events") as (_, second),
    ):
        await talk.agent.deliver({"number": 1}, talk.user_id)
        found = [await until(events, is_named("agent.done")) for events in (first, second)]
    assert found[0] == found[1]
    # An id to go on from, before anything has happened.
    assert [event.name for event in found[0]] == ["", "agent.typing", "agent.message", "agent.done"]
    assert found[0][0].id == "0"
    assert {event.data["agent"] for event in found[0][1:]} == {"helper"}


async def test_the_feed_goes_on_after_an_id_and_misses_nothing_between_two_connections(talk: Talking) -> None:
    talk.model.replies[:] = [says("Hi.")]
    token = await talk.token()
    async with talk.stream(token, FEED) as (_, events):
        [start] = await until(events, lambda event: event.id is not None)
    for _ in range(3):
        await talk.agent.ask("Hello", user_id=talk.user_id)
    async with talk.stream(token, FEED, last=start.id) as (_, events):
        seen = [await anext(events) for _ in range(5)]
    async with talk.stream(token, FEED, last=seen[-1].id) as (_, events):
        seen += [await anext(events) for _ in range(6)]
    names = ["agent.typing", "agent.message", "agent.done"]
    assert [event.name for event in seen if event.name] == names * 3
    async with talk.stream(token, FEED, query="after=0") as (_, events):
        assert [(await anext(events)).name for _ in range(4)] == ["", *names]
    _, page = await talk.json(token, "GET", FEED, query="limit=4")
    assert ([each["event"] for each in page["events"]], page["next"]) == ([*names, names[0]], 4)
    _, page = await talk.json(token, "GET", FEED, query="after=4")
    assert len(page["events"]) == 5


async def test_a_broken_last_event_id_begins_with_the_oldest_and_a_note(talk: Talking) -> None:
    talk.model.replies[:] = [says("Hi.")]
    token = await talk.token()
    run = (await talk.json(token, "POST", CHAT, HELLO))[1]["run"]
    whole = await talk.follow(token, f"{CHAT}/{run}")
    for last in ("x", "-1", "1.5", "９", "10000000000", "9" * 40, "1 OR 1=1"):
        note, *rest = await talk.follow(token, f"{CHAT}/{run}", last=last)
        assert (note.name, note.data["run"], note.id) == ("agent.note", run, None)
        assert "Last-Event-ID" in note.data["detail"]
        assert rest == whole
        async with talk.stream(token, FEED, last=last) as (_, events):
            found = await until(events, is_named("agent.done"))
        assert [event.name for event in found] == ["", "agent.note", *(event.name for event in whole)]


async def test_who_comes_too_late_for_some_events_is_told(talk: Talking) -> None:
    talk.model.replies[:] = [says("Hi.")]
    token = await talk.token()
    run = (await talk.json(token, "POST", CHAT, HELLO))[1]["run"]
    await _forget(talk, 2)
    async with talk.stream(token, FEED, last="1") as (_, events):
        _, note, done = [await anext(events) for _ in range(3)]
    assert (note.name, "events after 1 are not kept" in note.data["detail"]) == ("agent.note", True)
    assert done.name == "agent.done"
    await _forget(talk, 3)
    # A run whose events are all gone ends its stream as well.
    [last] = await talk.follow(token, f"{CHAT}/{run}")
    assert (last.name, last.id, last.data["run"]) == ("agent.done", None, run)
    assert (last.data["total_steps"], last.data["total_messages"], last.data["ended"]) == (1, 1, "answered")


async def _forget(talk: Talking, until_number: int) -> None:
    gone = delete(run_events).where(run_events.c.number <= until_number)
    await talk.agent.app.state.database.transact(lambda connection: connection.execute(gone))


@repeated("rounds", 8, 300)
async def test_there_is_no_gap_between_the_log_and_what_is_live(talk: Talking, rounds: int) -> None:
    """The stream is opened at any moment of the run."""
    talk.model.replies[:] = [says("One.", memory_append={"label": "human", "content": "Ada"}), says("Two.")]
    replies = list(talk.model.replies)
    token = await talk.token()
    for number in range(rounds):
        talk.model.replies[:] = replies
        _, turn = await talk.json(token, "POST", CHAT, {**HELLO, "wait": 0})
        await asyncio.sleep(number / rounds * 0.1)
        found = await talk.follow(token, f"{CHAT}/{turn['run']}")
        assert [event.name for event in found] == [
            *("agent.typing", "agent.message", "agent.tool", "agent.tool"),
            *("agent.typing", "agent.message", "agent.done"),
        ]


async def test_a_turn_that_waits_for_its_agent_ends_the_stream(tmp_path: Path) -> None:
    with ScriptedModel(says("Hi.")) as model:
        text = program(model)
        async with talking(tmp_path, text) as talk:
            token, held = await talk.token(), Held()
            model.replies[:] = [held, says("Hi.")]
            await talk.json(token, "POST", CHAT, {**HELLO, "wait": 0})
            await held.is_asked()
            _, turn = await talk.json(token, "POST", CHAT, {**HELLO, "wait": 0})
            file = tmp_path / "program/hooks.symbiont"
            file.write_text(text.replace("agent helper", "agent another"))
            assert await talk.agent.app.reload()
            held.going_on.set()
            *_, last = await talk.follow(token, f"{CHAT}/{turn['run']}")
            assert (last.name, "helper is not declared" in last.data["problem"]["detail"]) == ("agent.error", True)


async def test_a_client_that_has_the_last_event_of_a_run_is_told_not_to_connect_again(talk: Talking) -> None:
    talk.model.replies[:] = [says("Hi.")]
    token = await talk.token()
    run = (await talk.json(token, "POST", CHAT, HELLO))[1]["run"]
    whole = await talk.follow(token, f"{CHAT}/{run}")
    reply = await talk.ask(token, "GET", f"{CHAT}/{run}", accept=EVENTS, last=whole[-1].id)
    assert (reply.status, reply.content_type, reply.body, reply.stream) == (204, None, b"", None)
    assert await talk.follow(token, f"{CHAT}/{run}", last=whole[-2].id) == whole[-1:]
    # It holds no place of the token, and another run of it is followed on.
    assert (await talk.ask(token, "GET", f"{CHAT}/{run}", last=whole[-1].id)).status == 200
    more = (await talk.json(token, "POST", CHAT, HELLO))[1]["run"]
    assert [event.name for event in await talk.follow(token, f"{CHAT}/{more}", last=whole[-1].id)][-1] == "agent.done"


async def test_a_stream_of_a_run_whose_thread_is_deleted_ends(talk: Talking) -> None:
    held = Held()
    talk.model.replies[:] = [held]
    token = await talk.token()
    async with talk.stream(token, CHAT, HELLO) as (_, events):
        await held.is_asked()
        await talk.agent.services.threads.delete(await talk.agent.main(talk.user_id), force=True)
        held.going_on.set()
        found = await until(events, is_named("agent.error"))
    assert "deleted" in found[-1].data["problem"]["detail"]


async def test_a_deletion_is_noticed_while_other_runs_have_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "LOOK_SECONDS", 0.5)
    with ScriptedModel(says(memory_append={"label": "human", "content": "Tea."})) as model:
        async with talking(tmp_path, program(model, "confirm [memory_append]")) as talk:
            token, app = await talk.token(), talk.agent.app

            async def happen() -> None:
                while True:
                    app.state.database.changes.publish([changes_of(OWNER)])
                    await asyncio.sleep(0.05)

            async with talk.stream(token, CHAT, HELLO) as (_, events):
                await until(events, is_named("agent.confirm"))
                busy = asyncio.create_task(happen())
                await talk.agent.services.threads.delete(await talk.agent.main(), force=True)
                [error] = await until(events, is_named("agent.error"))
                busy.cancel()
            assert error.data["problem"]["status"] == 404


async def test_a_stream_of_a_run_that_waits_at_a_limit_says_so_once_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "LOOK_SECONDS", 0.1)
    limits = "limits { runs_per_hour %d at_limit wait }"
    with ScriptedModel(says("Hi.")) as model:
        async with talking(tmp_path, program(model, limits % 1)) as talk:
            token, agent = await talk.token(), talk.agent
            assert await agent.ask("Hello") == "answered"
            async with talk.stream(token, CHAT, HELLO) as (_, events):
                [note] = await until(events, is_named("agent.note"))
                assert "1 run per hour, is used up" in note.data["detail"]
                assert note.id is None
                agent.app._keeps_program = True  # as a daemon's
                await agent.reload(program(model, limits % 2))
                found = await until(events, is_named("agent.done"))
            assert [event.name for event in found] == ["agent.typing", "agent.message", "agent.done"]


async def test_a_message_behind_one_that_waits_at_a_limit_says_why_it_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "LOOK_SECONDS", 0.1)
    limits = "limits { runs_per_hour %d at_limit wait }"
    with ScriptedModel(says("Hi.")) as model:
        async with talking(tmp_path, program(model, limits % 1)) as talk:
            token, agent = await talk.token(), talk.agent
            assert await agent.ask("Hello") == "answered"
            first = await agent.send("Are you there?")
            await agent.until(first, lambda row: row.state == "budget_exceeded")
            async with talk.stream(token, CHAT, HELLO) as (_, events):
                [note] = await until(events, is_named("agent.note"))
                assert note.data["detail"].startswith("an earlier turn of the thread waits: the limit of the agent")
                # Nobody waits for it either, longer than for the first.
                status, turn = await talk.json(token, "POST", CHAT, {**HELLO, "wait": 60})
                assert (status, turn["state"], turn["ended"]) == (202, "waiting", None)
                assert turn["error"] == note.data["detail"]
                agent.app._keeps_program = True  # as a daemon's
                await agent.reload(program(model, limits % 4))
                found = await until(events, is_named("agent.done"))
            # Meanwhile it may have waited for the first one's end alone.
            assert [event.name for event in found if event.name != "agent.note"] == [
                "agent.typing",
                "agent.message",
                "agent.done",
            ]
            answered = (await talk.json(token, "GET", f"{CHAT}/{turn['run']}", query="wait=60"))[1]
            assert (answered["ended"], answered["error"]) == ("answered", None)


async def test_a_run_of_a_user_who_is_removed_meanwhile_ends_and_nothing_of_it_stays(tmp_path: Path) -> None:
    held = Held()
    with ScriptedModel(held) as model:
        async with talking(tmp_path, program(model)) as talk:
            token, app = await talk.token("carl"), talk.agent.app
            carl = {name: user_id for user_id, name in (await users.names(app.state.database)).items()}["carl"]
            _, turn = await talk.json(token, "POST", CHAT, {**HELLO, "wait": 0})
            await held.is_asked()
            assert (await erase(app.contexts.tool(OWNER_CALLER), carl)).running
            held.going_on.set()
            assert await talk.agent.end(turn["run"]) == "failed"
            done = await erase(app.contexts.tool(OWNER_CALLER), carl)
            assert (done.running, done.problems) == (False, [])
            assert await rows(app.state.database, runs) == []


async def test_a_reload_does_not_wait_for_streams(tmp_path: Path) -> None:
    held = Held()
    with ScriptedModel(held) as model:
        async with talking(tmp_path, program(model)) as talk:
            token, app = await talk.token(), talk.agent.app
            async with talk.stream(token, FEED) as (_, events):
                await anext(events)
                before = app.generation
                assert await app.reload(force=True)
                assert before._pins == 0
                held.going_on.set()
                await talk.agent.ask("Hello")
                assert (await until(events, is_named("agent.done")))[-1].data["ended"] == "answered"


async def test_a_token_has_only_so_many_places_and_gets_them_back(
    talk: Talking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_streams, "MOST_REQUESTS_OF_TOKEN", 3)
    monkeypatch.setattr(agent_streams, "MOST_REQUESTS", 4)
    held = Held()
    talk.model.replies[:] = [held]
    ada, bob = await talk.token("ada"), await talk.token("bob")
    async with talk.stream(ada, FEED), talk.stream(ada, CHAT, HELLO):
        waiting = asyncio.create_task(talk.json(ada, "POST", CHAT, HELLO))
        await held.is_asked()
        for path, body in ((FEED, None), (CHAT, HELLO)):
            for accept in (None, EVENTS):
                reply = await talk.ask(ada, "GET" if body is None else "POST", path, body, accept=accept)
                assert reply.status == 429
                assert json.loads(reply.body)["type"].endswith(":too_many_streams")
                assert dict(reply.headers)["Retry-After"] == "1"
        # A refused message was not sent.
        assert len(await _inputs(talk)) == 2
        async with talk.stream(bob, FEED):
            assert (await talk.ask(bob, "GET", FEED)).status == 429
        held.going_on.set()
        assert (await waiting)[0] == 200
    assert not talk.streams._open
    # One that fails gives its place back, too.
    assert (await talk.ask(ada, "GET", f"{CHAT}/{UNKNOWN}", accept=EVENTS)).status == 404
    assert not talk.streams._open


async def _inputs(talk: Talking) -> list[Any]:
    found = await rows(talk.agent.app.state.database, inputs)
    return [row for row in found if row.user_id in talk.users.values()]


async def test_a_revoked_token_ends_its_streams(talk: Talking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handler, "TOKEN_SECONDS", 0.0)
    talk.model.replies[:] = [says("Hi.")]
    token = await talk.token()
    async with asyncio.timeout(60), talk.stream(token, FEED) as (_, events):
        await anext(events)
        await talk.agent.app.state.tokens.revoke(token)
        await talk.agent.ask("Hello", user_id=talk.user_id)
        assert [event.name async for event in events] in ([], ["agent.typing"])


async def test_a_stream_survives_an_outage_of_the_database(talk: Talking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower, "RETRY_SECONDS", 0.01)
    held, away = Held(), [True] * 3
    talk.model.replies[:] = [held]
    page = EventLog.page

    async def failing(log: EventLog, *given: Any, **wanted: Any) -> Any:
        if away:
            away.pop()
            raise Unavailable("gone")
        return await page(log, *given, **wanted)

    token = await talk.token()
    _, turn = await talk.json(token, "POST", CHAT, {**HELLO, "wait": 0})
    monkeypatch.setattr(EventLog, "page", failing)
    async with talk.stream(token, f"{CHAT}/{turn['run']}") as (_, events):
        await until(events, is_named("agent.typing"))
        held.going_on.set()
        assert (await until(events, is_named("agent.done")))[-1].data["ended"] == "answered"
    assert away == []


async def test_events_cost_no_write_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run has as many writes and transactions as without events."""
    counted = list[int]()
    for place, logs in ((tmp_path / "without", False), (tmp_path / "with", True)):
        place.mkdir()
        told = says("One.", memory_append={"label": "human", "content": "Ada"})
        with ScriptedModel(told, says("Two.")) as model, monkeypatch.context() as patch:
            if not logs:
                patch.setattr("runtime.threads.events.log.EventLog.append", lambda *_, **__: None)
            counted.append(await _writes(place, model, patch))
    assert counted[0] == counted[1]
    assert counted[0] > 5


async def _writes(folder: Path, model: ScriptedModel, patch: pytest.MonkeyPatch) -> int:
    async with talking(folder, program(model)) as talk:
        database: Database = talk.agent.app.state.database
        put, transact, counted = database.commits.put, database.transact, list[object]()

        def noted(function: Any) -> Any:
            def call(*given: Any) -> Any:
                if "run_id" in get_contextvars():
                    counted.append(given)
                return function(*given)

            return call

        patch.setattr(database.commits, "put", noted(put))
        patch.setattr(database, "transact", noted(transact))
        assert await talk.agent.ask("Hello") == "answered"
        return len(counted)


async def test_a_client_that_reads_slower_than_events_are_told_misses_none(talk: Talking) -> None:
    """More are told than are kept for it, so it reads the log."""
    talk.model.replies[:] = [says("Hi.")]
    token, database, log = await talk.token(), talk.agent.app.state.database, talk.agent.services.event_log
    run = (await talk.json(token, "POST", CHAT, HELLO))[1]["run"]

    def append(connection: Connection, number: int) -> None:
        log.append(connection, RunEvent(run, "agent.message", {"step": number}))

    async with talk.stream(token, FEED) as (_, events):
        await anext(events)
        await database.transact(lambda connection: append(connection, -1))
        seen = [(await anext(events)).data["step"]]
        for number in range(2 * MOST_EVENTS):
            await database.transact(partial(append, number=number))
        seen += [(await anext(events)).data["step"] for _ in range(2 * MOST_EVENTS)]
    assert seen == [-1, *range(2 * MOST_EVENTS)]
