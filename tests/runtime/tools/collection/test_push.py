"""`push`: stored items, duplicates, and the effect of a broken item on the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import func, select

from runtime.database.connection import Database
from runtime.database.schema import item_sources
from runtime.memory.chunking import chunks
from runtime.memory.collection.store import CollectionStore
from runtime.memory.errors import RefusedItem
from runtime.memory.item import Item
from runtime.memory.store import LARGEST_TEXT
from runtime.memory.store_types import UpsertResult
from tests.cases import each_case
from tests.lanes import examples
from tests.runtime.tools.asking import ADA, BOB, OWNER_CALLER, Asked, asking, collection, line

SENTENCES = [f"Sentence number {number} says something of its own." for number in range(12)]


@pytest.fixture
async def ask(tmp_path: Path) -> AsyncIterator[Asked]:
    async with asking(tmp_path, collection("notes")) as opened:
        yield opened


async def test_a_text_is_kept_in_chunks_and_answered_with_the_counters(tmp_path: Path, database: Database) -> None:
    async with asking(tmp_path, collection("notes"), database=database) as ask:
        text = " ".join(SENTENCES)
        parts = chunks(text, 100, 40)
        answered = await ask("push", text=text, source_uri="file:///a.md", tags="daily", memory_type="episodic")
        ids = answered.pop("memory_ids")
        assert answered == {
            "inserted": len(parts),
            "updated": 0,
            "skippedDuplicates": 0,
            "chunksIndexed": len(parts),
            "chunkSize": 100,
            "removed": 0,
            "failed": [],
            "notes": [],
            "collection": "notes",
        }
        kept = [await ask("get", memory_id=each) for each in ids]
        assert [each["text"] for each in kept] == parts
        assert {each["source_uri"] for each in kept} == {"file:///a.md"}
        assert {each["provenance"]["session_id"] for each in kept} == {"file:///a.md"}
        assert {tuple(each["tags"]) for each in kept} == {("daily",)}
        assert {(each["project_id"], each["memory_type"], each["user_id"]) for each in kept} == {
            ("default", "episodic", "ada")
        }


async def test_what_says_nothing_of_itself_is_semantic_and_of_the_default_project(ask: Asked) -> None:
    (memory_id,) = (await ask("push", text="Deploys are on Tuesdays"))["memory_ids"]
    kept = await ask("get", memory_id=memory_id)
    assert (kept["project_id"], kept["memory_type"], kept["tags"], kept["source_uri"]) == (
        "default",
        "semantic",
        [],
        None,
    )
    assert kept["timestamp"] == "2026-02-14T10:30:00Z"
    assert kept["provenance"]["session_id"] is None


async def test_what_is_there_already_is_skipped_within_a_push_and_against_the_collection(ask: Asked) -> None:
    first = await ask("push", items=[{"text": "One and the same"}, {"text": "One  and\nthe same"}, {"text": "Another"}])
    assert (first["inserted"], first["skippedDuplicates"], first["chunksIndexed"]) == (2, 1, 2)
    again = await ask("push", text="One and the same")
    assert (again["inserted"], again["updated"], again["skippedDuplicates"]) == (0, 0, 1)
    assert again["memory_ids"] == []


async def test_what_is_said_anew_replaces_what_was_said_and_the_rest_stays(ask: Asked) -> None:
    (memory_id,) = (await ask("push", text="The plan", tags=["a"], source_uri="file:///p"))["memory_ids"]
    changed = await ask("push", text="The plan", memory_type="procedural")
    assert (changed["updated"], changed["inserted"], changed["memory_ids"]) == (1, 0, [memory_id])
    kept = await ask("get", memory_id=memory_id)
    assert (kept["memory_type"], kept["tags"], kept["source_uri"]) == ("procedural", ["a"], "file:///p")
    await ask("push", text="The plan", tags=[])
    assert (await ask("get", memory_id=memory_id))["tags"] == []
    assert (await ask("get", memory_id=memory_id))["memory_type"] == "procedural"


async def test_the_same_text_in_another_project_or_collection_or_of_another_user_is_another_item(ask: Asked) -> None:
    await ask("new-collection", name="other")
    for caller, more in ((ADA, {}), (ADA, {"project_id": "p"}), (ADA, {"collection": "other"}), (BOB, {})):
        assert isinstance(more, dict)
        assert (await ask("push", caller, text="The same", **more))["inserted"] == 1
    assert (await ask("push", BOB, text="The same"))["skippedDuplicates"] == 1


async def test_a_broken_item_fails_alone_and_is_named(ask: Asked) -> None:
    broken: list[tuple[Any, str | None, str]] = [
        ({"text": " \n"}, "text", "blank"),
        ({"tags": ["x"]}, "text", "required"),
        ({"text": "x" * (LARGEST_TEXT + 1)}, "text", "1,048,576"),
        ({"text": "x", "memory_type": "fact"}, "memory_type", "'episodic', 'semantic' or 'procedural'"),
        ({"text": "x", "tags": ["a", 7]}, "tags.1", "string"),
        ({"text": "x", "tags": [" "]}, "tags.0", "blank"),
        ({"text": "x", "project_id": ""}, "project_id", "it is empty"),
        ({"text": "x", "source_uri": "symbiont:delivery/1"}, "source_uri", "reserved for the daemon"),
        ({"text": "x", "source_uri": " symbiont:delivery/1"}, "source_uri", "reserved for the daemon"),
        ({"text": "x", "txet": 1}, "txet", "did you mean text?"),
        ({"text": 5}, "text", "string"),
        ("just text", None, "not a JSON object"),
        (None, None, "not a JSON object"),
    ]
    good = [{"text": f"Good item {number}"} for number in range(len(broken))]
    items = [each for pair in zip(good, [given for given, _, _ in broken], strict=True) for each in pair]
    answered = await ask("push", items=items)
    assert answered["inserted"] == len(good)
    assert [each["index"] for each in answered["failed"]] == list(range(1, 2 * len(broken), 2))
    for failed, (_, field, message) in zip(answered["failed"], broken, strict=True):
        assert failed["code"] == "invalid_params"
        assert failed["field"] == field
        assert message in failed["message"]


async def test_a_broken_item_is_named_with_its_source(ask: Asked) -> None:
    items = [{"text": " ", "source_uri": "file:///own"}, {"text": " "}]
    answered = await ask("push", items=items, source_uri="file:///shared")
    assert [each["source_uri"] for each in answered["failed"]] == ["file:///own", "file:///shared"]


async def test_an_item_that_the_store_refuses_fails_alone(ask: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = ask.app.memories["notes"]
    upsert = memory.upsert

    async def refusing(items: Any, **given: Any) -> Any:
        if any("poison" in item.text for item in items):
            raise RefusedItem("a text could not be redacted, so it is not stored")
        return await upsert(items, **given)

    monkeypatch.setattr(memory, "upsert", refusing)
    answered = await ask("push", items=[{"text": "one"}, {"text": "poison"}, {"text": "three"}])
    assert answered["inserted"] == 2
    assert [(each["index"], each["field"], each["code"]) for each in answered["failed"]] == [
        (1, "text", "invalid_params")
    ]
    failure = await ask.failure("push", text="poison")
    assert failure.code == "invalid_params"


@each_case(
    ("given", "field", "message"),
    [
        ({}, "text", "or items"),
        ({"text": "a", "items": [{"text": "b"}]}, "text", "either text or items"),
        ({"text": " "}, "text", "blank"),
        ({"text": "x" * (LARGEST_TEXT + 1)}, "text", "the maximum is 1,048,576"),
        ({"text": "a", "memory_type": "fact"}, "memory_type", "'episodic', 'semantic' or 'procedural'"),
        ({"text": "a", "tags": [1]}, "tags.0", "string"),
        ({"text": "a", "tags": {"a": 1}}, "tags", "array"),
        ({"text": "a", "tags": ["x"] * 101}, "tags", "100"),
        ({"text": "a", "tags": "x" * 201}, "tags.0", "200"),
        ({"text": "a", "project_id": " "}, "project_id", "blank"),
        ({"text": "a", "source_uri": "symbiont:delivery/7"}, "source_uri", "reserved for the daemon"),
        ({"text": "a", "replace": True}, "replace", "source_uri"),
        ({"text": "a", "replace": "yes"}, "replace", "boolean"),
        ({"text": "a", "project": "p", "project_id": "q"}, "project_id", "another name for project"),
        ({"text": "a", "collection": "../x"}, "collection", "letters"),
        ({"items": [{"text": "a"}] * 1001}, "items", "1000"),
        ({"items": {"text": "a"}}, "items", "array"),
    ],
)
async def test_a_wrong_push_keeps_nothing_and_says_what_would_be_right(
    ask: Asked, given: dict[str, Any], field: str, message: str
) -> None:
    failure = await ask.failure("push", **given)
    assert (failure.code, failure.field) == ("invalid_params", field)
    assert message in line(failure)
    assert (await ask("get-collections"))["collections"][0]["items"] == 0


async def test_a_push_to_a_collection_that_does_not_exist_names_the_nearest(ask: Asked) -> None:
    failure = await ask.failure("push", text="a", collection="note")
    assert (failure.code, failure.field) == ("not_found", "collection")
    assert "notes" in line(failure)


async def test_an_empty_batch_keeps_nothing(ask: Asked) -> None:
    assert (await ask("push", items=[]))["chunksIndexed"] == 0


async def test_replace_forgets_what_a_source_does_not_say_any_more(ask: Asked) -> None:
    text = "\n\n".join(SENTENCES[:6])
    await ask("push", text=text, source_uri="file:///a.md")
    await ask("push", text="From elsewhere.", source_uri="file:///b.md")
    await ask("push", text="Of another project.", source_uri="file:///a.md", project_id="p")
    await ask("push", BOB, text="Of another user.", source_uri="file:///a.md")
    edited = text.replace(SENTENCES[0], "It begins anew.")
    answered = await ask("push", text=edited, source_uri="file:///a.md", replace=True)
    assert answered["removed"] >= 1
    assert answered["inserted"] >= 1
    assert await ask.texts(
        query_text="sentence begins anew", source_uri="file:///a.md", project_id="default"
    ) == sorted(chunks(edited, 100, 40))
    assert await ask.texts(query_text="elsewhere") != []
    assert await ask.texts(query_text="project", project_id="p") == ["Of another project."]
    assert await ask.texts(BOB, query_text="user") == ["Of another user."]
    again = await ask("push", text=edited, source_uri="file:///a.md", replace=True)
    assert (again["inserted"], again["removed"]) == (0, 0)


async def test_replace_forgets_nothing_of_a_source_of_which_an_item_is_broken(ask: Asked) -> None:
    await ask("push", items=[{"text": "Page one"}, {"text": "Page two"}], source_uri="file:///book")
    items = [{"text": "Page one, edited"}, {"text": "Page two", "memory_type": "page"}]
    answered = await ask("push", items=items, source_uri="file:///book", replace=True)
    assert answered["removed"] == 0
    assert "no chunk of file:///book was deleted" in answered["notes"][0]
    assert len(await ask.texts(query_text="page")) == 3


@pytest.mark.parametrize(("own", "common"), [(None, "file:///book"), (" file:///book\n", None)])
async def test_replace_forgets_nothing_of_a_source_that_a_broken_item_has_by_default_or_with_spaces(
    ask: Asked, own: str | None, common: str | None
) -> None:
    await ask("push", items=[{"text": "Page one"}, {"text": "Page two"}], source_uri="file:///book")
    items = [{"text": "Page one, edited", "source_uri": "file:///book"}, {"text": "", "tags": [5], "source_uri": own}]
    answered = await ask("push", items=items, source_uri=common, replace=True)
    assert [failed["source_uri"] for failed in answered["failed"]] == ["file:///book"]
    assert answered["removed"] == 0
    assert len(await ask.texts(query_text="page")) == 3


async def test_replace_forgets_nothing_of_a_source_with_a_secret_of_which_the_store_refuses_an_item(
    ask: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = "https://user:hunter2secret@example.com/book"
    await ask("push", items=[{"text": "Page one"}, {"text": "Page two"}], source_uri=source)
    memory = ask.app.memories["notes"]
    upsert = memory.upsert

    async def picky(items: Sequence[Item], *, keep: frozenset[str] = frozenset()) -> UpsertResult:
        if any("refused" in item.text for item in items):
            raise RefusedItem("this one is not taken")
        return await upsert(items, keep=keep)

    monkeypatch.setattr(memory, "upsert", picky)
    items = [{"text": "Page one, edited"}, {"text": "Page two, refused"}]
    answered = await ask("push", items=items, source_uri=source, replace=True)
    assert (answered["inserted"], answered["removed"]) == (1, 0)
    assert "hunter2secret" not in str(answered["failed"])
    assert len(await ask.texts(query_text="page")) == 3


async def test_of_two_pushes_that_replace_a_source_at_the_same_time_one_is_whole(ask: Asked) -> None:
    old, *new = (
        f"{word} begins. {word} ends, and says so at such a length that it is a chunk of its own." * 3
        for word in ("Old", "One", "Two")
    )
    await ask("push", text=old, source_uri="file:///a.md")
    answered = await asyncio.gather(
        *(ask("push", text=text, source_uri="file:///a.md", replace=True) for text in [*new, *new])
    )
    assert all(each["inserted"] + each["skippedDuplicates"] for each in answered)
    there = await ask.texts(query_text="begins ends length chunk", source_uri="file:///a.md")
    assert there in [sorted(chunks(text, 100, 40)) for text in new]


async def test_what_somebody_else_forgets_at_the_same_time_fails_no_push(
    ask: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ask("push", text="What it said", source_uri="file:///a.md")
    store = ask.app.memories["notes"].store
    assert isinstance(store, CollectionStore)
    detach = store.detach

    async def late(memory_id: str, agent_id: str, source_uri: str) -> bool:
        await detach(memory_id, agent_id, source_uri)
        return await detach(memory_id, agent_id, source_uri)

    monkeypatch.setattr(store, "detach", late)
    answered = await ask("push", text="What it says", source_uri="file:///a.md", replace=True)
    assert (answered["inserted"], answered["removed"]) == (1, 0)


async def test_a_source_that_says_nothing_any_more_is_forgotten(ask: Asked) -> None:
    await ask("push", text="What it said", source_uri="file:///emptied")
    answered = await ask("push", text=" \n", source_uri="file:///emptied", replace=True)
    assert (answered["removed"], answered["chunksIndexed"]) == (1, 0)
    assert await ask.texts(query_text="said") == []


async def test_secrets_are_taken_out_and_a_source_with_one_is_replaced_all_the_same(ask: Asked) -> None:
    source = "https://user:hunter2secret@example.com/a"
    token = "ghp_" + "a1B2" * 9
    (memory_id,) = (await ask("push", text=f"The token is {token}", source_uri=source))["memory_ids"]
    kept = await ask("get", memory_id=memory_id)
    assert token not in kept["text"]
    answered = await ask("push", text=f"The new token is {token}", source_uri=source, replace=True)
    assert (answered["inserted"], answered["removed"]) == (1, 1)
    again = await ask("push", text=f"The new token is {token}", source_uri=source, replace=True)
    assert (again["inserted"], again["removed"]) == (0, 0)


async def test_progress_is_told_as_batches_are_kept(ask: Asked) -> None:
    told: list[tuple[str, int, int]] = []
    items = [{"text": f"Item {number}"} for number in range(1000)]
    await ask("push", ADA, lambda *said: told.append(said), items=items)
    assert [what for what, _, _ in told] == ["storing", "storing"]
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)
    assert told[-1] == ("storing", 1000, 1000)


async def test_a_push_that_is_cut_off_leaves_whole_batches_and_is_finished_by_the_same_again(ask: Asked) -> None:
    items = [{"text": f"Item {number}"} for number in range(1000)]

    def cut(*_: object) -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await ask("push", ADA, cut, items=items)
    kept = (await ask("get-collections"))["collections"][0]["items"]
    assert 0 < kept < 1000
    again = await ask("push", items=items)
    assert (again["inserted"], again["skippedDuplicates"]) == (1000 - kept, kept)
    assert (await ask("metrics"))["collections"][0]["items"] == 1000


async def test_the_owner_pushes_for_the_owner(ask: Asked) -> None:
    (memory_id,) = (await ask("push", OWNER_CALLER, text="Mine"))["memory_ids"]
    assert (await ask("get", OWNER_CALLER, memory_id=memory_id))["user_id"] == "owner"


async def test_pushes_at_the_same_time_keep_each_chunk_once(ask: Asked) -> None:
    answered = await asyncio.gather(*(ask("push", text="At the same time") for _ in range(8)))
    assert sum(each["inserted"] for each in answered) == 1
    assert sum(each["skippedDuplicates"] for each in answered) == 7


@settings(max_examples=examples(15), suppress_health_check=list(HealthCheck))
@given(texts=st.lists(st.text(max_size=300), max_size=6))
async def test_the_counters_add_up_whatever_is_pushed(ask: Asked, texts: list[str]) -> None:
    answered = await ask("push", items=[{"text": text} for text in texts], project_id="fuzzed")
    # Text that JSON cannot represent is refused.
    good = [text for text in texts if text.strip()]
    made = sum(len(chunks(text, 100, 40)) for text in good)
    assert answered["inserted"] + answered["updated"] + answered["skippedDuplicates"] == made
    assert answered["chunksIndexed"] == answered["inserted"] + answered["updated"] == len(answered["memory_ids"])
    assert len(answered["failed"]) == len(texts) - len(good)


async def test_other_names_of_particulars_are_understood_for_all_and_of_each_item(ask: Asked) -> None:
    await ask("push", items=[{"text": "One."}, {"text": "Two.", "type": "procedural"}], project="p", type="episodic")
    assert await ask.texts(query_text="one two", project="p", type="episodic") == ["One."]
    assert await ask.texts(query_text="one two", project="p", type="procedural") == ["Two."]
    (failed,) = (await ask("push", items=[{"text": "x", "type": "semantic", "memory_type": "episodic"}]))["failed"]
    assert (failed["field"], failed["code"]) == ("memory_type", "invalid_params")


@each_case(
    ("tags", "kept"),
    [
        ('["b","a"]', ["a", "b"]),
        (' ["a"] ', ["a"]),
        ('["half \\ud800"]', ["half \ufffd"]),
        ("[a]", ["[a]"]),
        ("[1]", ["[1]"]),
        ("[" * 5000, None),
        ("a,b", ["a,b"]),
    ],
)
async def test_a_list_of_tags_that_comes_as_text_is_the_list(ask: Asked, tags: str, kept: list[str] | None) -> None:
    if kept is None:
        assert (await ask.failure("push", text="a", tags=tags)).code == "invalid_params"
        return
    (one,) = (await ask("push", text="a", tags=tags))["memory_ids"]
    assert (await ask("get", memory_id=one))["tags"] == kept
    assert await ask.texts(query_text="a", tags=tags) == ["a"]


async def test_a_tag_is_one_tag_however_its_characters_are_composed(ask: Asked) -> None:
    composed, apart = "caf\u00e9", "cafe\u0301"
    (one,) = (await ask("push", text="a", tags=[apart, composed]))["memory_ids"]
    assert (await ask("get", memory_id=one))["tags"] == [composed]
    assert await ask.texts(query_text="a", tags=apart) == await ask.texts(query_text="a", tags_all=[apart]) == ["a"]


async def test_what_two_sources_say_is_forgotten_when_neither_says_it_any_more(
    tmp_path: Path, database: Database
) -> None:
    async with asking(tmp_path, collection("notes"), database=database) as ask:

        async def put(source: str, text: str) -> dict[str, Any]:
            pushed: dict[str, Any] = await ask("push", text=text, source_uri=f"file:///{source}.md", replace=True)
            return pushed

        async def found(source: str) -> int:
            answered = await ask("search", query_text="flux capacitor", source_uri=f"file:///{source}.md")
            return sum(hit["text"] == "The flux capacitor." for hit in answered["hits"])

        for source in ("a", "b", "c"):
            (shared,) = (await put(source, "The flux capacitor."))["memory_ids"]
        kept = await ask("get", memory_id=shared)
        assert (kept["source_uri"], kept["other_sources"]) == ("file:///c.md", ["file:///a.md", "file:///b.md"])
        assert [await found(source) for source in "abcd"] == [1, 1, 1, 0]
        again = await put("c", "The flux capacitor.")
        assert (again["skippedDuplicates"], again["updated"], again["removed"]) == (1, 0, 0)

        # The last one, then one of the others, and the only remaining one.
        assert (await put("c", "Something else."))["removed"] == 1
        kept = await ask("get", memory_id=shared)
        assert (kept["source_uri"], kept["other_sources"]) == ("file:///a.md", ["file:///b.md"])
        assert [await found(source) for source in "abc"] == [1, 1, 0]
        assert (await put("b", ""))["removed"] == 1
        assert [await found(source) for source in "abc"] == [1, 0, 0]
        (hit,) = (await ask("search", query_text="flux capacitor", limit=1))["hits"]
        assert (hit["memory_id"], hit["source_uri"], hit["other_sources"]) == (shared, "file:///a.md", [])
        assert (await put("a", "New."))["removed"] == 1
        assert (await ask.failure("get", memory_id=shared)).code == "not_found"
        assert (await ask("push", text="", source_uri="file:///a.md", replace=True))["removed"] == 1


async def test_what_two_items_of_one_push_say_is_from_both(tmp_path: Path, database: Database) -> None:
    async with asking(tmp_path, collection("notes"), database=database) as ask:

        async def put(**said: str) -> dict[str, Any]:
            items = [{"text": text, "source_uri": f"file:///{source}.md"} for source, text in said.items()]
            pushed: dict[str, Any] = await ask("push", items=items, replace=True)
            return pushed

        first = await put(a="Shared.", b="Shared.", c="Shared.")
        assert (first["inserted"], first["skippedDuplicates"]) == (1, 2)
        (shared,) = first["memory_ids"]
        kept = await ask("get", memory_id=shared)
        assert (kept["source_uri"], kept["other_sources"]) == ("file:///a.md", ["file:///b.md", "file:///c.md"])
        again = await put(a="Shared.", b="Shared.", c="Shared.")
        assert (again["skippedDuplicates"], again["updated"], again["removed"]) == (3, 0, 0)
        # So is the text of only one of them, whichever was pushed last.
        for source in "bca":
            assert (await put(**{source: "Shared."}))["skippedDuplicates"] == 1
        # A new source of an existing item is stored too.
        more = await put(a="Shared.", d="Shared.")
        assert (more["updated"], more["removed"]) == (1, 0)
        for gone, left in (("a", "bcd"), ("c", "bd"), ("d", "b")):
            assert (await put(**{gone: f"Else {gone}."}))["removed"] == 1
            kept = await ask("get", memory_id=shared)
            assert sorted([kept["source_uri"], *kept["other_sources"]]) == [f"file:///{each}.md" for each in left]
        assert (await put(b="Else b."))["removed"] == 1
        assert (await ask.failure("get", memory_id=shared)).code == "not_found"


async def test_other_sources_stay_with_an_item_until_it_is_forgotten_and_come_back_with_an_import(
    tmp_path: Path, database: Database
) -> None:
    async with asking(tmp_path, collection("notes"), database=database) as ask:
        for source in ("a", "b"):
            (shared,) = (await ask("push", text="Shared.", source_uri=f"x:{source}"))["memory_ids"]
        assert (await ask("update", memory_id=shared, text="Said better.", tags=["t"]))["other_sources"] == ["x:a"]
        assert (await ask("update", memory_id=shared, source_uri="x:a"))["other_sources"] == []
        await ask("push", text="Said better.", source_uri="x:c")
        exported = (await ask("memory_export", OWNER_CALLER))["items"]
        assert [(item["source_uri"], item["other_sources"]) for item in exported] == [("x:c", ["x:a"])]
        await ask("forget", memory_id=shared)
        async with database.read() as connection:
            assert (await connection.execute(select(func.count()).select_from(item_sources))).scalar() == 0
        assert (await ask("memory_import", OWNER_CALLER, items=exported))["stored"] == 1
        assert (await ask("memory_export", OWNER_CALLER))["items"] == exported
        assert (await ask("push", text="", source_uri="x:c", replace=True))["removed"] == 1
        assert (await ask("get", memory_id=shared))["source_uri"] == "x:a"


async def test_another_users_source_keeps_nobodys_text(ask: Asked) -> None:
    for caller in (ADA, BOB):
        await ask("push", caller, text="Shared.", source_uri="file:///a.md")
    await ask("push", BOB, text="", source_uri="file:///a.md", replace=True)
    assert await ask.texts(BOB, query_text="shared") == []
    assert await ask.texts(query_text="shared") == ["Shared."]
    await ask("push", text="", source_uri="file:///a.md", replace=True)
    assert await ask.texts(query_text="shared") == []
