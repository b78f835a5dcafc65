"""The conversations of an agent over HTTP, and their items in the form of the Responses API."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from runtime.database.schema import messages, summaries
from runtime.threads.content import TextPart
from runtime.threads.summaries import NewSummary, Summaries
from runtime.threads.thread import Threads
from runtime.tools.conversations import items
from tests.cases import each_case
from tests.runtime.api.agents import CONVERSATION, said, talked, with_agents
from tests.runtime.api.app import App, told
from tests.runtime.webhooks.candidates import rows

CONVERSATIONS = "/v1/agent/conversations"


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[App]:
    async with with_agents(tmp_path) as one:
        yield one


async def page(app: App, token: str, thread_id: str, query: str = "limit=100&order=asc") -> dict[str, Any]:
    reply = await app.ask(token, "GET", f"{CONVERSATIONS}/{thread_id}/items", query=query)
    assert reply.status == 200, reply
    shown: dict[str, Any] = told(reply)
    return shown


async def test_each_kind_of_message_is_an_item_of_the_responses_api(app: App) -> None:
    token, ada = await app.token("ada", "read"), await app.user("ada")
    thread, _ = await talked(app, ada)
    shown = await page(app, token, thread.id)
    assert (shown["object"], shown["has_more"]) == ("list", False)
    assert [shown["first_id"], shown["last_id"]] == [shown["data"][0]["id"], shown["data"][-1]["id"]]
    hexed = UUID(thread.id).hex
    kept = [
        {
            key: value
            for key, value in item.items()
            if key not in {"run_id", "created_at", "metadata", "event", "outcome"}
            and (key != "name" or item["type"] == "function_call")
        }
        for item in shown["data"]
    ]
    assert kept == [
        {
            "id": f"msg_{hexed}_0_0",
            "status": "completed",
            "type": "message",
            "role": "user",
            "content": [
                {"type": "input_text", "text": "Where does Ada live?"},
                {"type": "input_text", "text": 'Payload\n{"a":1}'},
            ],
        },
        {
            "id": f"rs_{hexed}_1_0",
            "status": "completed",
            "type": "reasoning",
            "summary": [],
            "content": [{"type": "reasoning_text", "text": "I have to look."}],
        },
        {
            "id": f"msg_{hexed}_2_0",
            "status": "completed",
            "type": "message",
            "role": "assistant",
            "content": [
                {"type": "output_text", "text": "One moment.", "annotations": []},
                {"type": "output_text", "text": "I look.", "annotations": []},
            ],
        },
        *(
            {
                "id": f"fc_{hexed}_3_{number}",
                "status": "completed",
                "type": "function_call",
                "call_id": call,
                "name": name,
                "arguments": arguments,
            }
            for number, (call, name, arguments) in enumerate(
                [("c1", "archival_search", '{"query":"Ada"}'), ("c2", "memory_list", "{}")]
            )
        ),
        *(
            {
                "id": f"fco_{hexed}_{position}_0",
                "status": status,
                "type": "function_call_output",
                "call_id": call,
                "output": output,
            }
            for position, status, call, output in [
                (4, "completed", "c1", "Ada lives in Lyon."),
                (5, "incomplete", "c2", "?"),
            ]
        ),
        {
            "id": f"msg_{hexed}_6_0",
            "status": "completed",
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "In Lyon.", "annotations": []}],
        },
        {
            "id": f"msg_{hexed}_7_0",
            "status": "completed",
            "type": "message",
            "role": "system",
            "content": [{"type": "input_text", "text": "The turn ended."}],
        },
    ]


@each_case("order", ["asc", "desc"])
@each_case("limit", [1, 2, 5])
async def test_pages_have_each_item_once_even_while_items_are_deleted(order: str, limit: int, app: App) -> None:
    name = f"ada-{order}-{limit}"
    token, ada = await app.token(name), await app.user(name)
    thread, _ = await talked(app, ada, new=[*CONVERSATION, *(said("user", TextPart(str(n))) for n in range(9))])
    everything = [item["id"] for item in (await page(app, token, thread.id))["data"]]
    found: list[str] = []
    after, more = "", True
    while more:
        shown = await page(app, token, thread.id, f"limit={limit}&order={order}{after}")
        found += [item["id"] for item in shown["data"]]
        after, more = f"&after={shown['last_id']}", shown["has_more"]
        last = shown["last_id"].rpartition("_")[0]
        if shown["last_id"].startswith("msg"):
            # The page goes on after an item that is not there any more.
            assert (await app.ask(token, "DELETE", f"{CONVERSATIONS}/{thread.id}/items/{last}_0")).status == 200
    assert found == (everything if order == "asc" else everything[::-1])
    assert (await page(app, token, thread.id, f"after={found[-1]}&order={order}"))["data"] == []


async def test_a_page_is_bounded_by_its_size_and_goes_on(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(items, "LARGEST_PAGE", 1000)
    token, ada = await app.token("ada"), await app.user("ada")
    thread, _ = await talked(app, ada, new=[said("user", TextPart("x" * size)) for size in (400, 500, 400, 5000, 1)])
    sizes, after, more = [], "", True
    while more:
        shown = await page(app, token, thread.id, f"order=asc{after}")
        sizes.append([len(item["content"][0]["text"]) for item in shown["data"]])
        after, more = f"&after={shown['last_id']}", shown["has_more"]
    assert sizes == [[400, 500], [400], [5000], [1]]


async def test_an_item_is_deleted_with_its_message(app: App) -> None:
    token, ada = await app.token("ada"), await app.user("ada")
    thread, _ = await talked(app, ada)
    hexed, items = UUID(thread.id).hex, f"{CONVERSATIONS}/{thread.id}/items"
    calls = [f"fc_{hexed}_3_0", f"fc_{hexed}_3_1"]
    done = told(await app.ask(token, "DELETE", f"{items}/{calls[1]}"))
    assert done == {"conversation_id": thread.id, "deleted": calls}
    assert not any(item["type"] == "function_call" for item in (await page(app, token, thread.id))["data"])
    for wrong in (calls[0], f"msg_{hexed}_6_1", f"fc_{hexed}_6_0", f"msg_{hexed}_99_0", f"msg_{uuid4().hex}_0_0"):
        assert (await app.ask(token, "DELETE", f"{items}/{wrong}")).status == 404, wrong
    for shape in ("msg_1", "x", f"msg_{hexed}_0", f"msg_{hexed.upper()}_0_0", f"msg_{hexed}_{10**12}_0"):
        assert (await app.ask(token, "DELETE", f"{items}/{shape}")).status == 404, shape
    assert told(await app.ask(token, "GET", f"{CONVERSATIONS}/{thread.id}"))["messages"] == len(CONVERSATION) - 1


async def test_the_main_conversation_is_deleted_and_the_next_message_begins_a_new_one(app: App) -> None:
    token, ada = await app.token("ada"), await app.user("ada")
    assert told(await app.ask(token, "GET", CONVERSATIONS)) == {"conversations": [], "next_cursor": None}
    thread, _ = await talked(app, ada)
    new = NewSummary(first_position=0, last_position=3, message_count=4, text="They talked.", tokens=3)
    await Summaries(app.database, app.clock).append(thread, new)
    await app.ask(token, "PUT", "/v1/agent/memory/blocks/human", {"value": "Ada", "version": 1})
    kept = told(await app.ask(token, "POST", "/v1/agent/memory/archival", {"content": "Ada lives in Lyon."}))
    (listed,) = told(await app.ask(token, "GET", CONVERSATIONS))["conversations"]
    assert (listed["kind"], listed["main"], listed["messages"]) == ("main", True, len(CONVERSATION))
    done = told(await app.ask(token, "DELETE", f"{CONVERSATIONS}/{thread.id}"))
    assert done == {"conversation_id": thread.id, "messages": len(CONVERSATION)}
    for path in ("", "/items"):
        assert (await app.ask(token, "GET", f"{CONVERSATIONS}/{thread.id}{path}")).status == 404
    assert (await app.ask(token, "DELETE", f"{CONVERSATIONS}/{thread.id}")).status == 404
    assert not await rows(app.database, messages)
    assert not await rows(app.database, summaries)
    assert told(await app.ask(token, "GET", "/v1/agent/memory/blocks/human"))["value"] == "Ada"
    found = told(await app.ask(token, "POST", "/v1/agent/memory/search", {"query": "Lyon"}))["archival"]
    assert [hit["memory_id"] for hit in found] == [kept["memory_id"]]
    again, _ = await talked(app, ada, new=CONVERSATION[:1])
    assert again.id != thread.id
    (listed,) = told(await app.ask(token, "GET", CONVERSATIONS))["conversations"]
    assert (listed["conversation_id"], listed["main"]) == (again.id, True)


async def test_a_conversation_is_begun_and_is_not_the_main_one(app: App) -> None:
    token = await app.token("ada")
    reply = await app.ask(token, "POST", CONVERSATIONS, {"title": "Holidays"})
    made = told(reply)
    assert reply.status == 201
    assert ("Location", f"/v1/agents/assistant/conversations/{made['conversation_id']}") in reply.headers
    assert (made["kind"], made["main"], made["title"]) == ("conversation", False, "Holidays")
    reply = await app.ask(token, "POST", "/v1/agents/researcher/conversations")
    assert ("Location", f"/v1/agents/researcher/conversations/{told(reply)['conversation_id']}") in reply.headers
    listed = told(await app.ask(token, "GET", CONVERSATIONS))["conversations"]
    assert [each for each in listed if each["agent"] == "assistant"] == [made]
    other = f"/v1/agents/researcher/conversations/{made['conversation_id']}"
    assert (await app.ask(token, "GET", other)).status == 404
    admin = await app.token("bob", "admin")
    assert told(await app.ask(admin, "GET", CONVERSATIONS, query="user=ada"))["conversations"] == listed


async def test_conversations_are_listed_in_pages_and_by_subject(app: App) -> None:
    token, ada = await app.token("ada"), await app.user("ada")
    threads = Threads(app.database, app.clock)
    made = [(await talked(app, ada, new=CONVERSATION[:1], subject=f"s{number}"))[0].id for number in range(3)]
    made += [(await threads.main(ada, "assistant")).id, (await threads.for_delivery(ada, "assistant", str(uuid4()))).id]
    found, cursor = [], ""
    while cursor is not None:
        shown = told(await app.ask(token, "GET", CONVERSATIONS, query=f"limit=2{cursor}"))
        found += [each["conversation_id"] for each in shown["conversations"]]
        cursor = shown["next_cursor"] and f"&cursor={shown['next_cursor']}"
    assert sorted(found) == sorted(made)
    (one,) = told(await app.ask(token, "GET", CONVERSATIONS, query="subject=s1"))["conversations"]
    assert (one["conversation_id"], one["subject"], one["kind"]) == (made[1], "s1", "keyed")
    assert told(await app.ask(token, "GET", CONVERSATIONS, query="subject=s9"))["conversations"] == []


async def test_threads_of_an_agent_that_the_program_has_no_more_can_be_read(app: App) -> None:
    token, ada = await app.token("ada"), await app.user("ada")
    thread, _ = await talked(app, ada, "gone")
    shown = told(await app.ask(token, "GET", "/v1/agents/gone/conversations"))["conversations"]
    assert [each["conversation_id"] for each in shown] == [thread.id]
    assert (await app.ask(token, "GET", "/v1/agents/gon/conversations")).status == 404
    assert (await app.ask(await app.token("bob"), "GET", "/v1/agents/gone/conversations")).status == 404
