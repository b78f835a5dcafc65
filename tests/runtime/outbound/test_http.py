"""Outgoing calls: requests, retries, refusals, and that no error contains a secret."""

from __future__ import annotations

import asyncio
import gzip
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from runtime.outbound.http import CallFailed, HttpCaller
from runtime.outbound.retry import LONGEST_WAIT_SECONDS
from tests.clocks import START, ManualClock, until
from tests.runtime.outbound.https import authority
from tests.runtime.outbound.https import serving as answering

KEY = "sk-" + "Zr4Tq8Lw2Yp6Vd0Hs3Kf"
Handle = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Sleepless(ManualClock):
    """A clock that advances instead of sleeping, and records how much."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.advance(seconds)
        await asyncio.sleep(0)


@pytest.fixture
def sleepless() -> Sleepless:
    return Sleepless()


@pytest.fixture
async def caller(sleepless: Sleepless) -> AsyncIterator[HttpCaller]:
    opened = HttpCaller(clock=sleepless, largest_answer=4096)
    yield opened
    await opened.close()


class Server:
    """A server that returns its responses one after the other, the last one repeatedly, and records the requests."""

    def __init__(self, *answers: web.Response | Handle) -> None:
        self.answers = list(answers)
        self.bodies: list[Any] = []
        self.headers: list[dict[str, str]] = []
        self.url = ""

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.bodies.append(json.loads(content) if (content := await request.read()) else request.method)
        self.headers.append(dict(request.headers))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, web.Response):
            return web.Response(status=answer.status, body=answer.body, headers=answer.headers)
        return await answer(request)


@asynccontextmanager
async def serving(*answers: web.Response | Handle, tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    server = Server(*answers)
    async with answering(server.handle, tls) as port:
        server.url = f"{'http' if tls is None else 'https'}://localhost:{port}/v1/thing?key={KEY}"
        yield server


def said(body: Any, status: int = 200, **headers: str) -> web.Response:
    return web.Response(status=status, body=json.dumps(body).encode(), headers=headers)


async def failure_of(
    caller: HttpCaller, url: str, *, tries: int = 1, seconds: float = 5.0, body: Any = None
) -> CallFailed:
    """Return the error of the call; neither it nor its causes may contain the key."""
    with pytest.raises(CallFailed) as caught:
        await caller.post_json(
            url, body, headers={"Authorization": f"Bearer {KEY}"}, timeout_seconds=seconds, tries=tries
        )
    error: BaseException | None = caught.value
    while error is not None:
        assert KEY not in f"{error!r} {error} {getattr(error, 'hint', '')} {getattr(error, 'detail', '')}"
        error = error.__cause__ or error.__context__
    assert "\n" not in caught.value.line()
    return caught.value


async def test_json_goes_out_and_json_comes_back(caller: HttpCaller) -> None:
    async with serving(said({"ok": ["ü", 1.5, None]})) as server:
        answer = await caller.post_json(server.url, {"text": "🎉"}, headers={"X-Key": KEY}, timeout_seconds=5, tries=1)
        assert answer == {"ok": ["ü", 1.5, None]}
        assert server.bodies == [{"text": "🎉"}]
        assert server.headers[0]["X-Key"] == KEY
        assert server.headers[0]["Content-Type"] == "application/json"
        assert server.headers[0]["User-Agent"] == "symbiont"


async def test_an_answer_without_content_is_none(caller: HttpCaller) -> None:
    async with serving(web.Response(status=204)) as server:
        assert await caller.post_json(server.url, {}, timeout_seconds=5, tries=1) is None


async def test_one_connection_serves_several_calls(caller: HttpCaller) -> None:
    ports = set()

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        assert request.transport is not None
        ports.add(request.transport.get_extra_info("peername")[1])
        return said({})

    async with serving(answer) as server:
        for _ in range(3):
            await caller.post_json(server.url, {}, timeout_seconds=5, tries=1)
    assert len(ports) == 1


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504, 526, 529, 530])
async def test_what_may_pass_is_tried_again(caller: HttpCaller, sleepless: Sleepless, status: int) -> None:
    async with serving(said({}, status), said({}, status), said("done")) as server:
        assert await caller.post_json(server.url, {"n": 1}, timeout_seconds=5, tries=3) == "done"
        assert server.bodies == [{"n": 1}] * 3
    first, second = sleepless.waits
    assert 0.3 < first < 0.7
    assert 0.7 < second < 1.3


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 409, 413, 422, 501, 505])
async def test_what_stays_as_it_is_is_not(caller: HttpCaller, status: int) -> None:
    async with serving(said({"error": "no"}, status)) as server:
        failure = await failure_of(caller, server.url, tries=3)
        assert len(server.bodies) == 1
    assert failure.status == status
    assert not failure.passing
    assert str(status) in str(failure)
    assert "localhost" in str(failure)


async def test_it_gives_up_after_as_many_tries_as_were_asked_for(caller: HttpCaller) -> None:
    async with serving(said({"error": {"message": "overloaded."}}, 503)) as server:
        failure = await failure_of(caller, server.url, tries=3)
        assert len(server.bodies) == 3
    assert failure.status == 503
    assert failure.passing
    assert str(failure).endswith("answered 503: overloaded")


async def test_retry_after_in_seconds_is_kept(caller: HttpCaller, sleepless: Sleepless) -> None:
    async with serving(said({}, 429, **{"Retry-After": "7"}), said("done")) as server:
        assert await caller.post_json(server.url, {}, timeout_seconds=5, tries=2) == "done"
    assert sleepless.waits == [7.0]


async def test_retry_after_as_a_date_is_kept(caller: HttpCaller, sleepless: Sleepless) -> None:
    assert START == 1_771_065_000
    date = "Sat, 14 Feb 2026 10:30:09 GMT"
    async with serving(said({}, 503, **{"Retry-After": date}), said("done")) as server:
        assert await caller.post_json(server.url, {}, timeout_seconds=5, tries=2) == "done"
    assert sleepless.waits == [9.0]


@pytest.mark.parametrize("value", ["soon", "-3", "", "Sat, 99 Feb 2026 10:30:09 GMT", "1e9"])
async def test_a_retry_after_that_means_nothing_is_passed_over(
    caller: HttpCaller, sleepless: Sleepless, value: str
) -> None:
    async with serving(said({}, 429, **{"Retry-After": value}), said("done")) as server:
        assert await caller.post_json(server.url, {}, timeout_seconds=5, tries=2) == "done"
    assert sleepless.waits[0] < 1


async def test_a_long_retry_after_ends_the_call(caller: HttpCaller, sleepless: Sleepless) -> None:
    async with serving(said({}, 429, **{"Retry-After": "3600"})) as server:
        failure = await failure_of(caller, server.url, tries=5)
        assert len(server.bodies) == 1
    assert failure.retry_after == 3600 > LONGEST_WAIT_SECONDS
    assert failure.passing
    assert sleepless.waits == []


async def test_nobody_there_is_said_with_the_host(caller: HttpCaller, sleepless: Sleepless) -> None:
    async with serving(said({})) as server:
        url = server.url
    failure = await failure_of(caller, url, tries=2)
    assert failure.line() == f"{url.split('/')[2]} cannot be reached: connection refused (check that it is running)"
    assert failure.status is None
    assert failure.passing
    assert len(sleepless.waits) == 1


async def test_a_name_that_nobody_knows_is_said(caller: HttpCaller) -> None:
    failure = await failure_of(caller, f"http://nowhere.invalid/{KEY}")
    assert "nowhere.invalid is not known" in str(failure)


async def test_no_answer_in_time_is_said(caller: HttpCaller) -> None:
    async def never(_request: web.BaseRequest) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    async with serving(never) as server:
        failure = await failure_of(caller, server.url, seconds=0.05)
    assert "did not answer within 0.05 s" in str(failure)
    assert failure.status is None
    assert failure.passing


async def test_an_answer_that_trickles_is_not_waited_for(caller: HttpCaller) -> None:
    async def trickle(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b" ")
            await asyncio.sleep(0.01)

    async with serving(trickle) as server:
        failure = await failure_of(caller, server.url, seconds=0.2)
    assert "did not answer within 0.2 s" in str(failure)


async def test_a_connection_that_breaks_off_is_tried_again(caller: HttpCaller) -> None:
    async def broken(request: web.BaseRequest) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async with serving(broken, said("done")) as server:
        assert await caller.post_json(server.url, {}, timeout_seconds=5, tries=2) == "done"


async def test_half_an_answer_is_tried_again(caller: HttpCaller) -> None:
    async def half(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "100"})
        await response.prepare(request)
        await response.write(b'{"a":')
        assert request.transport is not None
        request.transport.abort()
        return response

    async with serving(half, said("done")) as server:
        assert await caller.post_json(server.url, {}, timeout_seconds=5, tries=2) == "done"


@pytest.mark.parametrize("content", [b"", b"<html>", b'{"a":', b"[1,]", b"\xff", b"NaN", b"[" * 4000])
async def test_what_is_not_json_is_refused_and_not_shown(caller: HttpCaller, content: bytes) -> None:
    async with serving(web.Response(body=content)) as server:
        failure = await failure_of(caller, server.url, tries=3)
        assert len(server.bodies) == 1
    assert "is not JSON" in str(failure)
    assert failure.status == 200
    assert "html" not in str(failure)


async def test_a_huge_answer_is_not_read_to_its_end(caller: HttpCaller) -> None:
    sent = 0

    async def huge(request: web.BaseRequest) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(100_000):
            sent += 1
            await response.write(b" " * 65536)
        return response

    async with serving(huge) as server:
        failure = await failure_of(caller, server.url, tries=2)
    assert "more than 4096 bytes" in str(failure)
    assert not failure.passing
    assert sent < 10_000


async def test_a_huge_error_is_not_read_to_its_end(caller: HttpCaller) -> None:
    async with serving(said({"error": "x" * 1_000_000}, 400)) as server:
        failure = await failure_of(caller, server.url)
    assert len(failure.line()) < 500


async def test_a_compressed_answer_is_refused(caller: HttpCaller) -> None:
    bomb = web.Response(body=gzip.compress(b"1" * 1_000_000), headers={"Content-Encoding": "gzip"})
    async with serving(bomb) as server:
        failure = await failure_of(caller, server.url)
        assert server.headers[0]["Accept-Encoding"] == "identity"
    assert "compressed" in str(failure)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed(caller: HttpCaller, status: int) -> None:
    async with serving(said("stolen")) as other, serving(said({}, status, Location=other.url)) as server:
        failure = await failure_of(caller, server.url, tries=2)
        assert other.headers == []
    assert failure.status == status
    assert "redirect" in str(failure.hint)


async def test_cookies_are_not_kept(caller: HttpCaller) -> None:
    async with serving(said({}, 200, **{"Set-Cookie": "a=b"})) as server:
        for _ in range(2):
            await caller.post_json(server.url, {}, timeout_seconds=5, tries=1)
        assert "Cookie" not in server.headers[1]


async def test_a_certificate_that_nobody_vouches_for_is_refused(tmp_path: Path, caller: HttpCaller) -> None:
    context, _ = authority(tmp_path)
    async with serving(said({}), tls=context) as server:
        failure = await failure_of(caller, server.url, tries=3)
        assert server.headers == []
    assert "certificate" in str(failure)
    assert not failure.passing


async def test_a_certificate_that_is_trusted_is_taken(tmp_path: Path) -> None:
    context, client = authority(tmp_path)
    caller = HttpCaller(tls=client)
    async with serving(said("done"), tls=context) as server:
        assert await caller.post_json(server.url, {}, timeout_seconds=5, tries=1) == "done"
    await caller.close()


async def test_a_server_without_tls_is_said(caller: HttpCaller) -> None:
    async with serving(said({})) as server:
        failure = await failure_of(caller, server.url.replace("http://", "https://"))
    assert "cannot be reached by TLS" in str(failure)


async def test_what_does_not_speak_http_is_said(caller: HttpCaller) -> None:
    async def shout(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example ESMTP\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(shout, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        failure = await failure_of(caller, f"http://127.0.0.1:{port}/")
    assert "not HTTP" in str(failure)


@pytest.mark.parametrize(
    "url", ["", "example.org", "ftp://example.org", "http://", f"http://[{KEY}", "http://a:port/", f"/{KEY}"]
)
async def test_what_is_no_url_is_refused_unseen(caller: HttpCaller, url: str) -> None:
    failure = await failure_of(caller, url, tries=2)
    assert not failure.passing
    assert "not an http or https URL" in str(failure)


async def test_a_url_with_a_password_is_refused_unseen(caller: HttpCaller) -> None:
    failure = await failure_of(caller, f"http://user:{KEY}@127.0.0.1:1/")
    assert "a user name or a password" in str(failure)
    assert not failure.passing


async def test_a_header_that_cannot_be_sent_is_refused_unseen(caller: HttpCaller) -> None:
    async with serving(said({})) as server:
        for value in (f"{KEY}\nX-Other: 1", f"{KEY}\udc00", f"{KEY}\x00"):
            with pytest.raises(CallFailed, match="a header contains invalid characters") as caught:
                await caller.post_json(server.url, {}, headers={"X-Key": value}, timeout_seconds=5, tries=2)
            assert KEY not in f"{caught.value!r} {caught.value.__cause__} {caught.value.__context__}"
        assert server.headers == []


async def test_a_body_that_is_no_json_is_refused_unseen(caller: HttpCaller) -> None:
    async with serving(said({})) as server:
        for body in ({"text": f"{KEY} \udc00"}, {1j: KEY}, object()):
            failure = await failure_of(caller, server.url, body=body)
            assert "cannot be written as JSON" in str(failure)
        assert server.bodies == []


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": f"bad header Bearer {KEY}"}},
        {"error": f"bad\nheader\x1b[31m {KEY}"},
        {"message": f"bad header {KEY}"},
        {"detail": f"bad header {KEY}"},
        [{"error": {"code": 400, "message": f"bad header {KEY}"}}],
    ],
)
async def test_what_a_service_says_is_shown_without_what_it_was_sent(caller: HttpCaller, body: Any) -> None:
    async with serving(said(body, 400)) as server:
        failure = await failure_of(caller, server.url)
    assert failure.detail.startswith("bad header")
    assert failure.detail.isprintable()
    assert failure.detail in str(failure)


@pytest.mark.parametrize(
    ("raw", "detail"),
    [
        ('{"error":{"message":"Prompt exceeds max length","code":"1261"}}', "Refused: Prompt exceeds max length"),
        ({"error": {"message": "it is full"}}, "Refused: it is full"),
        ("upstream is full", "Refused: upstream is full"),
        (f'"bad key {KEY}"', "Refused: bad key …"),
        (17, "Refused"),
        (None, "Refused"),
    ],
)
async def test_what_the_provider_behind_a_router_says_is_shown(caller: HttpCaller, raw: object, detail: str) -> None:
    body = {"error": {"message": "Refused", "code": 400, "metadata": {"raw": raw, "provider_name": "X"}}}
    async with serving(said(body, 400)) as server:
        failure = await failure_of(caller, server.url)
    assert failure.detail == detail


@pytest.mark.parametrize("status", [401, 403])
async def test_what_a_service_says_about_a_key_is_not_shown(caller: HttpCaller, status: int) -> None:
    half = KEY[:12]
    async with serving(said({"error": {"message": f"Incorrect API key provided: {half}***"}}, status)) as server:
        failure = await failure_of(caller, server.url)
    assert half not in failure.line()
    assert failure.detail == ""
    assert failure.hint


@pytest.mark.parametrize("body", [None, [], {"error": None}, {"error": []}, {"error": {"code": 1}}, {"error": ""}, 5])
async def test_an_error_that_says_nothing_is_its_status(caller: HttpCaller, body: Any) -> None:
    async with serving(said(body, 400)) as server:
        failure = await failure_of(caller, server.url)
    assert failure.detail == ""
    assert str(failure).endswith("answered 400")


async def test_a_caller_that_was_closed_opens_again_when_it_is_used(caller: HttpCaller) -> None:
    async with serving(said("done")) as server:
        for _ in range(2):
            assert await caller.post_json(server.url, {}, timeout_seconds=5, tries=1) == "done"
            await caller.close()


async def test_a_call_that_is_cancelled_is_cancelled(caller: HttpCaller) -> None:
    begun = asyncio.Event()

    async def never(_request: web.BaseRequest) -> web.StreamResponse:
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with serving(never) as server:
        call = asyncio.create_task(caller.post_json(server.url, {}, timeout_seconds=60, tries=3))
        await begun.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call


async def test_a_call_that_is_under_way_when_the_caller_is_closed_fails_for_good(
    caller: HttpCaller, sleepless: Sleepless
) -> None:
    begun = asyncio.Event()

    async def never(_request: web.BaseRequest) -> web.StreamResponse:
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with serving(never) as server:
        call = asyncio.create_task(failure_of(caller, server.url, tries=3, seconds=60))
        await begun.wait()
        await caller.close()
        failure = await call
        assert len(server.bodies) == 1
    assert "closed the connection" in str(failure)
    assert sleepless.waits == []


async def test_a_get_sends_nothing_and_is_read_alike(caller: HttpCaller) -> None:
    async with serving(web.json_response({"models": []})) as server:
        assert await caller.get_json(server.url, headers={"X-Key": KEY}, timeout_seconds=5) == {"models": []}

    assert server.bodies == ["GET"]
    assert "Content-Type" not in server.headers[0]
    assert server.headers[0]["X-Key"] == KEY


async def test_a_get_is_made_once_unless_more_are_wanted(caller: HttpCaller) -> None:
    async with serving(web.Response(status=503)) as server:
        with pytest.raises(CallFailed, match="answered 503"):
            await caller.get_json(server.url, timeout_seconds=5)

    assert server.bodies == ["GET"]


# Streamed answers.


def in_parts(*parts: bytes, then: Handle | None = None) -> Handle:
    """Return a response that sends each part by itself, then what `then` does."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for part in parts:
            await response.write(part)
            await asyncio.sleep(0.001)
        return response if then is None else await then(request)

    return answer


