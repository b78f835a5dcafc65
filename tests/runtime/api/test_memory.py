"""`/v1/memory`: users see only their own items, and each wrong request gets the error for its mistake."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from uuid import uuid4

import pytest

from dslc.blocks.memory import Memory
from dslc.blocks.variant import Variant
from runtime.api.rest.handler import ApiResponse
from runtime.database.connection import Database
from tests.clocks import ManualClock
from tests.conftest import KEY
from tests.databases import with_keys
from tests.runtime.api.app import App, told

SECRETIVE = "Ada's launch is codenamed Bluebird"


@pytest.fixture
async def app(tmp_path: Path, clock: ManualClock) -> AsyncIterator[App]:
    database = await Database.open(with_keys(tmp_path / "symbiont.db", KEY), KEY)
    async with App(database, clock).remembering(tmp_path) as opened:
        yield opened
    await database.close()


async def get(app: App, token: str, path: str, **query: Any) -> Any:
    """Return the JSON of the response, which must be 200."""
    reply = await app.ask(token, "GET", f"/v1/memory{path}", query=urlencode(query, doseq=True))
    assert reply.status == 200, reply
    return told(reply)


async def remember(app: App, token: str, text: str, agent: str = "reviewer", **body: Any) -> Any:
    reply = await app.ask(token, "POST", "/v1/memory/items", {"agent": agent, "text": text, **body})
    assert reply.status == 200, reply
    return told(reply)


def refused(reply: ApiResponse, status: int, *said: str) -> Any:
    assert reply.status == status, reply
    problem = told(reply)
    for text in said:
        assert text in json.dumps(problem), problem
    return problem


async def test_what_is_written_is_searched_listed_shown_and_counted(app: App) -> None:
    token = await app.token("ada", "write")
    written = await remember(app, token, "The API takes 100 requests a minute", tags=["api"], author="grace")
    item = written["item"]
    assert (written["outcome"], written["memory"]) == ("stored", "notes")
    assert (item["user_id"], item["agent_id"], item["memory_type"]) == (await app.user("ada"), "reviewer", "semantic")
    found = await get(app, token, "/search", agent="reviewer", query="how many requests a minute")
    assert found["hits"][0]["item"] == item
    assert found["hits"][0]["file"] == "reviewer/memory.md"
    assert found["hits"][0]["line"] == 5
    assert abs(sum(found["hits"][0]["parts"].values()) - found["hits"][0]["score"]) < 1e-6
    listed = {**item, "valid_until": None, "replaced_by": None, "retracted": False}
    assert (await get(app, token, "/items"))["items"] == [listed]
    assert (await get(app, token, "/items", agent="reviewer"))["items"] == [listed]
    assert (await get(app, token, f"/items/{item['memory_id']}"))["item"] == listed
    (row,) = (await get(app, token, "", agent="reviewer"))["agents"]
    assert (row["items"], row["files"]) == (1, None)


async def test_a_query_may_use_the_other_name_of_a_parameter(app: App) -> None:
    token = await app.token("ada", "write")
    await remember(app, token, "The walnut is in the garden")
    path = "/search"
    full = await get(app, token, path, agent="reviewer", query="walnut garden", score_threshold="0.2")
    assert full["hits"]
    assert (await get(app, token, path, agent="reviewer", query="walnut garden", scoreThreshold="0.2"))["hits"] == full[
        "hits"
    ]
    both = urlencode({"agent": "reviewer", "query": "walnut", "scoreThreshold": "0.2", "score_threshold": "0.3"})
    refused(await app.ask(token, "GET", f"/v1/memory{path}", query=both), 422, "another name for")


async def test_the_same_fact_is_there_already_the_second_time(app: App) -> None:
    token = await app.token("ada", "write")
    await remember(app, token, "Deploys are on Tuesdays")
    assert (await remember(app, token, "Deploys  are on\nTuesdays"))["outcome"] == "there"


async def test_one_item_is_edited_and_then_forgotten(app: App) -> None:
    token = await app.token("ada", "write")
    kept = (await remember(app, token, "The walnut plan"))["item"]
    await remember(app, token, "The oak plan")
    edited = told(await app.ask(token, "PATCH", f"/v1/memory/items/{kept['memory_id']}", {"text": "The hazel plan"}))
    assert (edited["previous_id"], edited["item"]["text"]) == (kept["memory_id"], "The hazel plan")
    path = f"/v1/memory/items/{edited['item']['memory_id']}"
    assert told(await app.ask(token, "DELETE", path))["memory_id"] == edited["item"]["memory_id"]
    assert [item["text"] for item in (await get(app, token, "/items"))["items"]] == ["The oak plan"]
    for method, body in (("DELETE", None), ("PATCH", {"text": "x"})):
        refused(await app.ask(token, method, path, body), 404)


async def test_an_admin_sees_and_writes_everybodys(app: App) -> None:
    ada, admin = await app.token("ada", "write"), await app.token("root", "admin")
    await remember(app, ada, SECRETIVE)
    await remember(app, admin, "Written for Ada", user="ada")
    await remember(app, admin, "Written by root")
    assert len((await get(app, admin, "/items"))["items"]) == 3
    assert len((await get(app, admin, "/items", user="ada"))["items"]) == 2
    found = (await get(app, admin, "/search", agent="reviewer", query="written", user="root"))["hits"]
    assert [hit["item"]["text"] for hit in found] == ["Written by root"]
    assert Path(found[0]["file"]).is_absolute()
    stats = await get(app, admin, "")
    assert [(row["agent"], row["items"], row["files"]) for row in stats["agents"]] == [("reviewer", 3, 1)]
    assert stats["memories"][0]["embedding"] == "hashing"


async def test_an_unknown_agent_or_memory_is_answered_with_the_nearest_name(app: App) -> None:
    token = await app.token("ada", "write")
    asked: tuple[tuple[str, str, str, Any], ...] = (
        ("GET", "search", "agent=revewer&query=x", None),
        ("GET", "items", "agent=revewer", None),
        ("POST", "items", "", {"agent": "revewer", "text": "x"}),
    )
    for method, path, query, body in asked:
        reply = await app.ask(token, method, f"/v1/memory/{path}", body, query=query)
        refused(reply, 404, "no agent is called 'revewer'", "did you mean reviewer?")
    reply = await app.ask(token, "GET", "/v1/memory/items", query="agent=reviewer&memory=note")
    refused(reply, 404, "no memory is called 'note'", "did you mean notes?")


async def test_an_agent_that_only_others_items_know_of_is_not_there(app: App) -> None:
    admin, bob = await app.token("root", "admin"), await app.token("bob", "write")
    item = {"agent_id": "hidden-agent", "user_id": "ada", "memory_type": "semantic", "text": SECRETIVE}
    imported = await app.ask(
        admin, "POST", "/v1/memory/import", {"items": [{**item, "timestamp": "2026-01-01T00:00:00Z"}]}
    )
    assert told(imported)["stored"] == 1
    for name in ("hidden-agent", "hidden-agen"):
        reply = await app.ask(bob, "GET", "/v1/memory/items", query=f"agent={name}")
        assert "hidden-agent?" not in reply.body.decode()
        refused(reply, 404)
    assert (await get(app, admin, "/items", agent="hidden-agent"))["items"][0]["text"] == SECRETIVE


A_WRONG_PARAMETER_IS_CASES = [
    ("/search", "agent=reviewer", "query"),
    ("/search", "agent=reviewer&query=", "nothing to search for"),
    ("/search", "agent=reviewer&query=+", "nothing to search for"),
    ("/search", "agent=reviewer&query=x&limit=0", "limit"),
    ("/search", "agent=reviewer&query=x&limit=101", "limit"),
    ("/search", "agent=reviewer&query=x&limit=ten", "limit"),
    ("/search", "agent=reviewer&query=x&type=facts", "type"),
    ("/search", "agent=reviewer&query=x&since=soon", "is not a time"),
    ("/search", "agent=reviewer&query=x&until=2026-13-01", "is not a time"),
    ("/search", "agent=reviewer&query=x&since=999999999y", "is not a time"),
    ("/search", "agent=reviewer&query=" + "x" * 2001, "query"),
    ("/items", "cursor=nonsense", "cursor"),
    ("/items", "cursor=WzEsIjVmM2MxZjBlLTdjN2ItNWE1NS05YTNlLTBkNmE1ZjBmN2ExMSJd", "cursor"),  # without a memory
    ("/items", "limit=501", "limit"),
    ("/export", "cursor=WzFd", "cursor"),
    ("/export", "limit=1001", "limit"),
]


async def test_a_wrong_parameter_is_named(app: App) -> None:
    token = await app.token()
    for path, query, said in A_WRONG_PARAMETER_IS_CASES:
        refused(await app.ask(token, "GET", f"/v1/memory{path}", query=query), 422, said)


async def test_a_time_that_no_cursor_has_is_refused(app: App) -> None:
    from runtime.tools.cursor import write_cursor

    cursor = write_cursor(2**62, str(uuid4()), "notes")
    refused(await app.ask(await app.token(), "GET", "/v1/memory/items", query=f"cursor={cursor}"), 422, "cursor")


async def test_what_cannot_be_an_agent_is_refused(app: App) -> None:
    admin = await app.token("root", "admin")
    for name in ("..", ".%2e", "a%2Fb", "a+b", "x" * 65, "%c3%a4"):
        for method, path in (("DELETE", "/v1/memory"), ("GET", "/v1/memory/inspect")):
            reply = await app.ask(admin, method, path, query=f"agent={name}")
            assert reply.status in {404, 422}, reply


async def test_an_item_of_ten_megabytes_is_refused_with_what_is_allowed(app: App) -> None:
    token = await app.token()
    reply = await app.ask(token, "POST", "/v1/memory/items", {"agent": "reviewer", "text": "x" * 10_000_000})
    refused(reply, 422, "10000000 characters is too large", "at most 1048576")
    reply = await app.ask(token, "POST", "/v1/memory/items", {"agent": "reviewer", "text": "x" * 20_000_000})
    refused(reply, 413)
    assert (await get(app, token, "/items"))["items"] == []
    large = await remember(app, token, "ä " * 500_000)
    assert large["outcome"] == "stored"


async def test_neither_an_empty_text_nor_the_key_of_a_delivery_is_written(app: App) -> None:
    token = await app.token()
    for body, said in (
        ({"text": ""}, "the text is empty"),
        ({"text": " \n"}, "the text is empty"),
        ({"text": "x", "source_uri": "symbiont:delivery/1"}, "source_uri"),
    ):
        refused(await app.ask(token, "POST", "/v1/memory/items", {"agent": "reviewer", **body}), 422, said)


async def test_a_dry_run_shows_what_would_be_stored_without_secrets_and_writes_nothing(app: App) -> None:
    token = await app.token()
    text = "the key is AKIAIOSFODNN7EXAMPLE"
    shown = await remember(app, token, text, dry_run=True)
    assert shown["outcome"] == "dry_run"
    assert "AKIAIOSFODNN7EXAMPLE" not in json.dumps(shown)
    assert "[REDACTED:" in shown["record"]["text"]
    assert (await get(app, token, "/items"))["items"] == []


async def test_pages_of_a_list_hold_everything_once_newest_first(app: App, clock: ManualClock) -> None:
    token = await app.token()
    for number in range(25):
        await remember(app, token, f"note {number}", type="episode" if number % 2 else "fact")
        clock.advance(86_400 * 9)
    texts: list[str] = []
    cursor = None
    while cursor is not None or not texts:
        page = await get(app, token, "/items", limit=4, **({} if cursor is None else {"cursor": cursor}))
        assert len(page["items"]) <= 4
        texts += [item["text"] for item in page["items"]]
        cursor = page["next_cursor"]
    assert texts == [f"note {number}" for number in reversed(range(25))]


async def test_filters_narrow_a_search_and_a_list(app: App, clock: ManualClock) -> None:
    token = await app.token()
    await remember(app, token, "old blue fact", tags=["blue", "old"], project="p1", source_uri="https://a.example")
    clock.advance(86_400 * 30)
    await remember(app, token, "new blue pattern", type="pattern", tags=["blue"])
    await remember(app, token, "new red procedure", type="procedure", tags=["red"])

    async def found(**query: Any) -> set[str]:
        answer = await get(
            app, token, "/search", agent="reviewer", query="old new blue red fact pattern procedure", **query
        )
        return {hit["item"]["text"] for hit in answer["hits"]}

    assert await found(tag=["blue", "red"]) == {"old blue fact", "new blue pattern", "new red procedure"}
    assert await found(all_tags=["blue", "old"]) == {"old blue fact"}
    assert await found(type="pattern") == {"new blue pattern"}
    assert await found(type="procedural") == {"new red procedure"}
    assert await found(since="7d") == {"new blue pattern", "new red procedure"}
    assert await found(until="7d") == {"old blue fact"}
    assert await found(project="p1") == {"old blue fact"}
    assert await found(source="https://a.example") == {"old blue fact"}
    assert await found(limit=1, tag="red") == {"new red procedure"}
    listed = (await get(app, token, "/items", all_tags="blue", since="7d"))["items"]
    assert [item["text"] for item in listed] == ["new blue pattern"]


async def test_a_purge_says_what_goes_and_then_it_is_gone(app: App) -> None:
    admin = await app.token("root", "admin")
    await remember(app, admin, "one")
    await remember(app, admin, "two", type="episode")
    going = told(await app.ask(admin, "DELETE", "/v1/memory", query="agent=reviewer&dry_run=true"))
    assert going["memories"] == [{"memory": "notes", "files": 2, "items": 2}]
    assert len((await get(app, admin, "/items"))["items"]) == 2
    assert told(await app.ask(admin, "DELETE", "/v1/memory", query="agent=reviewer"))["memories"] == going["memories"]
    assert (await get(app, admin, "/items"))["items"] == []
    assert (await get(app, admin, "/search", agent="reviewer", query="one two"))["hits"] == []
    assert told(await app.ask(admin, "DELETE", "/v1/memory", query="agent=reviewer"))["memories"] == []


async def test_an_unreadable_memory_is_told_and_the_others_go_on(app: App, tmp_path: Path) -> None:
    admin = await app.token("root", "admin")
    await remember(app, admin, "fine", agent="planner")
    (tmp_path / "notes" / "reviewer" / "memory.md").mkdir(parents=True)
    assert [item["text"] for item in (await get(app, admin, "/items"))["items"]] == ["fine"]
    verified = await get(app, admin, "/verify")
    assert verified["good"] is False
    assert {row["agent"]: bool(row["problems"]) for row in verified["agents"]} == {"planner": False, "reviewer": True}
    exported = await get(app, admin, "/export")
    assert [item["text"] for item in exported["items"]] == ["fine"]
    assert "memory.md" in exported["problems"][0]["message"]
    reply = await app.ask(admin, "GET", "/v1/memory/items", query="agent=reviewer")
    # File names are for administrators only, and are in the log.
    assert str(tmp_path) not in refused(reply, 500)["detail"]


async def test_a_memory_that_cannot_be_read_does_not_keep_a_user_from_the_others(app: App, tmp_path: Path) -> None:
    token = await app.token("ada", "write")
    await remember(app, token, "fine", agent="planner")
    for name in ("reviewer", "somebody-else"):
        (tmp_path / "notes" / name / "memory.md").mkdir(parents=True)
    rows = (await get(app, token, ""))["agents"]
    assert [(row["agent"], row["items"], len(row["problems"])) for row in rows] == [
        ("planner", 1, 0),
        ("reviewer", None, 1),
    ]
    assert str(tmp_path) not in json.dumps(rows)
    exported = await get(app, token, "/export")
    assert [item["text"] for item in exported["items"]] == ["fine"]
    assert [problem["file"] for problem in exported["problems"]] == ["reviewer/memory.md"]
    assert str(tmp_path) not in json.dumps(exported)


async def test_a_line_that_cannot_be_imported_tells_a_user_no_path(app: App, tmp_path: Path) -> None:
    (tmp_path / "notes" / "reviewer" / "memory.md").mkdir(parents=True)
    item = {"agent_id": "reviewer", "memory_type": "semantic", "timestamp": "2026-01-01T00:00:00Z", "text": "fine"}
    for token, whole in ((await app.token("ada", "write"), False), (await app.token("root", "admin"), True)):
        (line,) = told(await app.ask(token, "POST", "/v1/memory/import", {"items": [item]}))["lines"]
        assert line["outcome"] == "refused"
        assert ("memory.md" in line["reason"]) == whole
        assert whole or str(tmp_path) not in line["reason"]


async def test_the_cursor_of_an_export_neither_counts_nor_names_what_is_anothers(app: App) -> None:
    ada, bob = await app.token("ada", "write"), await app.token("bob", "write")
    for number in range(3):
        other = await remember(app, ada, f"Ada's thought {number}", type="episode")
    for number in range(2):
        await remember(app, bob, f"Bob's thought {number}", type="episode")
    answer = await get(app, bob, "/export", limit=1)
    assert [item["text"] for item in answer["items"]] == ["Bob's thought 0"]
    *_, seen, last = json.loads(base64.urlsafe_b64decode(answer["next_cursor"] + "=="))
    assert (seen, last) == (1, answer["items"][0]["memory_id"]) != (1, other["item"]["memory_id"])
    rest = await get(app, bob, "/export", cursor=answer["next_cursor"])
    assert [item["text"] for item in rest["items"]] == ["Bob's thought 1"]


async def test_no_score_or_note_of_a_search_tells_what_others_have(app: App) -> None:
    ada, bob = await app.token("ada", "write"), await app.token("bob", "write")
    for text in ("apples are red", "zebras are striped"):
        await remember(app, bob, text, type="episode")

    async def found() -> Any:
        answer = await get(app, bob, "/search", agent="reviewer", query="apples zebras")
        return {hit["item"]["text"]: hit["parts"]["keyword"] for hit in answer["hits"]}, answer["notes"]

    before = await found()
    for number in range(5):
        await remember(app, ada, f"zebras in zoo number {number}", type="episode")
    assert await found() == before


async def test_a_search_says_what_it_could_not_read_and_a_user_is_not_told_where(app: App, tmp_path: Path) -> None:
    token, admin = await app.token("ada", "write"), await app.token("root", "admin")
    await remember(app, token, "ping in a log", type="episode")
    (tmp_path / "notes" / "reviewer" / "memory.md").mkdir()
    for asked, whole in ((token, False), (admin, True)):
        answer = await get(app, asked, "/search", agent="reviewer", query="ping")
        assert [hit["item"]["text"] for hit in answer["hits"]] == ["ping in a log"]
        (note,) = [note for note in answer["notes"] if "memory.md" in note]
        assert (str(tmp_path) in note) == whole


async def test_records_are_neither_compacted_nor_purged(app: App, tmp_path: Path) -> None:
    block = Memory(name="audit", path="audit", store=Variant(name="records"), embedding=Variant(name="hashing"))
    admin = await app.token("root", "admin")
    async with app.remembering(tmp_path, block):
        await remember(app, admin, "kept for good", memory="audit")
        for method, path in (("DELETE", "/v1/memory"), ("POST", "/v1/memory/compact")):
            body = {"agent": "reviewer", "memory": "audit"} if method == "POST" else None
            query = "agent=reviewer&memory=audit" if body is None else ""
            refused(await app.ask(admin, method, path, body, query=query), 409)
        assert len((await get(app, admin, "/items", memory="audit"))["items"]) == 1


async def test_no_gate_tells_a_user_which_files_the_machine_has(app: App, tmp_path: Path) -> None:
    gated = Variant(name="records", options={"gates": ("evidence",)})
    block = Memory(name="audit", path="audit", store=gated, embedding=Variant(name="hashing"))
    (tmp_path / "there").touch()
    user, admin = await app.token("ada", "write"), await app.token("root", "admin")
    async with app.remembering(tmp_path, block):
        answers = []
        for name in ("there", "not-there"):
            body = {"agent": "reviewer", "text": "done", "memory": "audit", "sources": [str(tmp_path / name)]}
            reply = await app.ask(user, "POST", "/v1/memory/items", body)
            answers.append(json.dumps(refused(reply, 422, "this requires the scope admin")).replace(name, ""))
        assert answers[0] == answers[1]
        await remember(app, admin, "done", memory="audit", sources=[str(tmp_path / "there")])


async def test_one_search_finds_what_an_agent_has_in_several_memories(app: App, tmp_path: Path) -> None:
    token = await app.token()
    await remember(app, token, "the blue one")
    block = Memory(name="other", path="other", embedding=Variant(name="hashing"))
    async with app.remembering(tmp_path, block):
        await remember(app, token, "the blue two", memory="other")
        found = (await get(app, token, "/search", agent="reviewer", query="blue"))["hits"]
        assert {(hit["item"]["memory"], hit["item"]["text"]) for hit in found} == {
            ("notes", "the blue one"),
            ("other", "the blue two"),
        }
        only = (await get(app, token, "/search", agent="reviewer", query="blue", memory="other"))["hits"]
        assert [hit["item"]["memory"] for hit in only] == ["other"]
