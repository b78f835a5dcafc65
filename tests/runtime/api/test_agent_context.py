"""The context for prompts of other programs: what an agent knows, within a budget, without its model."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from runtime.database.schema import agent_settings, metadata
from runtime.threads.content import TextPart
from runtime.threads.summaries import NewSummary, Summaries
from runtime.token_counter import TokenCounter
from tests.runtime.api.agents import CONVERSATION, said, talked, with_agents
from tests.runtime.api.app import App, told
from tests.runtime.webhooks.candidates import rows

CONTEXT = "/v1/agent/context"


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[App]:
    async with with_agents(tmp_path) as one:
        yield one


async def context(app: App, token: str, path: str = CONTEXT, **query: Any) -> dict[str, Any]:
    reply = await app.ask(token, "GET", path, query=urlencode(query))
    assert reply.status == 200, reply
    shown: dict[str, Any] = told(reply)
    return shown


async def test_it_has_what_the_agent_knows_of_its_user(app: App) -> None:
    token, bob, ada = await app.token("ada"), await app.token("bob"), await app.user("ada")
    empty = await context(app, token, query="Lyon")
    assert empty["conversation_id"] is None
    thread, _ = await talked(app, ada)
    new = NewSummary(first_position=0, last_position=2, message_count=3, text="They began to talk.", tokens=4)
    await Summaries(app.database, app.clock).append(thread, new)
    await app.ask(token, "PUT", "/v1/agent/memory/blocks/human", {"value": "Name: Ada", "version": 1})
    await app.ask(token, "PUT", "/v1/agent/config", {"preferences": {"language": "Italian"}, "version": 0})
    await app.ask(token, "POST", "/v1/agent/memory/archival", {"content": "Ada likes tea from Lyon."})
    shown = await context(app, token, query="tea from Lyon")
    assert shown["conversation_id"] == thread.id
    assert [message["role"] for message in shown["messages"]] == [
        "system",
        "user",
        "assistant",
        "user",
        "assistant",
        "user",
    ]
    system, summary, calls, outputs, answer, event = (message["content"] for message in shown["messages"])
    assert system.index("I am a helpful AI assistant.") < system.index("Ada, Bob") < system.index("Name: Ada")
    assert "<preferences>\nlanguage: Italian\n</preferences>" in system
    assert "You help." not in system
    assert "They began to talk." in summary
    assert "<archival>\n- Ada likes tea from Lyon.\n</archival>" in summary
    # What was summarized is not there again.
    assert "Where does Ada live?" not in shown["text"]
    assert "archival_search" in calls
    assert "Ada lives in Lyon." in outputs
    assert (answer, "The turn ended." in event) == ("In Lyon.", True)
    assert all(message["content"] in shown["text"] for message in shown["messages"])
    assert {part["name"] for part in shown["parts"]} >= {"block persona", "block team", "summary", "memory", "messages"}
    assert "tea from" not in (await context(app, token))["text"]
    theirs = await context(app, bob, query="tea from Lyon")
    assert not any(word in theirs["text"] for word in ("Name: Ada", "They began", "tea from", "Italian", "In Lyon"))


async def test_preferences_that_cannot_be_read_are_left_out_with_a_note(app: App) -> None:
    token = await app.token("ada")
    await app.ask(token, "PUT", "/v1/agent/config", {"preferences": {"language": "Italian"}, "version": 0})
    async with app.database.write() as connection:
        await connection.execute(agent_settings.update().values(agent="researcher"))
    shown = await context(app, token, "/v1/agents/researcher/context")
    assert "Italian" not in shown["text"]
    assert any("cannot be read" in note for note in shown["notes"])


async def test_nothing_is_stored_by_it(app: App) -> None:
    token, ada = await app.token("ada"), await app.user("ada")

    async def everything() -> dict[str, list[Any]]:
        return {table.name: list(await rows(app.database, table)) for table in metadata.sorted_tables}

    before = await everything()
    for path in (CONTEXT, "/v1/agents/researcher/context", "/v1/agents/recorder/context"):
        for query in ({}, {"query": "Lyon"}, {"subject": "s1", "query": "x"}):
            assert (await context(app, token, path, **query))["conversation_id"] is None
    await talked(app, ada)
    talked_about = await everything()
    await context(app, token, query="Lyon")
    assert await everything() == talked_about
    assert before["threads"] == before["blocks"] == []


async def test_it_keeps_to_its_budget_and_says_what_gave_way(app: App) -> None:
    token, ada = await app.token("ada"), await app.user("ada")
    long = [said("user", TextPart(f"{number} " + "word " * 400)) for number in range(20)]
    thread, _ = await talked(app, ada, new=long)
    new = NewSummary(first_position=0, last_position=1, message_count=2, text="sum " * 2000, tokens=2000)
    await Summaries(app.database, app.clock).append(thread, new)
    await app.ask(token, "PUT", "/v1/agent/memory/blocks/human", {"value": "block " * 2000, "version": 1})
    for number in range(20):
        body = {"content": f"Lyon {number} " + "item " * 60}
        assert (await app.ask(token, "POST", "/v1/agent/memory/archival", body)).status == 200
    count = TokenCounter().count
    for tokens in (256, 400, 1000, 4000, 100_000):
        shown = await context(app, token, query="Lyon", tokens=tokens)
        assert sum(count(message["content"]) for message in shown["messages"]) <= shown["tokens"] <= tokens
        gave_way = [note for note in shown["notes"] if "left out" in note or "shortened" in note]
        assert bool(gave_way) == (tokens < 100_000)
        assert shown["messages"][-1]["content"].rstrip().endswith("word")


async def test_a_subject_has_its_own_memory_and_conversation(app: App) -> None:
    token, ada = await app.token("ada"), await app.user("ada")
    one, _ = await talked(app, ada, subject="s1", new=[said("user", TextPart("I am one."))])
    await talked(app, ada, new=CONVERSATION)
    for subject, value in (("s1", "Unum"), ("s2", "Duo")):
        body = {"value": value, "version": 1, "subject": subject}
        await app.ask(token, "PUT", "/v1/agent/memory/blocks/human", body)
        body = {"content": f"Likes tea number {value}.", "subject": subject}
        await app.ask(token, "POST", "/v1/agent/memory/archival", body)
    first = await context(app, token, subject="s1", query="tea")
    assert (first["conversation_id"], first["subject"]) == (one.id, "s1")
    assert "Unum" in first["text"]
    assert "I am one." in first["text"]
    assert "Duo" not in first["text"]
    assert "Lyon" not in first["text"]
    # The conversation of a subject brings the subject's memory with it.
    assert await context(app, token, thread=one.id, query="tea") == first
    second = await context(app, token, subject="s2", query="tea")
    assert (second["conversation_id"], "Duo" in second["text"], "Unum" in second["text"]) == (None, True, False)
    main = await context(app, token, query="tea")
    assert "Unum" not in main["text"]
    assert "Duo" not in main["text"]
    for query in (f"thread={one.id}&subject=s1", "tokens=255", "tokens=10000000", "query=", "query=+", "thread=x"):
        assert (await app.ask(token, "GET", CONTEXT, query=query)).status == 422, query
