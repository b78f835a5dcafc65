"""Single items of every memory: changed and deleted by their owner only."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from dslc.blocks.memory import Memory
from dslc.blocks.variant import Variant
from tests.cases import each_case
from tests.runtime.tools.asking import BOB, OWNER_CALLER, Asked, asking, collection

HASHING = Variant(name="hashing")
NOTES = Memory(name="notes", path="notes", embedding=HASHING)
MORE = Memory(name="more", path="more", embedding=HASHING)
AUDIT = Memory(name="audit", path="audit", store=Variant(name="records"), embedding=HASHING)
NOWHERE = "5f3c1f0e-7c7b-5a55-9a3e-0d6a5f0f7a11"
CHANGEABLE = pytest.mark.parametrize("memory", ["notes", "archive"])


@pytest.fixture
async def ask(tmp_path: Path) -> AsyncIterator[Asked]:
    async with asking(tmp_path, NOTES, MORE, AUDIT, collection("archive")) as asked:
        yield asked


async def wrote(ask: Asked, memory: str, text: str = "The walnut plan", **more: Any) -> str:
    answer = await ask("memory_write", agent="reviewer", text=text, memory=memory, **more)
    memory_id = answer["item"]["memory_id"]
    assert isinstance(memory_id, str)
    return memory_id


async def listed(ask: Asked, **given: Any) -> list[str]:
    return sorted(item["text"] for item in (await ask("memory_list", **given))["items"])


async def remember_in(ask: Asked, memory: str, text: str, **more: Any) -> str:
    """Like `wrote`, for a memory in which the agent may have no items yet."""
    if memory == "notes":
        return await wrote(ask, memory, text, **more)
    item = {"agent_id": "reviewer", "memory_type": "semantic", "timestamp": "2026-11-20T08:30:00Z", "text": text}
    line = (await ask("memory_import", items=[item | more], memory=memory))["lines"][0]
    assert line["outcome"] == "stored", line
    return str(line["memory_id"])


@pytest.mark.parametrize(
    ("memory", "more"),
    [("notes", {"type": "fact"}), ("notes", {"type": "episode"}), ("archive", {"memory_type": "episodic"})],
)
async def test_an_edited_item_says_something_else_and_nothing_else_about_it_changes(
    ask: Asked, memory: str, more: dict[str, Any]
) -> None:
    old = await remember_in(ask, memory, "The walnut plan", tags=["plan"], **more)
    before = (await ask("memory_show", memory_id=old))["item"]
    answer = await ask("memory_edit", memory_id=old, text="The hazel plan")
    assert answer["previous_id"] == old
    assert (answer["item"]["memory_id"] == old) == (memory == "archive")
    changed = {"text", "chunk_hash", "memory_id"}
    assert {name: answer["item"][name] for name in before.keys() - changed} == {
        name: before[name] for name in before.keys() - changed
    }
    assert (await ask("memory_show", memory_id=answer["item"]["memory_id"]))["item"] == answer["item"]
    assert await listed(ask) == ["The hazel plan"]
    found = await ask("memory_search", agent="reviewer", query="walnut hazel")
    assert [hit["item"]["text"] for hit in found["hits"]] == ["The hazel plan"]


@each_case("memory", ["notes", "archive"])
async def test_a_secret_in_the_new_text_is_taken_out(ask: Asked, memory: str) -> None:
    old = await remember_in(ask, memory, "The walnut plan")
    answer = await ask("memory_edit", memory_id=old, text="The key is AKIAIOSFODNN7EXAMPLE")
    assert "AKIA" not in str(answer)


@CHANGEABLE
async def test_a_forgotten_item_is_neither_listed_found_nor_shown(ask: Asked, memory: str) -> None:
    gone = await remember_in(ask, memory, "The walnut plan")
    await remember_in(ask, memory, "The hazel plan")
    assert await ask("memory_forget", memory_id=gone) == {"memory_id": gone, "agent": "reviewer", "memory": memory}
    assert await listed(ask) == ["The hazel plan"]
    assert "walnut" not in str(await ask("memory_search", agent="reviewer", query="walnut"))
    for tool, more in (("memory_show", {}), ("memory_forget", {}), ("memory_edit", {"text": "x"})):
        assert "there is no item with the id" in (await ask.failure(tool, memory_id=gone, **more)).message


@pytest.mark.parametrize("memory", ["notes", "archive", "audit"])
async def test_an_item_of_another_user_looks_as_if_it_were_not_there(ask: Asked, memory: str) -> None:
    theirs = await remember_in(ask, memory, "The walnut plan")
    calls: list[tuple[str, dict[str, Any]]] = [
        ("memory_show", {}),
        ("memory_edit", {"text": "x"}),
        ("memory_forget", {}),
    ]
    for tool, more in calls:
        foreign = await ask.failure(tool, BOB, memory_id=theirs, **more)
        none = await ask.failure(tool, BOB, memory_id=NOWHERE, **more)
        assert foreign.message.replace(theirs, NOWHERE) == none.message
        assert (foreign.code, foreign.field, foreign.hint) == (none.code, none.field, none.hint)
    assert "that begins with" in (await ask.failure("memory_show", BOB, memory_id=theirs[:8])).message
    assert await listed(ask) == ["The walnut plan"]


@each_case("memory", ["notes", "archive"])
async def test_an_administrator_changes_and_forgets_what_is_anybodys(ask: Asked, memory: str) -> None:
    theirs = await remember_in(ask, memory, "The walnut plan")
    answer = await ask("memory_edit", OWNER_CALLER, memory_id=theirs, text="The hazel plan")
    assert answer["item"]["user_id"] == "ada"
    await ask("memory_forget", OWNER_CALLER, memory_id=answer["item"]["memory_id"])
    assert await listed(ask) == []


@pytest.mark.parametrize(("tool", "more"), [("memory_edit", {"text": "x"}), ("memory_forget", {})])
async def test_a_record_is_neither_changed_nor_forgotten(ask: Asked, tool: str, more: dict[str, Any]) -> None:
    record = await remember_in(ask, "audit", "The walnut plan")
    failure = await ask.failure(tool, memory_id=record, **more)
    assert failure.code == "conflict"
    assert failure.message == "the memory audit is append-only: its items cannot be changed or deleted"
    able = (failure.hint or "").removeprefix("those of ").removesuffix(" can").split(" and ")
    assert {"notes", "more"} <= set(able)
    assert "audit" not in able
    reply = await ask.app.ask(
        await ask.app.token("root", "admin"),
        "DELETE" if tool == "memory_forget" else "PATCH",
        f"/v1/memory/items/{record}",
        more or None,
    )
    assert reply.status == 409
    assert "those of notes" in reply.body.decode()
    assert await listed(ask) == ["The walnut plan"]


async def test_what_several_memories_have_is_changed_where_it_is_said(ask: Asked) -> None:
    # An id depends on the text and the agent, which are the same in both.
    one, two = await wrote(ask, "notes"), await remember_in(ask, "more", "The walnut plan")
    assert one == two
    message = (await ask.failure("memory_forget", memory_id=one)).message
    assert "notes" in message
    assert "more" in message
    assert (await ask("memory_forget", memory_id=one, memory="more"))["memory"] == "more"
    assert [item["memory"] for item in (await ask("memory_list"))["items"]] == ["notes"]


async def test_the_beginning_of_an_id_is_enough_where_it_is_the_only_one(ask: Asked) -> None:
    ids = [await wrote(ask, "notes", f"fact {number}") for number in range(3)]
    assert (await ask("memory_show", memory_id=ids[0][:12]))["item"]["memory_id"] == ids[0]
    # Four characters are the minimum.
    assert "memory_id" in str((await ask.failure("memory_show", memory_id=ids[0][:3])).field)


async def test_a_beginning_that_several_ids_have_is_refused(ask: Asked) -> None:
    items = [
        {"memory_id": f"5f3c1f0e-7c7b-4a55-9a3e-0d6a5f0f7a1{number}", "agent_id": "reviewer", "text": f"fact {number}"}
        for number in range(2)
    ]
    about = {"memory_type": "semantic", "timestamp": "2026-11-20T08:30:00Z"}
    await ask(
        "memory_import", OWNER_CALLER, items=[item | about | {"user_id": "ada"} for item in items], memory="archive"
    )
    assert "several ids begin with 5f3c" in (await ask.failure("memory_show", memory_id="5f3c")).message
    assert (await ask("memory_show", memory_id=items[1]["memory_id"]))["item"]["text"] == "fact 1"


async def test_an_edit_that_says_what_another_item_of_a_collection_says_is_refused(ask: Asked) -> None:
    one = await remember_in(ask, "archive", "The walnut plan", project_id="p")
    await remember_in(ask, "archive", "The hazel plan", project_id="p")
    assert "already has this text" in (await ask.failure("memory_edit", memory_id=one, text="The hazel  plan")).message


async def test_a_blank_text_is_refused(ask: Asked) -> None:
    own = await wrote(ask, "notes")
    assert (await ask.failure("memory_edit", memory_id=own, text=" \n")).code == "invalid_params"
    assert await listed(ask) == ["The walnut plan"]


async def test_pages_of_a_list_have_each_item_of_memories_that_have_the_same_ones(ask: Asked) -> None:
    for text in ("The walnut plan", "The hazel plan", "The oak plan"):
        await wrote(ask, "notes", text)
        # An id depends on the text and the agent.
        await remember_in(ask, "more", text, timestamp="2026-02-14T10:30:00Z")
    await ask("memory_move", OWNER_CALLER, source="notes", target="archive")
    whole = [(item["text"], item["memory"]) for item in (await ask("memory_list"))["items"]]
    assert len(set(whole)) == len(whole) == 9
    for limit in (1, 2, 3, 4):
        found: list[tuple[str, str]] = []
        page: dict[str, Any] = {"next_cursor": None}
        while not found or page["next_cursor"] is not None:
            page = await ask("memory_list", limit=limit, cursor=page["next_cursor"])
            found += [(item["text"], item["memory"]) for item in page["items"]]
        assert found == whole, limit


async def test_a_list_takes_any_of_some_tags_and_all_of_others(ask: Asked) -> None:
    for tags in (["a"], ["b"], ["a", "b"], ["c"]):
        await wrote(ask, "notes", f"tagged {' '.join(tags)}", tags=tags)
    assert await listed(ask, tag=["a", "b"]) == ["tagged a", "tagged a b", "tagged b"]
    assert await listed(ask, all_tags=["a", "b"]) == ["tagged a b"]
    assert await listed(ask, tag=["a"], all_tags=["b"]) == ["tagged a b"]


async def test_over_http_an_item_is_changed_and_forgotten_under_its_own_path(ask: Asked) -> None:
    token = await ask.app.token("ada", "write")
    body = {"agent_id": "reviewer", "memory_type": "episodic", "timestamp": "2026-11-20T08:30:00Z", "text": "walnut"}
    reply = await ask.app.ask(token, "POST", "/v1/memory/import", {"items": [body], "memory": "notes"})
    assert reply.status == 200, reply
    (item,) = (await ask("memory_list", OWNER_CALLER))["items"]
    path = f"/v1/memory/items/{item['memory_id']}"
    stranger = await ask.app.token("bob", "write")
    assert (await ask.app.ask(stranger, "PATCH", path, {"text": "hazel"})).status == 404
    assert (await ask.app.ask(stranger, "DELETE", path)).status == 404
    assert (await ask.app.ask(await ask.app.token("ada", "read"), "DELETE", path)).status == 403
    assert (await ask.app.ask(token, "PATCH", path, {"text": "hazel"})).status == 200
    assert (await ask.app.ask(token, "PATCH", path, {"text": "oak"})).status == 404
    (item,) = (await ask("memory_list", OWNER_CALLER))["items"]
    assert item["text"] == "hazel"
    path = f"/v1/memory/items/{item['memory_id']}"
    assert (await ask.app.ask(token, "DELETE", path)).status == 200
    assert (await ask.app.ask(token, "DELETE", path)).status == 404
