"""`/v1/kv`: entries by key, by tags and all of them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from runtime.database.connection import Database
from runtime.tables.kv.entry import LARGEST_VALUE
from runtime.tools.kv.entries import EXPORT_BYTES, PAGE_BYTES
from tests.cases import each_case
from tests.clocks import ManualClock
from tests.conftest import KEY
from tests.databases import with_keys
from tests.runtime.api.app import App, told


class Client:
    """A client with a token."""

    def __init__(self, app: App, token: str) -> None:
        self.app, self.token = app, token

    async def ask(self, method: str, path: str, body: Any = None, **given: Any) -> tuple[int, Any]:
        reply = await self.app.ask(self.token, method, f"/v1/kv{path}", body, **given)
        return reply.status, told(reply)

    async def put(self, key: str, value: Any, **given: Any) -> Any:
        status, answer = await self.ask("PUT", f"/entries/{quote(key, safe='')}", {"value": value, **given})
        assert status == 200, answer
        return answer


@pytest.fixture
async def app(tmp_path: Path, clock: ManualClock) -> AsyncIterator[App]:
    database = await Database.open(with_keys(tmp_path / "symbiont.db", KEY), KEY)
    yield App(database, clock)
    await database.close()


@pytest.fixture
async def client(app: App) -> Client:
    return Client(app, await app.token())


def keys(answer: Any) -> list[str]:
    return [each["key"] for each in answer["entries"]]


async def test_an_entry_is_put_read_and_deleted_by_its_path(client: Client) -> None:
    made = await client.put("a/b", [1.0, None], tags=["t"], expires_at="2h")
    assert datetime.fromisoformat(made["expires_at"]).timestamp() == client.app.clock.now() + 7200
    status, answer = await client.ask("GET", "/entries/a%2Fb")
    assert status == 200
    ((entry,), cursor) = answer["entries"], answer["next_cursor"]
    assert cursor is None
    assert (entry["key"], entry["value"], entry["tags"], entry["version"]) == ("a/b", [1.0, None], ["t"], 1)
    assert await client.ask("DELETE", "/entries/a%2Fb") == (200, {"deleted": 1})
    assert await client.ask("DELETE", "/entries/a%2Fb") == (200, {"deleted": 0})
    status, problem = await client.ask("GET", "/entries/a%2Fb")
    assert (status, problem["detail"]) == (404, "there is no entry 'a/b'")


async def test_a_key_of_any_text_is_one_part_of_a_path(client: Client) -> None:
    for key in ("a/b", "..", ".", " ", "\0", "%2F", "export", "é", "e\u0301", "?#&=+", "x" * 256, "😀"):
        made = await client.put(key, key)
        (entry,) = (await client.ask("GET", f"/entries/{quote(key, safe='')}"))[1]["entries"]
        assert (entry["key"], entry["value"]) == (made["key"], key)


@each_case("path", ["/entries/", "/entries/a/b", "/entries/%zz", "/entries/%", "/entries/a%2", "/a"])
async def test_another_path_is_no_entry(client: Client, path: str) -> None:
    for method in ("GET", "PUT", "DELETE"):
        assert (await client.ask(method, path, {"value": 1} if method == "PUT" else None))[0] == 404


async def test_bytes_that_are_no_utf8_are_refused(client: Client) -> None:
    status, problem = await client.ask("GET", "/entries/%ff")
    assert (status, problem["detail"]) == (400, "key in the path is not percent-encoded UTF-8")
    assert (await client.ask("PUT", f"/entries/{'x' * 257}", {"value": 1}))[0] == 422


async def test_entries_are_listed_and_deleted_by_tags(client: Client) -> None:
    for key, tags in (("one", ["a", "b"]), ("two", ["b"]), ("three", None)):
        await client.put(key, key, **({} if tags is None else {"tags": tags}))
    assert keys((await client.ask("GET", ""))[1]) == ["one", "two", "three"]
    assert keys((await client.ask("GET", "", query="tags=b&tags=a"))[1]) == ["one"]
    first = (await client.ask("GET", "", query="tags=b&limit=1"))[1]
    assert keys(first) == ["one"]
    second = (await client.ask("GET", "", query=f"tags=b&limit=1&cursor={first['next_cursor']}"))[1]
    assert (keys(second), second["next_cursor"]) == (["two"], None)
    assert await client.ask("DELETE", "", query="tags=b&tags=a") == (200, {"deleted": 1})
    status, problem = await client.ask("DELETE", "")
    assert (status, problem["detail"]) == (422, "give either key or tags")
    assert (await client.ask("DELETE", "", query="key=one&tags=b"))[0] == 422
    assert keys((await client.ask("GET", ""))[1]) == ["two", "three"]


async def test_a_conflict_tells_the_newest_version(client: Client) -> None:
    made = await client.put("n", 1, if_version=0)
    status, problem = await client.ask("PUT", "/entries/n", {"value": 2, "if_version": 0})
    assert (status, problem["detail"]) == (409, f"the entry 'n' has version {made['version']}, not 0")
    assert problem["type"] == "urn:symbiont:problem:conflict"
    await client.put("n", 2, if_version=made["version"])


@each_case(
    "body, status, part",
    [
        ('{"value": NaN}', 400, "NaN is no number of JSON"),
        ('{"value": 1e400}', 422, "not finite"),
        ('{"value": {"a": 1, "a": 2}}', 400, "duplicate key"),
        ('{"value": ' + "[" * 65 + "]" * 65 + "}", 422, "nested deeper than 64 levels"),
        ('{"value": ' + "[" * 300 + "]" * 300 + "}", 422, "invalid"),
        ('{"value": ' + "[" * 100_000 + "]" * 100_000 + "}", 400, "nested more than 500 deep"),
        ('{"value": "' + "x" * LARGEST_VALUE + '"}', 422, "65,538 bytes as JSON; 65,536 is the maximum"),
        ('{"value": "' + "x" * 1024 * 1024 + '"}', 413, "bytes"),
        ("{}", 422, "invalid"),
        ('{"value": 1, "expires_at": "2020-01-01"}', 422, "is in the past"),
        ('{"value": 1, "expires_at": "soon"}', 422, "is not a time"),
        ('{"value": 1, "if_version": -1}', 422, "invalid"),
        ('{"value": 1, "tags": [" "]}', 422, "not blank"),
        ('{"value": 1, "key": "m"}', 400, "belongs in the path"),
    ],
)
async def test_a_wrong_value_is_refused_with_the_reason(client: Client, body: str, status: int, part: str) -> None:
    reply = await client.app.ask(client.token, "PUT", "/v1/kv/entries/n", raw=body.encode())
    assert reply.status == status, reply
    assert part in told(reply)["detail"]
    assert keys((await client.ask("GET", ""))[1]) == []


async def test_a_value_is_measured_without_the_escapes_of_a_body(client: Client) -> None:
    body = '{"value": "' + "\\u0041" * (LARGEST_VALUE - 2) + '"}'
    reply = await client.app.ask(client.token, "PUT", "/v1/kv/entries/n", raw=body.encode())
    assert reply.status == 200, reply


@each_case("given", ["12345678901234567890123", "9" * 4000, "-0.0", "1.0", "1e22", "0.1", "5e-324", '"\\u0001\\u2028"'])
async def test_numbers_and_texts_are_answered_as_they_were_given(client: Client, given: str) -> None:
    reply = await client.app.ask(client.token, "PUT", "/v1/kv/entries/n", raw=b'{"value": %s}' % given.encode())
    assert reply.status == 200, reply
    reply = await client.app.ask(client.token, "GET", "/v1/kv/entries/n")
    assert repr(told(reply)["entries"][0]["value"]) == repr(json.loads(given))


async def test_half_a_character_is_replaced(client: Client) -> None:
    reply = await client.app.ask(client.token, "PUT", "/v1/kv/entries/n", raw=b'{"value": {"\\ud800": "\\udfff"}}')
    assert reply.status == 200
    assert (await client.ask("GET", "/entries/n"))[1]["entries"][0]["value"] == {"\ufffd": "\ufffd"}


async def test_an_export_has_every_entry_and_is_cut_with_a_cursor(client: Client) -> None:
    for number in range(120):
        await client.put(f"n{number}", "\x01" * 10_000)
    reply = await client.app.ask(client.token, "GET", "/v1/kv/export")
    assert len(reply.body) <= EXPORT_BYTES
    first = told(reply)
    assert first["total"] == 120
    assert 0 < len(first["entries"]) < 120
    second = (await client.ask("GET", "/export", query=f"cursor={first['next_cursor']}"))[1]
    assert keys(first) + keys(second) == [f"n{number}" for number in range(120)]
    assert second["next_cursor"] is None
    page = await client.app.ask(client.token, "GET", "/v1/kv")
    assert len(page.body) <= PAGE_BYTES
    assert told(page)["next_cursor"] is not None


async def test_a_cursor_from_elsewhere_is_refused(client: Client) -> None:
    for path in ("", "/export"):
        status, problem = await client.ask("GET", path, query="cursor=abc")
        assert (status, problem["detail"]) == (422, "the cursor is not from a previous answer")


async def test_a_token_that_only_reads_changes_nothing(app: App) -> None:
    writer, reader = Client(app, await app.token()), Client(app, await app.token("owner", "read"))
    await writer.put("n", 1)
    assert keys((await reader.ask("GET", ""))[1]) == ["n"]
    assert (await reader.ask("GET", "/entries/n"))[0] == 200
    assert (await reader.ask("GET", "/export"))[0] == 200
    assert (await reader.ask("PUT", "/entries/n", {"value": 2}))[0] == 403
    assert (await reader.ask("DELETE", "/entries/n"))[0] == 403
    assert (await writer.ask("GET", "/entries/n"))[1]["entries"][0]["value"] == 1


async def test_an_administrator_sees_no_entries_of_others(app: App) -> None:
    ada = Client(app, await app.token("ada"))
    await ada.put("n", "ada's", tags=["t"])
    admin = Client(app, await app.token("owner", "admin"))
    assert (await admin.ask("GET", "/entries/n"))[0] == 404
    assert keys((await admin.ask("GET", "", query="tags=t"))[1]) == []
    assert await admin.ask("DELETE", "", query="tags=t") == (200, {"deleted": 0})
    assert (await admin.ask("GET", "/export"))[1]["total"] == 0