async def aborted(request: web.BaseRequest) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def silent(_request: web.BaseRequest) -> web.StreamResponse:
    await asyncio.Event().wait()
    raise AssertionError


async def lines_of(
    caller: HttpCaller, url: str, lines: list[bytes], *, part_seconds: float = 5.0, seconds: float = 5.0
) -> None:
    """Add the lines of an answer to `lines` as they arrive."""
    headers = {"Authorization": f"Bearer {KEY}"}
    async with aclosing(
        caller.post_lines(url, {"n": 1}, headers=headers, part_seconds=part_seconds, timeout_seconds=seconds)
    ) as answer:
        async for line in answer:
            lines.append(line)  # noqa: PERF401 - those before an error count


async def failed_lines(
    caller: HttpCaller, url: str, *, part_seconds: float = 5.0, seconds: float = 5.0
) -> tuple[list[bytes], CallFailed]:
    """Return the lines before the error, and the error; neither it nor its causes may contain the key."""
    lines: list[bytes] = []
    with pytest.raises(CallFailed) as caught:
        await lines_of(caller, url, lines, part_seconds=part_seconds, seconds=seconds)
    error: BaseException | None = caught.value
    while error is not None:
        assert KEY not in f"{error!r} {error} {getattr(error, 'hint', '')}"
        error = error.__cause__ or error.__context__
    return lines, caught.value


