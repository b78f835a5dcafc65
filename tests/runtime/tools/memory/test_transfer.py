"""Export and import: nothing is lost between stores or written twice, and a bad item does not affect others."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dslc.blocks.memory import Memory
from dslc.blocks.variant import Variant
from runtime.database.connection import Database
from runtime.identity.caller import OWNER_CALLER, Caller
from runtime.memory.item import Item
from runtime.tools import TOOLS
from tests.clocks import ManualClock
from tests.conftest import KEY
from tests.databases import with_keys
from tests.lanes import LONG, examples
from tests.runtime.api.app import NOTES, App

pytestmark = LONG

AUDIT = Memory(name="audit", path="audit", store=Variant(name="records"), embedding=Variant(name="hashing"))
BEGIN = datetime(2026, 1, 30, 23, 59, 58, tzinfo=UTC)


@asynccontextmanager
async def opened(folder: Path, *memories: Memory) -> AsyncIterator[App]:
    folder.mkdir(parents=True, exist_ok=True)
    clock = ManualClock()
    database = await Database.open(with_keys(folder / "symbiont.db", KEY), KEY)
    async with App(database, clock).remembering(folder, *memories or (NOTES, AUDIT)) as app:
        yield app
    await database.close()


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[App]:
    async with opened(tmp_path) as app:
        yield app


async def call(app: App, tool: str, caller: Caller = OWNER_CALLER, **given_: Any) -> Any:
    return (await TOOLS[tool].call(app.context(caller), given_)).model_dump(mode="json")


async def exported(app: App, page: int = 500, caller: Caller = OWNER_CALLER, **wanted: Any) -> list[dict[str, Any]]:
    """Return every item, read in pages."""
    items: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    while True:
        answer = await call(app, "memory_export", caller, limit=page, **wanted, **cursor)
        assert len(answer["items"]) <= page
        assert answer["problems"] == []
        items += answer["items"]
        if answer["next_cursor"] is None:
            return items
        cursor = {"cursor": answer["next_cursor"]}


def bare(items: list[dict[str, Any]], *also: str) -> list[dict[str, Any]]:
    """Return the item without the fields that a store assigns."""
    return [{k: v for k, v in item.items() if k not in {"memory_id", "memory", *also}} for item in items]


def of_type(items: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    return {
        kind: [each for each in items if each["memory_type"] == kind] for kind in ("episodic", "semantic", "procedural")
    }


TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from("\n\t#-*<>`"), min_size=1, max_size=60)
NAME = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=12)
PROVENANCE = st.fixed_dictionaries(
    {},
    optional={
        "author": NAME,
        "session_id": NAME,
        "task": TEXT,
        "confidence": st.floats(0, 1),
        "risk_tier": st.sampled_from(["GREEN", "YELLOW", "RED"]),
        "git_commit": st.just("a109d56"),
        "sources": st.lists(NAME, max_size=3),
    },
)
ITEMS = st.lists(
    st.fixed_dictionaries(
        {
            "agent_id": st.sampled_from(["reviewer", "planner"]),
            "memory_type": st.sampled_from(["episodic", "semantic", "procedural"]),
            "text": TEXT.filter(lambda text: bool(text.strip())),
        },
        optional={
            "user_id": NAME,
            "project_id": NAME,
            "source_uri": NAME.map(lambda name: f"https://example.com/{name}"),
            "other_sources": st.lists(NAME.map(lambda name: f"file:///{name}"), max_size=2),
            "tags": st.lists(NAME, max_size=3),
            "source_memory_ids": st.lists(st.uuids().map(str), max_size=2),
            "provenance": PROVENANCE,
        },
    ),
    max_size=12,
)


def timed(items: list[dict[str, Any]], steps: list[int]) -> list[dict[str, Any]]:
    """Return items in order, some of them with the same time."""
    at, found = BEGIN, []
    for item, step in zip(items, steps, strict=True):
        at += timedelta(microseconds=step)
        found.append({**item, "timestamp": at.isoformat()})
    return found


@settings(max_examples=examples(25), suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_nothing_is_lost_from_markdown_to_records_and_back(data: st.DataObject, tmp_path_factory: Any) -> None:
    import asyncio

    items = data.draw(ITEMS)
    steps = data.draw(st.lists(st.sampled_from([0, 1, 700_000, 61_000_000]), min_size=len(items), max_size=len(items)))
    page = data.draw(st.integers(1, 5))
    asyncio.run(_there_and_back(timed(items, steps), page, tmp_path_factory.mktemp("transfer")))


async def _there_and_back(given_items: list[dict[str, Any]], page: int, folder: Path) -> None:
    async with opened(folder / "a") as one, opened(folder / "b") as two:
        answer = await call(one, "memory_import", items=given_items, memory="notes")
        assert answer["refused"] == 0, answer
        first = await exported(one, page, memory="notes")
        assert len(first) == answer["stored"]
        # From markdown to records, and from records to another markdown memory.
        assert (await call(one, "memory_import", items=first, memory="audit"))["stored"] == len(first)
        second = await exported(one, page, memory="audit")
        assert (await call(two, "memory_import", items=second, memory="notes"))["stored"] == len(first)
        third = await exported(two, page, memory="notes")
        for agent in ("reviewer", "planner"):
            kept = [of_type(bare(each, "copy_number")) for each in _of(agent, first, second, third)]
            assert kept[0] == kept[1] == kept[2]
        # Repeated: nothing changes.
        for app, memory, items in ((one, "notes", first), (one, "audit", first), (two, "notes", second)):
            again = await call(app, "memory_import", items=items, memory=memory)
            assert (again["stored"], again["there"], again["refused"]) == (0, len(items), 0), again
        assert await exported(two, page, memory="notes") == third


def _of(agent: str, *exports: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    return [[item for item in items if item["agent_id"] == agent] for items in exports]


async def test_two_entries_that_are_alike_stay_two_and_do_not_become_four(app: App) -> None:
    entry = {"agent_id": "reviewer", "memory_type": "episodic", "text": "ping", "timestamp": "2026-02-01T10:00:00Z"}
    for memory in ("notes", "audit"):
        first = await call(app, "memory_import", items=[entry, {**entry, "copy_number": 1}], memory=memory)
        assert first["stored"] == 2
        items = await exported(app, 1, memory=memory)
        assert [item["copy_number"] for item in items] == [0, 1]
        # Also in sequence, like the pages of a large file.
        for item in items:
            assert (await call(app, "memory_import", items=[item], memory=memory))["there"] == 1
        assert (await call(app, "memory_import", items=[entry, entry], memory=memory))["there"] == 2
        assert len(await exported(app, memory=memory)) == 2


async def test_each_bad_item_is_named_and_the_others_are_kept(app: App) -> None:
    good = {"agent_id": "reviewer", "memory_type": "semantic", "text": "fine", "timestamp": "2026-02-01T10:00:00Z"}
    bad: list[tuple[dict[str, Any], str]] = [
        ({}, "text: it is required"),
        ({**good, "timestamp": "2026-02-01T10:00:00"}, "timestamp"),
        ({**good, "timestamp": "soon"}, "timestamp"),
        ({**good, "memory_type": "fact"}, "memory_type"),
        ({**good, "text": " "}, "text: it is missing"),
        ({**good, "text": "x" * 2_000_000}, "2,000,000 characters are too many"),
        ({**good, "chunk_hash": "0" * 64}, "chunk_hash is not the hash of text"),
        ({**good, "agent_id": "../../etc"}, "is not a valid name of an agent"),
        ({**good, "memory": "nots"}, "no memory is called 'nots' (did you mean notes?)"),
        ({**good, "colour": "red"}, "colour"),
        ({**good, "provenance": {"confidence": 2}}, "provenance.confidence"),
        ({**good, "copy_number": -1}, "copy_number"),
    ]
    items = [each for item, _ in bad for each in (item, {**good, "text": f"fine {len(json.dumps(item))}"})]
    answer = await call(app, "memory_import", items=items)
    assert (answer["refused"], answer["stored"]) == (len(bad), len(bad))
    for line, (_, said) in zip(answer["lines"][::2], bad, strict=True):
        assert line["outcome"] == "refused"
        assert said in line["reason"]
    assert Counter(line["outcome"] for line in answer["lines"][1::2]) == {"stored": len(bad)}


async def test_a_user_imports_what_is_its_own_and_nothing_else(app: App) -> None:
    bob = Caller("bob", frozenset({"write"}))
    fact = {"agent_id": "reviewer", "memory_type": "semantic", "text": "x", "timestamp": "2026-02-01T10:00:00Z"}
    items = [
        {**fact, "user_id": "bob"},
        {**fact, "user_id": "ada"},
        {**fact, "user_id": "bob", "agent_id": "nobody"},
        {**fact, "user_id": "bob", "source_uri": "symbiont:delivery/1"},
    ]
    answer = await call(app, "memory_import", bob, items=items)
    assert [line["outcome"] for line in answer["lines"]] == ["stored", *["refused"] * 3]
    reasons = [line["reason"] for line in answer["lines"]]
    assert "it is ada's" in reasons[1]
    assert "no agent is called 'nobody'" in reasons[2]
    assert [item["user_id"] for item in await exported(app, caller=bob)] == ["bob"]


async def test_an_item_that_names_no_user_is_the_callers(app: App) -> None:
    bob = Caller("bob", frozenset({"write"}))
    fact = {"agent_id": "reviewer", "memory_type": "semantic", "text": "x", "timestamp": "2026-02-01T10:00:00Z"}
    assert (await call(app, "memory_import", bob, items=[fact, {**fact, "user_id": None, "text": "y"}]))["stored"] == 2
    assert [item["user_id"] for item in await exported(app, caller=bob)] == ["bob", "bob"]


async def test_half_a_character_in_one_line_is_mended_and_keeps_no_other_out(app: App) -> None:
    fact = {"agent_id": "reviewer", "memory_type": "semantic", "timestamp": "2026-02-01T10:00:00Z"}
    items = [{**fact, "text": "whole"}, {**fact, "text": "\ud800 lone", "tags": ["\udc00"]}]
    assert (await call(app, "memory_import", items=items))["stored"] == 2
    assert [item["text"] for item in await exported(app)] == ["whole", "\ufffd lone"]


COLLECTION = Memory(name="coll", store=Variant(name="collection"), embedding=Variant(name="hashing"))
DAY = {"start": "1970-01-01T00:00:00Z", "end": "2030-01-01T00:00:00Z"}


async def kept_in_a_collection(app: App, *texts: str) -> list[str]:
    """Return the ids of the items and, last, of their summary."""
    pushed = [await call(app, "push", text=text, memory_type="episodic", collection="coll") for text in texts]
    made = await call(app, "summarize", time_range=DAY, collection="coll")
    return [*(each["memory_ids"][0] for each in pushed), made["upserted_memory_id"]]


@pytest.mark.parametrize("memories", [(COLLECTION,), (COLLECTION, NOTES, AUDIT)])
async def test_what_was_exported_imported_and_exported_again_is_equal_and_summaries_stay_the_same(
    tmp_path: Path, memories: tuple[Memory, ...]
) -> None:
    async with opened(tmp_path / "one", *memories) as one, opened(tmp_path / "two", *memories) as two:
        *_, summary = await kept_in_a_collection(one, "The disk was full.", "Ada freed it.")
        for memory in memories[1:]:
            await call(one, "memory_write", agent="reviewer", text="a fact", memory=memory.name)
            await call(one, "memory_write", agent="reviewer", text="an event", type="episode", memory=memory.name)
        items = await exported(one)
        for outcome in ("stored", "there"):
            assert (await call(two, "memory_import", items=items))[outcome] == len(items)
        assert await exported(two) == items
        again = await call(two, "summarize", time_range=DAY, collection="coll")
        assert again["upserted_memory_id"] == summary
        assert await exported(two) == items


async def test_where_ids_change_an_item_names_its_sources_by_those_that_they_have_now(tmp_path: Path) -> None:
    async with opened(tmp_path, COLLECTION, NOTES) as app:
        await kept_in_a_collection(app, "The disk was full.", "Ada freed it.")
        items = await exported(app, memory="coll")
        # The summary comes first here, and items of another agent have different ids in any store.
        for memory in ("notes", "coll"):
            done = await call(app, "memory_import", items=items[::-1], agent="reviewer", memory=memory)
            assert done["stored"] == 3
            assert (await call(app, "memory_import", items=items, agent="reviewer", memory=memory))["there"] == 3
            there = await exported(app, memory=memory, agent="reviewer")
            ids = {item["text"]: item["memory_id"] for item in there}
            (summary,) = [item for item in there if item["memory_type"] == "semantic"]
            assert summary["source_memory_ids"] == [ids["The disk was full."], ids["Ada freed it."]]
            assert not {item["memory_id"] for item in items} & set(ids.values())


@pytest.mark.parametrize("memory", ["coll", "audit"])
async def test_an_id_of_something_else_is_refused_and_what_has_it_stays(tmp_path: Path, memory: str) -> None:
    fact = {"agent_id": "reviewer", "memory_type": "semantic", "timestamp": "2026-02-01T10:00:00Z", "memory": memory}
    own = "0195e7c0-5a3c-7e10-8f00-3c1d2e4b5a60"
    async with opened(tmp_path, COLLECTION, AUDIT) as app:
        first = {**fact, "text": "as it is", "memory_id": own}
        assert (await call(app, "memory_import", items=[first]))["lines"][0]["memory_id"] == own
        items = [{**fact, "text": "something else", "memory_id": own}, {**fact, "text": "fine"}, first]
        lines = (await call(app, "memory_import", items=items))["lines"]
        assert [line["outcome"] for line in lines] == ["refused", "stored", "there"]
        assert own in lines[0]["reason"]
        assert sorted(item["text"] for item in await exported(app)) == ["as it is", "fine"]


async def test_an_id_tells_nobody_whether_another_user_has_an_item(tmp_path: Path) -> None:
    ada, bob = (Caller(name, frozenset({"write"})) for name in ("ada", "bob"))
    fact = {"agent_id": "reviewer", "memory_type": "semantic", "timestamp": "2026-02-01T10:00:00Z", "memory": "coll"}
    async with opened(tmp_path, COLLECTION, NOTES) as app:
        written = await call(app, "memory_write", ada, agent="reviewer", text="hers", memory="coll")
        hers, free = written["item"]["memory_id"], "0195e7c0-5a3c-7e10-8f00-3c1d2e4b5a60"
        items = [
            {**fact, "text": "one", "memory_id": hers},
            {**fact, "text": "two", "memory_id": free},
            {
                **fact,
                "text": "three",
                "memory_id": "0195e7c0-5a3c-7e10-8f00-3c1d2e4b5a61",
                "source_memory_ids": [hers, free],
            },
        ]
        lines = (await call(app, "memory_import", bob, items=items))["lines"]
        assert [line["outcome"] for line in lines] == ["stored"] * 3
        assert not {line["memory_id"] for line in lines} & {hers, free}
        assert (await call(app, "memory_show", ada, memory_id=hers))["item"]["text"] == "hers"
        kept = {item["text"]: item for item in await exported(app, caller=bob, memory="coll")}
        # Both are treated alike: they are the sender's items, not the other user's.
        assert kept["three"]["source_memory_ids"] == [kept["one"]["memory_id"], kept["two"]["memory_id"]]
        assert (await call(app, "memory_import", bob, items=items))["there"] == 3


async def test_only_an_administrator_is_told_of_files_when_a_line_cannot_be_kept(app: App, tmp_path: Path) -> None:
    await call(app, "memory_write", agent="reviewer", text="a fact")
    file = tmp_path / "notes" / "reviewer" / "memory.md"
    file.unlink()
    file.mkdir()
    bob = Caller("bob", frozenset({"write"}))
    fact = {"agent_id": "reviewer", "memory_type": "semantic", "text": "x", "timestamp": "2026-02-01T10:00:00Z"}
    (told,) = (await call(app, "memory_import", items=[fact]))["lines"]
    assert str(file) in told["reason"]
    (line,) = (await call(app, "memory_import", bob, items=[fact]))["lines"]
    assert line["outcome"] == "refused"
    assert str(tmp_path) not in line["reason"]
    assert "memory.md" not in line["reason"]


@pytest.mark.parametrize("memory", ["notes", "audit"])
async def test_what_one_user_knows_is_not_kept_from_another(app: App, memory: str) -> None:
    callers = [Caller(name, frozenset({"write"})) for name in ("ada", "bob")]
    for caller in callers:
        answer = await call(app, "memory_write", caller, agent="reviewer", text="the same", memory=memory)
        assert answer["outcome"] == "stored"
    for caller in callers:
        (kept,) = await exported(app, caller=caller)
        assert (kept["user_id"], kept["copy_number"]) == (caller.user_id, 0)
        shown = await call(app, "memory_show", caller, memory_id=kept["memory_id"])
        assert shown["item"]["user_id"] == caller.user_id


async def test_compaction_keeps_each_users_own(app: App) -> None:
    entry = {"agent_id": "reviewer", "memory_type": "episodic", "text": "Talk\n- [fact] the sky is blue"}
    for user, at in (("ada", "2025-01-01T10:00:00Z"), ("bob", "2025-01-01T10:05:00Z"), ("ada", "2025-01-02T10:00:00Z")):
        item = {**entry, "user_id": user, "timestamp": at}
        assert (await call(app, "memory_import", items=[item], memory="notes"))["stored"] == 1
    done = await call(app, "memory_compact", agent="reviewer", memory="notes")
    assert [(row["flushed"], row["deleted"]) for row in done["memories"]] == [(2, 2)]
    kept = await exported(app)
    assert [(item["user_id"], item["text"]) for item in kept] == [(user, "the sky is blue") for user in ("ada", "bob")]
    assert (await call(app, "memory_compact", agent="reviewer", memory="notes"))["memories"][0]["flushed"] == 0


async def test_an_agent_that_the_program_lost_can_be_brought_back(app: App) -> None:
    item = {"agent_id": "old-one", "memory_type": "semantic", "text": "x", "timestamp": "2026-02-01T10:00:00Z"}
    assert (await call(app, "memory_import", items=[item]))["stored"] == 1
    assert [each["agent_id"] for each in await exported(app, agent="old-one")] == ["old-one"]


async def test_what_is_exported_holds_no_secret_and_importing_one_twice_keeps_it_once(app: App) -> None:
    text = "the key is AKIAIOSFODNN7EXAMPLE"
    item = {"agent_id": "reviewer", "memory_type": "episodic", "text": text, "timestamp": "2026-02-01T10:00:00Z"}
    for outcome in ("stored", "there"):
        assert (await call(app, "memory_import", items=[item]))[outcome] == 1
    (kept,) = await exported(app)
    assert "AKIA" not in json.dumps(kept)


async def test_an_export_goes_on_where_it_was_when_something_was_added_or_taken_away(app: App) -> None:
    at = {"agent_id": "reviewer", "memory_type": "semantic", "timestamp": "2026-02-01T10:00:00Z"}
    await call(app, "memory_import", items=[{**at, "text": f"fact {n}"} for n in range(6)], memory="notes")
    page = await call(app, "memory_export", limit=3)
    store = app.memories["notes"].store
    await store.delete(page["items"][0]["memory_id"], agent_id="reviewer")
    await store.append([Item.model_validate({**at, "text": "fact 6"})])
    rest = await call(app, "memory_export", cursor=page["next_cursor"])
    assert [item["text"] for item in rest["items"]] == ["fact 3", "fact 4", "fact 5", "fact 6"]


async def test_a_page_is_full_before_it_is_too_large(app: App) -> None:
    at = {"agent_id": "reviewer", "memory_type": "episodic", "timestamp": "2026-02-01T10:00:00Z"}
    await call(app, "memory_import", items=[{**at, "text": f"{n}" * 1_000_000} for n in range(6)], memory="notes")
    pages: list[list[str]] = []
    cursor: dict[str, Any] = {}
    while not pages or cursor:
        answer = await call(app, "memory_export", OWNER_CALLER, **cursor)
        pages.append([item["text"][0] for item in answer["items"]])
        cursor = {"cursor": answer["next_cursor"]} if answer["next_cursor"] else {}
    assert pages == [["0", "1", "2", "3"], ["4", "5"]]


async def test_each_imported_text_is_searched_for_secrets_once(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[str] = []

    def noted(text: str) -> str:
        searched.append(text)
        return text

    monkeypatch.setattr("runtime.memory.store.redact", noted)
    time = BEGIN.isoformat()
    line = {"agent_id": "reviewer", "memory_type": "semantic", "timestamp": time, "text": "The walnut"}
    assert (await call(app, "memory_import", items=[line]))["stored"] == 1
    assert searched.count("The walnut") == 1
