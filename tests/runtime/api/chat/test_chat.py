"""A chat over `/v1`: what is sent, what is answered, and whose it is."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from jsonschema import Draft202012Validator

from runtime.api.rest.endpoints import ENDPOINTS
from runtime.api.rest.openapi import describe
from runtime.identity.caller import OWNER_CALLER
from runtime.threads.content import TextPart
from runtime.tools.agent.run_answer import answer_of
from tests.runtime.agents.loop.acting import program
from tests.runtime.agents.scripted import ScriptedModel, says
from tests.runtime.api.chat.talking import CHAT, EVENTS, Talking, is_named, talking, until

pytestmark = pytest.mark.asyncio(loop_scope="module")

HELLO = {"input": "Hello"}
UNKNOWN = "01953c1e-0000-7000-8000-000000000000"


class Held:
    """A reply that waits until it is let go."""

    def __init__(self, text: str = says("Hello.")) -> None:
        self.asked, self.going_on = threading.Event(), threading.Event()
        self._text = text

    def __call__(self, _body: Mapping[str, Any]) -> str:
        self.asked.set()
        self.going_on.wait(60)
        return self._text

    async def is_asked(self) -> None:
        await asyncio.to_thread(self.asked.wait, 60)


async def test_json_is_answered_when_the_run_has_ended(talk: Talking) -> None:
    talk.model.replies[:] = [says("One.", memory_append={"label": "human", "content": "Ada"}), says("Two.")]
    reply = await talk.ask(await talk.token(), "POST", CHAT, HELLO)
    answer = json.loads(reply.body)
    assert reply.status == 200
    assert dict(reply.headers)["Location"] == f"/v1/agents/helper/chat/{answer['run']}"
    assert (answer["state"], answer["ended"], answer["messages"]) == ("done", "answered", ["One.", "Two."])
    [call] = answer["tool_calls"]
    assert (call["name"], call["status"]) == ("memory_append", "ok")
    assert answer["usage"]["calls"] == 2
    assert answer["thread"] == (await talk.agent.main(talk.user_id)).id


async def test_an_answer_is_read_in_one_transaction(talk: Talking, monkeypatch: pytest.MonkeyPatch) -> None:
    """So its parts are of one moment, and it is answered soon."""
    talk.model.replies[:] = [says("One.", memory_append={"label": "human", "content": "Ada"}), says("Two.")]
    _, turn = await talk.json(await talk.token(), "POST", CHAT, HELLO)
    context = talk.agent.app.contexts.tool(OWNER_CALLER)
    read = Mock(wraps=context.database.read)
    monkeypatch.setattr(context.database, "read", read)
    assert (await answer_of(context, turn["run"], talk.user_id))[1].model_dump(mode="json") == turn
    assert read.call_count == 1


async def test_an_answer_without_calls_is_told_without_a_read_as_it_is_read_later(
    talk: Talking, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk.model.replies[:] = [says("One.", "Two.")]
    token = await talk.token()
    with monkeypatch.context() as patch:
        patch.delattr("runtime.tools.agent.chat.answer_of")
        _, turn = await talk.json(token, "POST", CHAT, HELLO)
    assert (turn["ended"], turn["messages"], turn["usage"]["calls"]) == ("answered", ["One.", "Two."], 1)
    assert (await talk.json(token, "GET", f"{CHAT}/{turn['run']}"))[1] == turn


async def test_a_stream_tells_each_step_and_its_end(talk: Talking) -> None:
    talk.model.replies[:] = [says("One.", memory_append={"label": "human", "content": "Ada"}), says("Two.")]
    token = await talk.token()
    async with talk.stream(token, CHAT, HELLO) as (reply, events):
        found = [event async for event in events]
    run = dict(reply.headers)["Location"].rpartition("/")[2]
    assert (reply.status, reply.content_type) == (200, EVENTS)
    told = [(event.name, event.data.get("step"), event.data.get("state")) for event in found]
    assert told == [
        ("agent.typing", 1, None),
        ("agent.message", 1, None),
        ("agent.tool", 1, "started"),
        ("agent.tool", 1, "ok"),
        ("agent.typing", 2, None),
        ("agent.message", 2, None),
        ("agent.done", None, None),
    ]
    assert {event.data["run"] for event in found} == {run}
    assert [int(event.id or 0) for event in found] == list(range(1, 8))
    assert [event.data["messages"] for event in found if event.name == "agent.message"] == [["One."], ["Two."]]
    last = found[-1].data
    assert (last["total_steps"], last["total_messages"], last["ended"]) == (2, 2, "answered")
    assert last["usage"]["calls"] == 2
    # The same from the log, and from any place in it.
    assert await talk.follow(token, f"{CHAT}/{run}") == found
    for event in found[:-1]:
        assert await talk.follow(token, f"{CHAT}/{run}", last=event.id) == found[found.index(event) + 1 :]


async def test_parts_of_messages_come_before_their_message_for_who_asks(talk: Talking) -> None:
    texts = ["The first of two messages.", "And this is the second one."]
    talk.model.replies[:] = [says(*texts, memory_append={"label": "human", "content": "Ada"}), says("Bye.")]
    token = await talk.token()
    found = await talk.follow(token, CHAT, HELLO, query="deltas=true")
    parts = [event for event in found if event.name == "agent.delta"]
    assert [
        "".join(e.data["text"] for e in parts if e.data["message"] == n and e.data["step"] == 1) for n in (0, 1)
    ] == texts
    assert {event.id for event in parts} == {None}
    names = [event.name for event in found]
    assert [name for place, name in enumerate(names) if place == 0 or names[place - 1] != name] == [
        *("agent.typing", "agent.delta", "agent.message", "agent.tool"),
        *("agent.typing", "agent.delta", "agent.message", "agent.done"),
    ]
    assert "agent.delta" not in [event.name for event in await talk.follow(token, CHAT, HELLO)]
    assert (await talk.json(token, "POST", CHAT, HELLO, query="deltas=yes"))[0] == 400


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("Hello", "Hello"),
        ([{"role": "user", "content": "Hello"}], "Hello"),
        ([{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hello"}]}], "Hello"),
        (
            [
                {"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]},
                {"role": "user", "content": "c"},
            ],
            "a\n\nb\n\nc",
        ),
    ],
)
async def test_input_is_a_text_or_items(talk: Talking, given: Any, text: str) -> None:
    talk.model.replies[:] = [says("Hi.")]
    status, _ = await talk.json(await talk.token(), "POST", CHAT, {"input": given})
    assert status == 200
    assert (await talk.messages())[0].text == text


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({}, "/input", "required"),
    ({"input": ""}, "", "the message is empty"),
    ({"input": []}, "", "the message is empty"),
    ({"input": 7}, "/input", "neither a text nor a list"),
    ({"input": ["Hello"]}, "/input/0", "no object"),
    ({"input": [{"role": "system", "content": "x"}]}, "/input/0/role", "'system' is not supported; only 'user' is"),
    ({"input": [{"content": "x"}]}, "/input/0/role", "missing"),
    ({"input": [{"role": "user"}]}, "/input/0/content", "neither a text nor a list"),
    ({"input": [{"type": "function_call_output", "call_id": "x"}]}, "/input/0/type", "'function_call_output'"),
    (
        {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "https://example.com/a"}]}]},
        "/input/0/content/0/type",
        "'input_image' is not supported; only 'input_text' is",
    ),
    ({"input": [{"role": "user", "content": [{"type": "input_text"}]}]}, "/input/0/content/0/text", "no text"),
    ({"input": [{"role": "user", "content": "x", "id": "y"}]}, "/input/0/id", "not supported"),
    ({"input": "x", "metadata": {"a": 1}}, "/metadata/a", "string"),
    ({"input": "x", "metadata": {"a": "b" * 513}}, "/metadata/a", "512"),
    ({"input": "x", "metadata": {str(number): "" for number in range(17)}}, "/metadata", "16"),
    ({"input": "x", "subject": " "}, "/subject", "blank"),
    ({"input": "x", "subject": "ada", "thread": UNKNOWN}, "/subject", "a thread has its subject"),
    ({"input": "x", "wait": 601}, "/wait", "600"),
]


async def test_what_is_not_supported_is_said_with_its_place_and_starts_nothing(talk: Talking) -> None:
    talk.model.replies[:] = [says("Hi.")]
    token = await talk.token()
    for body, pointer, what in REFUSED:
        status, problem = await talk.json(token, "POST", CHAT, body)
        assert status == 422, (body, problem)
        told = [(each["pointer"], each["detail"]) for each in problem.get("errors", ())]
        known = told if pointer else [("", problem["detail"])]
        assert any(where == pointer and what in detail for where, detail in known), (body, problem)
        # The same for who wants a stream, which does not wait.
        if pointer != "/wait":
            assert (await talk.ask(token, "POST", CHAT, body, accept=EVENTS)).status == 422
    assert talk.model.bodies == []
    assert await talk.messages() == []


async def test_metadata_is_stored_sealed_with_the_message_and_no_model_sees_it(talk: Talking) -> None:
    talk.model.replies[:] = [says("Hi.")]
    token = await talk.token()
    given = {**HELLO, "metadata": {"channel": "a-web-page"}}
    _, turn = await talk.json(token, "POST", CHAT, given)
    _, page = await talk.json(token, "GET", f"/v1/agent/conversations/{turn['thread']}/items")
    assert [item["metadata"] for item in page["data"]] == [{}, {"channel": "a-web-page"}]
    first = (await talk.messages())[0]
    assert first.parts == (TextPart("Hello", {"channel": "a-web-page"}),)
    assert first.text == "Hello"
    assert "a-web-page" not in json.dumps(talk.model.bodies)


async def test_a_subject_has_its_own_thread_and_memory_with_every_agent(talk: Talking) -> None:
    remembers = says(memory_append={"label": "human", "content": "Likes tea."})
    talk.model.replies[:] = [remembers, says("Noted."), says("Hi.")]
    token = await talk.token()
    _, first = await talk.json(token, "POST", CHAT, {**HELLO, "subject": "customer 7"})
    _, again = await talk.json(token, "POST", CHAT, {**HELLO, "subject": "customer 7"})
    _, other = await talk.json(token, "POST", CHAT, {**HELLO, "subject": "customer 8"})
    _, main = await talk.json(token, "POST", CHAT, HELLO)
    assert first["thread"] == again["thread"]
    assert len({first["thread"], other["thread"], main["thread"]}) == 3
    assert await talk.agent.block(subject="customer 7", user_id=talk.user_id) == "Likes tea."
    assert await talk.agent.block(user_id=talk.user_id) == ""
    assert ["Likes tea." in talk.model.texts(number) for number in (2, 3, 4)] == [True, False, False]


async def test_only_threads_and_runs_of_the_caller_exist(tmp_path: Path) -> None:
    more = 'agent other { memory notes model scripted instruction "You help." }'
    with ScriptedModel(says("Hi.")) as model:
        async with talking(tmp_path, program(model) + more) as talk:
            ada, bob = await talk.token("ada"), await talk.token("bob", "admin")
            helper = "/v1/agents/helper/chat"
            _, mine = await talk.json(ada, "POST", helper, HELLO)
            assert (await talk.json(ada, "POST", helper, {**HELLO, "thread": mine["thread"]}))[0] == 200
            for token, path, thread in (
                (bob, helper, mine["thread"]),
                (ada, "/v1/agents/other/chat", mine["thread"]),
                (ada, helper, UNKNOWN),
            ):
                assert (await talk.json(token, "POST", path, {**HELLO, "thread": thread}))[0] == 404
            run = mine["run"]
            for token, path in (
                (bob, f"{CHAT}/{run}"),
                (ada, f"/v1/agents/other/chat/{run}"),
                (ada, f"{CHAT}/{UNKNOWN}"),
            ):
                for accept in (None, EVENTS):
                    assert (await talk.ask(token, "GET", path, accept=accept)).status == 404
                assert (await talk.json(token, "POST", f"{path}/cancel"))[0] == 404
            for path in (f"{CHAT}/{run}", f"{helper}/{run}"):
                assert (await talk.json(ada, "GET", path))[1]["messages"] == ["Hi."]


async def test_without_a_main_agent_the_path_says_what_to_do(tmp_path: Path) -> None:
    more = 'agent other { memory notes model scripted instruction "You help." }'
    with ScriptedModel(says("Hi.")) as model:
        async with talking(tmp_path, program(model) + more) as talk:
            status, problem = await talk.json(await talk.token(), "POST", CHAT, HELLO)
            assert (status, "helper, other" in problem["detail"]) == (409, True)
    (tmp_path / "none").mkdir()
    async with talking(tmp_path / "none", 'agent recorder { instruction "Record." }') as talk:
        token = await talk.token()
        assert (await talk.json(token, "POST", CHAT, HELLO))[0] == 404
        status, problem = await talk.json(token, "POST", "/v1/agents/recorder/chat", HELLO)
        assert (status, "has no model" in problem["detail"]) == (422, True)
        assert (await talk.json(token, "POST", "/v1/agents/nobody/chat", HELLO))[0] == 404


async def test_a_run_that_goes_on_is_answered_202_and_waited_for_later(talk: Talking) -> None:
    held = Held()
    talk.model.replies[:] = [held]
    token = await talk.token()
    reply = await talk.ask(token, "POST", CHAT, {**HELLO, "wait": 0})
    turn, location = json.loads(reply.body), dict(reply.headers)["Location"]
    assert (reply.status, turn["ended"], turn["messages"]) == (202, None, [])
    await held.is_asked()
    assert (await talk.json(token, "GET", location))[1]["state"] == "running"
    waiting = asyncio.create_task(talk.json(token, "GET", location, query="wait=60"))
    held.going_on.set()
    assert (await waiting)[1]["ended"] == "answered"


async def test_a_client_that_goes_away_cancels_nothing(talk: Talking) -> None:
    held = Held()
    talk.model.replies[:] = [held]
    token = await talk.token()
    async with talk.stream(token, CHAT, HELLO) as (reply, events):
        await until(events, is_named("agent.typing"))
    waiting = asyncio.create_task(talk.ask(token, "POST", CHAT, HELLO))
    await held.is_asked()
    waiting.cancel()
    held.going_on.set()
    location = dict(reply.headers)["Location"]
    assert (await talk.follow(token, location))[-1].data["ended"] == "answered"


@pytest.mark.parametrize("asked", [False, True])
async def test_a_run_can_be_cancelled(talk: Talking, asked: bool) -> None:
    held = Held()
    talk.model.replies[:] = [held]
    token = await talk.token()
    async with talk.stream(token, CHAT, HELLO) as (reply, events):
        await held.is_asked()
        location = dict(reply.headers)["Location"]
        if not asked:
            # Of a run that waits for its thread.
            _, turn = await talk.json(token, "POST", CHAT, {**HELLO, "wait": 0})
            location = f"{CHAT}/{turn['run']}"
        status, cancelled = await talk.json(token, "POST", f"{location}/cancel")
        assert (status, cancelled["state"]) == (200, "running" if asked else "cancelled")
        found = await talk.follow(token, location) if not asked else await until(events, is_named("agent.done"))
        assert found[-1].data["ended"] == "cancelled"
    held.going_on.set()
    assert (await talk.json(token, "GET", location))[1]["ended"] == "cancelled"
    again, problem = await talk.json(token, "POST", f"{location}/cancel")
    assert again in (200, 409), problem


async def test_a_run_that_fails_ends_its_stream_with_a_problem(talk: Talking) -> None:
    schema = json.loads(describe())["components"]["schemas"]["Problem"]
    talk.model.replies[:] = [401]
    token = await talk.token()
    found = await talk.follow(token, CHAT, HELLO)
    assert [event.name for event in found] == ["agent.typing", "agent.error"]
    problem = found[-1].data["problem"]
    Draft202012Validator(schema).validate(problem)
    assert problem["type"].endswith(":run_failed")
    assert "401" in problem["detail"] or "key" in problem["detail"]
    status, turn = await talk.json(token, "POST", CHAT, HELLO)
    assert (status, turn["ended"], turn["error"]) == (200, "failed", problem["detail"])


async def test_the_examples_of_the_description_are_answered(talk: Talking) -> None:
    talk.model.replies[:] = [says("Hi.")]
    token = await talk.token()
    run = (await talk.json(token, "POST", CHAT, HELLO))[1]["run"]
    for row in ENDPOINTS:
        if row.tool.function.__module__ in ("runtime.tools.agent.chat", "runtime.tools.agent.events"):
            await _example_is_answered(talk, token, row, run)


async def _example_is_answered(talk: Talking, token: str, row: Any, run: str) -> None:
    query = "" if row.body else "&".join(f"{name}={value}" for name, value in row.example.items() if name != "run")
    body = {**row.example, **({"run": run} if "run" in row.example else {})} if row.body else None
    status, _ = await talk.json(token, row.method, row.path.format(agent="helper", run=run), body, query=query)
    # A run that has ended cannot be cancelled any more.
    assert status == (409 if row.tool.name == "agent_run_cancel" else 200), (row, status)