@pytest.mark.parametrize(
    "parts",
    [(b"a\nb\r\n\nc",), (b"a", b"\nb\r", b"\n", b"\n", b"c"), (b"a\nb\r\n\nc\n",)],
    ids=["one", "several", "end"],
)
async def test_a_streamed_answer_is_read_by_lines(caller: HttpCaller, parts: tuple[bytes, ...]) -> None:
    lines: list[bytes] = []
    async with serving(in_parts(*parts)) as server:
        await lines_of(caller, server.url, lines)
        assert server.bodies == [{"n": 1}]
        assert server.headers[0]["Accept-Encoding"] == "identity"
    assert lines == [b"a", b"b", b"", b"c"]


async def test_a_streamed_answer_that_breaks_off_is_told_after_its_lines(caller: HttpCaller) -> None:
    async with serving(in_parts(b"a\nb", then=aborted)) as server:
        lines, failure = await failed_lines(caller, server.url)
    assert lines == [b"a"]
    assert "closed the connection" in str(failure)
    assert failure.passing


async def test_a_streamed_answer_that_stops_is_not_waited_for(caller: HttpCaller) -> None:
    async with serving(in_parts(b"a\n", then=silent)) as server:
        lines, failure = await failed_lines(caller, server.url, part_seconds=0.2)
    assert lines == [b"a"]
    assert "sent no part of its answer for 0.2 s" in str(failure)
    assert failure.passing


