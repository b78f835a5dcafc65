"""`get`, `update` and `forget`: one item by its id, of the caller only."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from runtime.database.connection import Database
from runtime.database.schema import items
from runtime.memory.store import LARGEST_TEXT
from tests.cases import each_case
from tests.clocks import ManualClock
from tests.runtime.tools.asking import ADA, BOB, OWNER_CALLER, Asked, asking, collection

NOWHERE = "019c5bb3-4040-7000-8000-000000000000"


@pytest.fixture
async def ask(tmp_path: Path) -> AsyncIterator[Asked]:
    async with asking(tmp_path, collection("notes"), collection("archive")) as opened:
        yield opened


async def pushed(ask: Asked, text: str = "The walnut plan", **given: Any) -> str:
    (memory_id,) = (await ask("push", ADA, text=text, **given))["memory_ids"]
    assert isinstance(memory_id, str)
    return memory_id


@pytest.fixture
async def plan(ask: Asked) -> str:
    """The id of an item of Ada."""
    return await pushed(ask, tags=["x"], source_uri="file:///a")


async def test_an_update_changes_what_is_given_and_keeps_the_rest(tmp_path: Path, database: Database) -> None:
    async with asking(tmp_path, collection("notes"), database=database) as ask:
        memory_id = await pushed(ask, tags=["a"], source_uri="file:///a", memory_type="episodic")
        before = await ask("get", memory_id=memory_id)
        assert isinstance(ask.app.clock, ManualClock)
        ask.app.clock.advance(3600)
        after = await ask("update", memory_id=memory_id, text="The almond plan", tags="b")
        kept = {name: value for name, value in before.items() if name not in {"text", "tags", "chunk_hash"}}
        assert kept == {name: after[name] for name in kept}
        assert (after["text"], after["tags"]) == ("The almond plan", ["b"])
        assert after["chunk_hash"] != before["chunk_hash"]
        assert await ask("get", memory_id=memory_id) == after
        assert await ask.texts(query_text="almond") == ["The almond plan"]
        assert await ask.texts(query_text="plan", tags="a") == []


@each_case(
    ("given", "name", "value"),
    [
        ({"project_id": "p"}, "project_id", "p"),
        ({"memory_type": "procedural"}, "memory_type", "procedural"),
        ({"source_uri": "file:///b"}, "source_uri", "file:///b"),
        ({"tags": []}, "tags", []),
        ({"tags": ["b", "a", "b"]}, "tags", ["a", "b"]),
    ],
)
async def test_each_particular_can_be_changed_alone(
    ask: Asked, plan: str, given: dict[str, Any], name: str, value: Any
) -> None:
    before = await ask("get", memory_id=plan)
    after = await ask("update", memory_id=plan, **given)
    assert after == {**before, name: value}


async def test_updates_at_the_same_time_are_all_kept(ask: Asked) -> None:
    memory_id = await pushed(ask)
    changes: list[dict[str, Any]] = [{"tags": "new"}, {"text": "The oak plan"}, {"project_id": "p"}]
    await asyncio.gather(*(ask("update", memory_id=memory_id, **change) for change in changes))
    after = await ask("get", memory_id=memory_id)
    assert (after["tags"], after["text"], after["project_id"]) == (["new"], "The oak plan", "p")


async def test_an_item_of_a_long_text_keeps_where_it_comes_from(ask: Asked) -> None:
    ids = (await ask("push", text="One sentence of the text. " * 9, source_uri="file:///long"))["memory_ids"]
    after = await ask("update", memory_id=ids[0], text="Said otherwise.")
    assert after["provenance"]["session_id"] == "file:///long"


async def test_secrets_are_taken_out_of_a_new_text(ask: Asked) -> None:
    token = "ghp_" + "a1B2" * 9
    after = await ask("update", memory_id=await pushed(ask), text=f"The token is {token}")
    assert token not in str(after)


@each_case(
    ("given", "field", "message"),
    [
        ({}, None, "nothing to change"),
        ({"text": ""}, "text", "blank"),
        ({"text": " \n"}, "text", "blank"),
        ({"text": "x" * (LARGEST_TEXT + 1)}, "text", "the maximum is 1,048,576"),
        ({"text": 5}, "text", "string"),
        ({"memory_type": "fact"}, "memory_type", "'episodic'"),
        ({"tags": [1]}, "tags.0", "string"),
        ({"project_id": ""}, "project_id", "it is empty"),
        ({"source_uri": "symbiont:delivery/1"}, "source_uri", "reserved for the daemon"),
        ({"source_uri": "\nsymbiont:summary/1"}, "source_uri", "reserved for the daemon"),
        ({"timestamp": "2026-01-01T00:00:00Z"}, "timestamp", "no such parameter"),
    ],
)
async def test_a_wrong_update_changes_nothing(
    ask: Asked, plan: str, given: dict[str, Any], field: str | None, message: str
) -> None:
    before = await ask("get", memory_id=plan)
    failure = await ask.failure("update", memory_id=plan, **given)
    assert (failure.code, failure.field) == ("invalid_params", field)
    assert message in failure.message
    assert await ask("get", memory_id=plan) == before


async def test_what_is_forgotten_is_not_there_and_not_found(ask: Asked) -> None:
    memory_id = await pushed(ask)
    assert await ask.texts(query_text="walnut") == ["The walnut plan"]
    assert await ask("forget", memory_id=memory_id) == {"memory_id": memory_id, "collection": "archive"}
    assert await ask.texts(query_text="walnut") == []
    for tool in ("get", "forget"):
        failure = await ask.failure(tool, memory_id=memory_id)
        assert (failure.code, "no collection has an item" in failure.message) == ("not_found", True)
    assert (await ask("push", text="The walnut plan"))["inserted"] == 1


@pytest.fixture
async def broken(ask: Asked) -> None:
    """An item of Bob that cannot be opened: it is sealed under its id."""
    await ask("push", BOB, text="Bob's own")
    renamed = update(items).where(items.c.user_id == "bob").values(id=NOWHERE)
    await ask.app.database.transact(lambda connection: connection.execute(renamed))


@pytest.mark.usefixtures("broken")
@each_case(
    ("tool", "given"),
    [
        ("get", {}),
        ("memory_show", {}),
        ("memory_list", {"agent": None}),
        ("memory_list", {"agent": "archive"}),
        ("memory_stats", {"agent": "archive"}),
    ],
)
async def test_nothing_of_another_user_is_read_to_show_what_is_ones_own(
    ask: Asked, plan: str, tool: str, given: dict[str, Any]
) -> None:
    if tool in {"get", "memory_show"}:
        given = {"memory_id": plan}
    answered = await ask(tool, ADA, **given)
    assert "Bob" not in str(answered)
    assert "cannot be read" not in str(answered)


async def test_an_admin_may_change_what_is_anothers_and_it_stays_theirs(ask: Asked) -> None:
    memory_id = await pushed(ask)
    after = await ask("update", OWNER_CALLER, memory_id=memory_id, tags="seen")
    assert (after["user_id"], after["tags"]) == ("ada", ["seen"])


async def test_an_item_is_found_in_whichever_collection_it_is(ask: Asked) -> None:
    memory_id = await pushed(ask, collection="notes")
    assert (await ask("get", memory_id=memory_id))["collection"] == "notes"
    await ask("new-collection", name="third")
    other = await pushed(ask, text="In the third", collection="third")
    assert (await ask("update", memory_id=other, tags="x"))["collection"] == "third"
    assert (await ask("forget", memory_id=other))["collection"] == "third"


@each_case("tool", ["get", "update", "forget"])
@each_case("memory_id", ["", "x", NOWHERE.upper(), f"{NOWHERE} ", 5, None])
async def test_what_is_no_id_is_refused_with_one_that_is(ask: Asked, tool: str, memory_id: Any) -> None:
    failure = await ask.failure(tool, memory_id=memory_id)
    assert (failure.code, failure.field) == ("invalid_params", "memory_id")
    assert failure.example is not None


async def test_an_update_to_what_another_item_says_already_is_refused_and_names_it(ask: Asked) -> None:
    first, second = await pushed(ask, "One"), await pushed(ask, "Two")
    failure = await ask.failure("update", memory_id=second, text=" One ")
    assert failure.code == "invalid_params"
    assert first in failure.message
    assert (await ask("get", memory_id=second))["text"] == "Two"
    # In another project it is a different item, until it is moved.
    assert (await ask("update", memory_id=second, text="One", project_id="p"))["text"] == "One"
    assert first in (await ask.failure("update", memory_id=second, project="default")).message
    assert (await ask("update", memory_id=second, text="One  ", tags=["same"]))["tags"] == ["same"]


async def test_another_users_item_of_the_same_text_is_in_nobodys_way(ask: Asked) -> None:
    await pushed(ask, "One")
    (mine,) = (await ask("push", BOB, text="Two"))["memory_ids"]
    assert (await ask("update", BOB, memory_id=mine, text="One"))["text"] == "One"
