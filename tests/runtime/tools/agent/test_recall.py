"""An agent finds what was said in the conversations of its user, and nothing of anybody else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runtime.database.connection import Database
from runtime.errors import NotFound
from runtime.identity.caller import OWNER_CALLER, Caller, Scope
from runtime.threads.messages import Messages
from runtime.threads.summaries import NewSummary
from runtime.threads.thread import Thread, Threads
from runtime.tools.context import ActingAgent, Context, VisibleContext
from runtime.tools.model.agent_toolset import AgentIdentity, AgentTools
from runtime.tools.toolset import ALL_TOOLS
from tests.clocks import ManualClock
from tests.runtime.api.app import App
from tests.runtime.memory.recall.test_store import Recall, recalling
from tests.runtime.threads.thread_runs import said

WRITE: frozenset[Scope] = frozenset({"write"})


class Conversations(App):
    """An app with the search over its threads."""

    def __init__(self, database: Database, clock: ManualClock, recall: Recall) -> None:
        super().__init__(database, clock)
        self.recall = recall

    def asked_by(self, caller: Caller, acting: ActingAgent | None = None) -> Context:
        return replace(self.context(caller), recall=self.recall.memory, acting=acting)

    async def search(
        self, query: str, caller: Caller = OWNER_CALLER, acting: ActingAgent | None = None, **given: Any
    ) -> list[dict[str, Any]]:
        """Return the hits that have the text."""
        answer = await ALL_TOOLS.call("conversation_search", self.asked_by(caller, acting), {"query": query, **given})
        return [hit for hit in answer.model_dump(mode="json")["hits"] if query in hit["text"]]

    async def said(self, thread: Thread, *texts: str) -> Thread:
        await self.recall.messages.append(thread, [said(text) for text in texts])
        return thread


@pytest.fixture
async def app(database: Database, tmp_path: Path, clock: ManualClock) -> AsyncIterator[Conversations]:
    async with recalling(database, tmp_path / "index", clock) as recall:
        yield Conversations(database, clock, recall)


async def test_all_conversations_of_the_user_are_searched_or_one(app: Conversations) -> None:
    main = await app.said(await app.recall.threads.main("owner", "helper"), "hello", "the okapi sleeps")
    other = await app.said(await app.recall.threads.main("owner", "planner"), "an okapi again")
    found = await app.search("okapi")
    assert {(hit["conversation_id"], hit["agent"], hit["role"], hit["position"]) for hit in found} == {
        (main.id, "helper", "user", 1),
        (other.id, "planner", "user", 0),
    }
    [hit] = await app.search("okapi", conversation_id=other.id)
    assert hit["text"] == "an okapi again"
    assert len(await app.search("okapi", limit=1)) == 1


async def test_another_users_conversations_are_never_seen_even_by_an_administrator(app: Conversations) -> None:
    theirs = await app.said(await app.recall.threads.main("ada", "helper"), "the okapi of ada")
    assert await app.search("okapi") == []
    assert await app.search("okapi", Caller("bob", WRITE)) == []
    for caller in (OWNER_CALLER, Caller("bob", WRITE)):
        with pytest.raises(NotFound, match="there is no conversation"):
            await app.search("okapi", caller, conversation_id=theirs.id)
    assert len(await app.search("okapi", Caller("ada", WRITE))) == 1


async def test_an_agent_that_is_bound_to_a_subject_finds_that_subjects_conversation_alone(app: Conversations) -> None:
    threads = app.recall.threads
    own = await app.said(await threads.for_subject("owner", "helper", "42"), "the okapi of 42")
    other = await app.said(await threads.for_subject("owner", "helper", "43"), "the okapi of 43")
    await app.said(await threads.main("owner", "helper"), "the okapi of all")
    acting = ActingAgent("helper", "run", own.id, subject="42", attempt=1)
    for wanted in (None, own.id):
        [hit] = await app.search("okapi", acting=acting, conversation_id=wanted)
        assert hit["text"] == "the okapi of 42"
    with pytest.raises(NotFound, match="there is no conversation"):
        await app.search("okapi", acting=acting, conversation_id=other.id)
    assert len(await app.search("okapi", acting=replace(acting, subject=None))) == 3
    # A delivery without a subject, of an agent whose subjects have memories of their own.
    unbound = replace(acting, subject=None, hides_subjects=True)
    [hit] = await app.search("okapi", acting=unbound)
    assert hit["text"] == "the okapi of all"
    with pytest.raises(NotFound, match="there is no conversation"):
        await app.search("okapi", acting=unbound, conversation_id=own.id)


async def test_an_id_that_is_none_names_the_nearest_but_no_hidden_subjects(app: Conversations) -> None:
    main = await app.recall.threads.main("owner", "helper")
    keyed = await app.recall.threads.for_subject("owner", "helper", "42")
    acting = ActingAgent("helper", "run", main.id, hides_subjects=True, attempt=1)
    for caller, meant, named in ((None, main, True), (None, keyed, True), (acting, main, True), (acting, keyed, False)):
        with pytest.raises(NotFound) as unknown:
            await app.search("okapi", acting=caller, conversation_id=meant.id[:-4])
        assert (unknown.value.hint == f"did you mean {meant.id}?") is named
        assert named or "take it from a hit" in (unknown.value.hint or "")


async def test_what_an_agent_may_not_see_takes_no_place_among_the_hits(app: Conversations) -> None:
    threads = app.recall.threads
    for number in range(15):
        await app.said(await threads.for_subject("owner", "helper", f"subject {number}"), "okapi")
    main = await app.said(await threads.main("owner", "helper"), "somewhere in a long text there is an okapi too")
    unbound = ActingAgent("helper", "run", main.id, hides_subjects=True, attempt=1)
    [hit] = await app.search("okapi", acting=unbound, limit=1)
    assert hit["conversation_id"] == main.id


async def test_what_another_process_deleted_is_not_found(app: Conversations, monkeypatch: pytest.MonkeyPatch) -> None:
    thread = await app.said(await app.recall.threads.main("owner", "helper"), "the okapi sleeps", "the okapi wakes")
    gone = await app.said(await app.recall.threads.main("owner", "planner"), "the okapi of another")
    assert len(await app.search("okapi")) == 3

    async def behind(*_: object) -> list[str]:
        return []

    monkeypatch.setattr(app.recall.memory, "catch_up", behind)
    await Messages(app.database, app.recall.clock).delete(thread, 0)
    await Threads(app.database, app.recall.clock).delete(gone)
    [hit] = await app.search("okapi")
    assert hit["text"] == "the okapi wakes"


async def test_without_an_agent_with_a_model_a_note_says_so(app: Conversations) -> None:
    answer = await ALL_TOOLS.call("conversation_search", app.context(OWNER_CALLER), {"query": "okapi"})
    assert answer.model_dump()["hits"] == []
    assert "no agent of the program has a model" in answer.model_dump()["notes"][0]


def test_every_agent_has_the_tool_unless_its_program_names_others() -> None:
    tools = AgentTools().of(None, OWNER_CALLER, AgentIdentity("helper"))
    assert "conversation_search" in tools
    [schema] = [each for each in tools.schemas if each.name == "conversation_search"]
    assert set(schema.parameters["properties"]) == {"query", "conversation_id", "limit"}


async def test_what_the_agent_has_in_its_context_is_no_hit(app: Conversations) -> None:
    main = await app.said(await app.recall.threads.main("owner", "helper"), "an old okapi", "a new okapi")
    await app.recall.messages.append(main, [said("a long tale of an okapi", tokens=900)])
    other = await app.said(await app.recall.threads.conversation("owner", "helper"), "an okapi elsewhere")
    await app.recall.messages.append(main, [said("which okapi?")], run_id="r")
    seen = ActingAgent("helper", "r", main.id, seen=VisibleContext(first=1, tokens=500))
    found = await app.search("okapi", acting=seen)
    # Of a long message only a part is in the context.
    assert {(hit["conversation_id"], hit["position"]) for hit in found} == {(main.id, 0), (main.id, 2), (other.id, 0)}
    # What a run says and is asked is known to it, whatever its context has.
    assert (main.id, 3) not in {
        (hit["conversation_id"], hit["position"]) for hit in await app.search("okapi", acting=replace(seen, seen=None))
    }
    assert len(await app.search("okapi")) == 5


async def test_the_summary_that_the_agent_has_in_its_context_is_no_hit(app: Conversations) -> None:
    main = await app.said(await app.recall.threads.main("owner", "helper"), "hello")
    of_hello = NewSummary(first_position=0, last_position=0, message_count=1, text="An okapi was met.", tokens=5)
    old = await app.recall.summaries.append(main, of_hello)
    await app.said(main, "hello again")
    new = NewSummary(first_position=0, last_position=1, message_count=2, text="An okapi was met twice.", tokens=5)
    newest = await app.recall.summaries.append(main, new)
    for summary, left in ((newest.id, {old.text}), (None, {old.text, newest.text})):
        acting = ActingAgent("helper", "r", main.id, seen=VisibleContext(first=2, tokens=500, summary=summary))
        assert {hit["text"] for hit in await app.search("okapi", acting=acting)} == left


async def test_more_hits_are_looked_for_when_the_first_ones_are_in_the_context(app: Conversations) -> None:
    main = await app.said(await app.recall.threads.main("owner", "helper"), *(f"okapi number {at}" for at in range(80)))
    old = "a long story about animals of the forest, among which there was one okapi"
    await app.said(await app.recall.threads.conversation("owner", "helper"), old)
    found = await app.search(
        "okapi", acting=ActingAgent("helper", "r", main.id, seen=VisibleContext(first=0, tokens=500))
    )
    assert [hit["text"] for hit in found] == [old]


async def test_a_text_that_was_said_often_is_one_hit_and_the_question_itself_comes_last(app: Conversations) -> None:
    for _ in range(4):
        asked = await app.recall.threads.conversation("owner", "helper")
        await app.recall.messages.append(
            asked, [said("Where is the okapi?"), said("I do not know.", role="assistant")], run_id=asked.id
        )
    await app.said(await app.recall.threads.conversation("owner", "helper"), "Ada saw the okapi near the river.")
    context = app.asked_by(OWNER_CALLER)
    answer = await ALL_TOOLS.call("conversation_search", context, {"query": "where is the okapi"})
    texts = [hit["text"] for hit in answer.model_dump(mode="json")["hits"]]
    assert texts == ["Ada saw the okapi near the river.", "I do not know.", "Where is the okapi?"]