async def test_a_streamed_answer_that_does_not_begin_is_not_waited_for(caller: HttpCaller) -> None:
    async with serving(silent) as server:
        _, failure = await failed_lines(caller, server.url, part_seconds=0.2)
    assert "did not begin its answer within 0.2 s" in str(failure)


async def test_a_streamed_answer_that_trickles_ends_in_time(caller: HttpCaller) -> None:
    async with serving(in_parts(*[b"a\n"] * 100_000)) as server:
        lines, failure = await failed_lines(caller, server.url, seconds=0.3)
    assert lines
    assert "did not finish its answer within 0.3 s" in str(failure)


@pytest.mark.parametrize("part", [b"x" * 1000, b"x\n" * 500], ids=["line", "answer"])
async def test_a_huge_streamed_answer_is_not_read_to_its_end(caller: HttpCaller, part: bytes) -> None:
    async with serving(in_parts(*[part] * 100_000)) as server:
        _, failure = await failed_lines(caller, server.url, seconds=30)
    assert "more than 4096 bytes" in str(failure)
    assert not failure.passing


@pytest.mark.parametrize("status", [401, 429, 500, 302])
async def test_a_refusal_in_place_of_a_stream_is_told(caller: HttpCaller, status: int) -> None:
    async with serving(said({"error": f"no {KEY}"}, status, **{"Retry-After": "7"})) as server:
        _, failure = await failed_lines(caller, server.url)
        assert len(server.bodies) == 1
    assert failure.status == status
    assert failure.passing == (status in {429, 500})
    assert failure.retry_after == 7.0


async def test_a_compressed_stream_is_refused(caller: HttpCaller) -> None:
    async with serving(web.Response(body=gzip.compress(b"a\n"), headers={"Content-Encoding": "gzip"})) as server:
        _, failure = await failed_lines(caller, server.url)
    assert "compressed" in str(failure)


async def test_a_stream_that_is_left_is_closed(caller: HttpCaller) -> None:
    seen: list[asyncio.BaseTransport] = []

    async def noted(request: web.BaseRequest) -> web.StreamResponse:
        assert request.transport is not None
        seen.append(request.transport)
        return await in_parts(b"a\n", then=silent)(request)

    async with serving(noted) as server:
        async with aclosing(caller.post_lines(server.url, {}, part_seconds=30, timeout_seconds=30)) as lines:
            assert await anext(lines) == b"a"
        await until(seen[0].is_closing)
