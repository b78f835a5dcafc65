"""Whatever a Qdrant server does, no call waits forever, nothing is lost, and an error is one line without the key."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
import structlog
from aiohttp import web

from dslc.blocks.variant import Variant
from runtime import extras
from runtime.errors import UsageError
from runtime.memory.indexing.embedding_queue import EmbeddingQueue
from runtime.search.errors import IndexFailed
from runtime.search.index import open_index
from runtime.search.index.index import Index
from runtime.search.index.qdrant import bounded_http
from runtime.secrets.secret import Secret
from tests.clocks import ManualClock, until
from tests.lanes import LONG
from tests.runtime.memory.indexing.test_embedding_queue import Scripted
from tests.runtime.search.index.entries import DIMENSION, append, embed, near, said, talk
from tests.runtime.search.index.qdrant.qdrant_server import QdrantServer, answering, hang, hang_up

pytestmark = LONG

NAME = "notes_1a2b3c4d"
KEY = "k3y-that-nobody-may-see"


@pytest.fixture
async def server() -> AsyncIterator[QdrantServer]:
    started = QdrantServer()
    await started.start()
    yield started
    await started.close()


async def opened(url: str, **options: Any) -> Index:
    given = {"url": url, "exact": True, "timeout": "1s"} | options
    index = await open_index(Variant(name="qdrant"), None, given, name=NAME)
    with contextlib.suppress(IndexFailed):
        await index.use_model("m", DIMENSION)
    return index


@pytest.fixture
async def index(server: QdrantServer) -> AsyncIterator[Index]:
    """A server with a key and three entries, which were stored without the short timeout."""
    server.key = KEY
    key = Secret(f"{KEY}\n".encode(), "env QDRANT_API_KEY")
    patient = await opened(server.url, api_key=key, timeout="60s")
    await patient.put("log", "reviewer", "1", talk("one", "two", "three"))
    await embed(patient)
    await patient.close()
    made = await opened(server.url, api_key=key)
    yield made
    await made.close()


async def page(_request: web.Request) -> web.StreamResponse:
    return web.Response(text="<html>Welcome</html>", content_type="text/html")


async def another_answer(_request: web.Request) -> web.StreamResponse:
    return web.json_response({"result": {"hello": 1}, "status": "ok", "time": 0})


async def redirect(_request: web.Request) -> web.StreamResponse:
    raise web.HTTPFound("http://127.0.0.1:9/")


async def too_much(_request: web.Request) -> web.StreamResponse:
    return web.json_response({"status": {"error": "slow down"}}, status=429, headers={"Retry-After": "7"})


async def half(request: web.Request) -> web.StreamResponse:
    answer = web.StreamResponse(headers={"Content-Length": "1000"})
    await answer.prepare(request)
    await answer.write(b'{"result":')
    assert request.transport is not None
    request.transport.abort()
    return answer


FEW_BYTES = 100_000
BOMB = gzip.compress(bytes(8_000_000))
"""A thousandth of its decompressed size."""


async def bomb(_request: web.Request) -> web.StreamResponse:
    return web.Response(body=BOMB, headers={"Content-Encoding": "gzip"})


async def flood(_request: web.Request) -> web.StreamResponse:
    return web.Response(body=b" " * (FEW_BYTES + 1), content_type="application/json")


FAULTS: dict[str, tuple[Any, str]] = {
    "a compressed answer": (bomb, "not from Qdrant"),
    "an answer without end": (flood, "not from Qdrant"),
    "hangs": (hang, "did not answer within 1 s"),
    "closes the connection": (hang_up, "cannot be reached"),
    "stops in the middle": (half, "cannot be reached"),
    "500": (answering(500, f"panic, and your key is {KEY}"), "answered 500: panic, and your key is …"),
    "503": (answering(503), "answered 503: it went wrong"),
    "429": (too_much, "is overloaded"),
    "401": (answering(401), "does not accept the key (it answered 401)"),
    "403": (answering(403), "check that `api_key` is valid"),
    "400": (answering(400, "no\nsuch"), "it answered 400: no such"),
    "a page": (page, "not from Qdrant"),
    "an answer of another service": (another_answer, "not from Qdrant"),
    "leads elsewhere": (redirect, "it answered 302"),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_what_a_server_does_wrong_is_one_clear_line(
    fault: str, index: Index, server: QdrantServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_http, "MOST_BYTES", FEW_BYTES)
    server.fault, words = FAULTS[fault]
    with structlog.testing.capture_logs() as logs:
        for ask in (lambda: near(index, "one"), index.parts, index.reachable, index.clear):
            with pytest.raises(IndexFailed) as failed:
                await ask()
            line = failed.value.line()
            assert words in line
            assert "Qdrant at 127.0.0.1:" in line
            assert "\n" not in line
            assert KEY not in line
    assert index.problem == line
    assert KEY not in repr((logs, index, vars(index), index.problem, failed.value.__context__))
    assert [log["event"] for log in logs if log["log_level"] == "warning"] == ["index_unavailable"]
    server.fault = None
    assert len(await near(index, "one")) == 3
    assert index.problem is None


@pytest.mark.parametrize("fault", ["hangs", "closes the connection", "500", "401"])
async def test_a_write_while_it_is_away_fails_and_can_be_repeated(
    fault: str, index: Index, server: QdrantServer
) -> None:
    server.fault, _ = FAULTS[fault]
    with pytest.raises(IndexFailed):
        await index.put("log", "reviewer", "2", talk("one", "zwei", "three", "four"))
    with pytest.raises(IndexFailed):
        await append(index, "more", "reviewer", None, "1", talk("five", start=4))
    server.fault = None
    assert await index.parts() == {"log": "1"}
    assert await index.put("log", "reviewer", "2", talk("one", "zwei", "three", "four")) == (2, 2, 0)
    assert await append(index, "more", "reviewer", None, "1", talk("five", start=4))
    assert await said(index, "two") == []
    assert await embed(index) == 3
    assert set(await server.points(NAME)) == {"e0", "e1", "e2", "e3", "e4"}


@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "http://no-such-host.invalid:6333", "https://127.0.0.1:9"])
async def test_a_server_that_is_not_there_is_named_with_what_to_do(url: str) -> None:
    index = await opened(url)
    try:
        with pytest.raises(IndexFailed) as failed:
            await index.put("log", "reviewer", "1", talk("one"))
        assert url.partition("//")[2] in failed.value.line()
        assert "check that it is running" in failed.value.line()
    finally:
        await index.close()


async def test_one_that_speaks_no_tls_is_said_to(server: QdrantServer) -> None:
    index = await opened(server.url.replace("http:", "https:"))
    with pytest.raises(IndexFailed, match="cannot be reached"):
        await near(index, "one")
    await index.close()


async def test_a_connection_that_was_closed_meanwhile_is_made_again(index: Index, server: QdrantServer) -> None:
    async def once(request: web.Request) -> web.StreamResponse:
        server.fault = None
        return await hang_up(request)

    server.fault = once
    assert len(await near(index, "one")) == 3
    assert index.problem is None


async def test_the_event_loop_goes_on_while_a_server_hangs(index: Index, server: QdrantServer) -> None:
    server.fault = hang
    task = asyncio.create_task(near(index, "one"))
    turns = 0
    while not task.done():
        await asyncio.sleep(0.01)
        turns += 1
    assert turns > 10
    with pytest.raises(IndexFailed):
        task.result()


async def test_the_queue_of_embeddings_goes_on_by_itself_when_it_is_back(server: QdrantServer) -> None:
    index, clock = await opened(server.url, timeout="60s"), ManualClock()
    await index.put("log", "reviewer", "1", talk("one", "two"))
    await server.stop()
    queue = EmbeddingQueue(index, clock)
    task = asyncio.create_task(queue.keep())
    try:
        await queue.use(Scripted())
        await until(lambda: queue.problem is not None)
        assert "the connection was refused" in str(queue.problem)
        for _ in range(4):
            await until(lambda: clock.sleepers == 1)
            clock.advance(30)
        await server.start()
        await until(lambda: clock.sleepers == 1 or queue.problem is None)
        clock.advance(30)
        await until(lambda: queue.problem is None)
        assert (await index.stats()).embedded == 2
        assert index.problem is None
    finally:
        task.cancel()
        await asyncio.wait({task})
        await index.close()


# Options in the program.


async def test_the_key_is_sent_and_shown_to_nobody(index: Index, server: QdrantServer) -> None:
    assert len(await near(index, "one")) == 3
    server.key = "another"
    with pytest.raises(IndexFailed, match="does not accept the key"):
        await near(index, "one")


async def test_without_the_key_that_a_server_wants_it_says_what_to_write(server: QdrantServer) -> None:
    server.key = KEY
    index = await opened(server.url)
    with pytest.raises(IndexFailed) as failed:
        await near(index, "one")
    assert "write `api_key`" in failed.value.line()
    await index.close()


@pytest.mark.parametrize("key", ["secret://env/QDRANT", Secret(b"two words", "env KEY"), Secret(b" \n", "env KEY")])
async def test_a_key_that_is_none_is_refused_at_the_start(key: Any) -> None:
    with pytest.raises(UsageError, match="the key of the index qdrant") as refused:
        await opened("http://127.0.0.1:6333", api_key=key)
    assert "two words" not in refused.value.line()


@pytest.mark.parametrize(
    ("url", "exposed"),
    [
        ("http://10.0.0.7:6333", True),
        ("http://qdrant.example.org", True),
        ("https://qdrant.example.org", False),
        ("http://127.0.0.1:6333", False),
        ("http://localhost:6333", False),
        ("http://[::1]:6333", False),
    ],
)
async def test_a_key_that_goes_over_the_network_in_the_clear_is_warned_of(url: str, exposed: bool) -> None:
    with structlog.testing.capture_logs() as logs:
        index = await opened(url, api_key=Secret(KEY.encode(), "env KEY"))
    await index.close()
    warned = [log for log in logs if log["event"] == "key_sent_in_clear"]
    assert bool(warned) == exposed
    assert KEY not in str(logs)


async def test_the_warning_stands_in_what_readiness_says(monkeypatch: pytest.MonkeyPatch, server: QdrantServer) -> None:
    monkeypatch.setattr("runtime.search.index.qdrant.options._key_warning", lambda _url: "the key goes in the clear")
    server.key = KEY
    index = await opened(server.url, api_key=Secret(KEY.encode(), "env KEY"))
    assert str(await index.reachable()).endswith("answers; the key goes in the clear")
    await index.close()


async def test_without_its_client_the_index_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "qdrant_client", None)
    with pytest.raises(UsageError, match="needs its client") as absent:
        await opened("http://127.0.0.1:6333")
    assert extras.install("qdrant") in absent.value.line()
    assert "\n" not in absent.value.line()


@pytest.mark.parametrize(
    "wrong",
    [
        {"collection": "../x"},
        {"collection": ""},
        {"collection": "a/b"},
        {"url": "qdrant:6333"},
        {"url": "http://user:password@host"},
        {"timeout": "0s"},
        {"exact": "maybe"},
        {"host": "x"},
    ],
)
async def test_an_option_that_cannot_be_is_named_and_its_value_is_not(wrong: dict[str, str]) -> None:
    with pytest.raises(UsageError) as refused:
        await open_index(Variant(name="qdrant"), None, wrong)
    assert next(iter(wrong)) in refused.value.line()
    assert "password" not in refused.value.line()
