"""Connections over real sockets: responses, their order, and the end of a connection."""

from __future__ import annotations

import asyncio
import socket
import struct
import time

import pytest

from runtime.http.error import HttpError
from runtime.http.request import Request
from runtime.http.response import Response
from tests.runtime.http.peer import LARGEST, Serve, Serving, until

HEAD = b"POST /a HTTP/1.1\r\nHost: x\r\n"
TRAILER = b"".join(b"X-%d: " % number + b"a" * 20_000 + b"\r\n" for number in range(50))


def post(body: bytes, path: str = "/a", *lines: str) -> bytes:
    head = [f"POST {path} HTTP/1.1", "Host: x", f"Content-Length: {len(body)}", *lines]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


def chunked(*parts: bytes) -> bytes:
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)
    return HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"


def test_a_request_is_answered_and_the_connection_used_again(serve: Serve) -> None:
    with serve().connect() as peer:
        for number in range(3):
            answer = peer.ask(post(b"body %d" % number, f"/a/{number}?q=1", "X-One: two"))
            said = answer.json()
            assert (answer.status, said["method"], said["path"], said["query"]) == (202, "POST", f"/a/{number}", "q=1")
            assert (said["body"], said["peer"]) == (f"body {number}", "127.0.0.1")
            assert ["X-One", "two"] in said["headers"]
            assert "connection" not in answer.headers
            assert answer.headers["date"].endswith(" GMT")


@pytest.mark.parametrize("size", [1, 7, 40])
def test_a_request_may_come_in_pieces(serve: Serve, size: int) -> None:
    data = post(b"x" * 50) + chunked(b"abc", b"defg")
    with serve().connect() as peer:
        for start in range(0, len(data), size):
            peer.send(data[start : start + size])
        assert peer.answer().json()["body"] == "x" * 50
        assert peer.answer().json()["body"] == "abcdefg"


def test_a_large_body_is_gathered(serve: Serve) -> None:
    body = bytes(range(256)) * (LARGEST // 256)
    serving = serve()
    for data in (post(body), chunked(*(body[start : start + 10_000] for start in range(0, LARGEST, 10_000)))):
        assert serving.ask(data).json()["body"] == body.decode("latin-1")
    until(lambda: serving.server.bodies.size == 0)


def test_pipelined_requests_are_answered_in_order(serve: Serve) -> None:
    async def slow_then_quick(request: Request) -> Response:
        if request.head.path == "/slow":
            await asyncio.create_task(asyncio.sleep(0.05))
        return Response(200, "text/plain", request.head.path.encode() + await request.read(10))

    paths = ["/slow", "/a", "/slow", "/b", *(f"/{number}" for number in range(50))]
    with serve(slow_then_quick).connect() as peer:
        peer.send(b"".join(post(b"!", path) for path in paths))
        assert [peer.answer().body.decode() for _ in paths] == [f"{path}!" for path in paths]


def test_nothing_is_read_while_a_request_waits_for_the_one_before_it(serve: Serve) -> None:
    reading: list[bool] = []

    async def look(request: Request) -> Response:
        body = await request.read(10)
        (connection,) = serving.server.connections
        assert connection.transport is not None
        reading.append(connection.transport.is_reading())
        return Response(200, "text/plain", body)

    serving = serve(look)
    with serving.connect() as peer:
        peer.send(post(b"a") + post(b"b"))
        assert [peer.answer().body, peer.answer().body] == [b"a", b"b"]
    assert reading == [False, False]


def test_thousands_of_pipelined_requests_do_not_keep_others_waiting(serve: Serve) -> None:
    serving = serve()
    with serving.connect() as peer, serving.connect() as other:
        peer.send(post(b"") * 3000)
        assert other.ask(post(b"me")).json()["body"] == "me"
        for _ in range(3000):
            assert peer.answer().status == 202


def test_an_empty_line_before_a_request_is_nothing(serve: Serve) -> None:
    with serve().connect() as peer:
        assert peer.ask(post(b"a") + b"\r\n").status == 202
        assert peer.ask(post(b"b")).json()["body"] == "b"


def test_head_is_answered_without_a_body(serve: Serve) -> None:
    with serve().connect() as peer:
        peer.send(b"HEAD /a HTTP/1.1\r\nHost: x\r\n\r\n")
        status, headers = peer.head()
        assert status == 202
        assert int(headers["content-length"]) > 0
        assert peer.ask(post(b"next")).json()["body"] == "next"


@pytest.mark.parametrize("status", [204, 304])
def test_an_answer_without_content_ends_with_its_head(serve: Serve, status: int) -> None:
    async def nothing(request: Request) -> Response:
        await request.read(10)
        return Response(status, "application/json", b"not sent", b"X-One: two\r\n")

    with serve(nothing).connect() as peer:
        for _ in range(2):
            answer = peer.ask(post(b"abc"))
            assert (answer.status, answer.headers["x-one"]) == (status, "two")
            assert not {"content-length", "content-type", "transfer-encoding"} & set(answer.headers)
        peer.send(post(b"", "/a", "Connection: close"))
        assert peer.rest().endswith(b"X-One: two\r\n\r\n")


def test_what_stands_behind_a_refusal_is_not_handled(serve: Serve) -> None:
    with serve().connect() as peer:
        peer.send(post(b"a") + b"POST /b HTTP/1.1\r\n\r\n" + post(b"c"))
        assert peer.answer().json()["body"] == "a"
        assert peer.answer().error == "ambiguous_host"
        assert peer.rest() == b""


def test_who_asks_for_the_end_and_does_not_read_is_cut_off(serve: Serve) -> None:
    async def much(request: Request) -> Response:
        return Response(200, "text/plain", b"x" * 6_000_000, close=True)

    serving = serve(much)
    with serving.connect() as peer:
        peer.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        peer.socket.recv(1)
        until(lambda: _all_gone_by_their_deadlines(serving))


def test_an_answer_of_the_listeners_own_may_be_another_one(serve: Serve) -> None:
    told: list[tuple[str, str | None]] = []

    def refuse(problem: HttpError, peer: str | None) -> Response:
        told.append((problem.error, peer))
        return Response(429, "text/plain", b"enough")

    answer = serve(refuse=refuse).ask(b"nonsense\r\n\r\n")
    assert (answer.status, answer.body, answer.headers["connection"]) == (429, b"enough", "close")
    assert told == [("malformed_request", "127.0.0.1")]


def test_http_1_0_is_answered_and_closed_unless_it_asks_otherwise(serve: Serve) -> None:
    serving = serve()
    with serving.connect() as peer:
        answer = peer.ask(b"POST /a HTTP/1.0\r\nContent-Length: 1\r\n\r\nx")
        assert (answer.status, answer.headers["connection"]) == (202, "close")
        assert peer.rest() == b""
    with serving.connect() as peer:
        again = b"POST /a HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nx"
        assert peer.ask(again).headers["connection"] == "keep-alive"
        assert peer.ask(again).status == 202


def test_a_sender_that_wants_it_closed_has_it_closed(serve: Serve) -> None:
    with serve().connect() as peer:
        assert peer.ask(post(b"", "/a", "Connection: close")).headers["connection"] == "close"
        assert peer.rest() == b""


def test_a_sender_that_has_said_all_still_gets_its_answers(serve: Serve) -> None:
    with serve().connect() as peer:
        peer.send(post(b"a") + post(b"b"))
        peer.end()
        assert peer.answer().json()["body"] == "a"
        assert peer.answer().json()["body"] == "b"
        assert peer.rest() == b""


def test_an_upgrade_is_not_taken_up(serve: Serve) -> None:
    lines = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQ")
    with serve().connect() as peer:
        assert peer.ask(post(b"a", "/a", *lines)).status == 202
        assert peer.ask(post(b"b", "/a", "Connection: Upgrade", "Upgrade: websocket")).json()["body"] == "b"


@pytest.mark.parametrize(
    ("data", "status", "error"),
    [
        (HEAD + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, "ambiguous_length"),
        (HEAD + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", 400, "ambiguous_length"),
        (HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400, "ambiguous_length"),
        (HEAD + b"X: a\r\n b\r\n\r\n", 400, "malformed_request"),
        (HEAD + b"X: a\nY: b\r\n\r\n", 400, "malformed_request"),
        (b"POST /a HTTP/1.1\nHost: x\n\n", 400, "malformed_request"),
        (HEAD + b"X: a\0b\r\n\r\n", 400, "malformed_request"),
        (HEAD + b"X Y: a\r\n\r\n", 400, "malformed_request"),
        (b"CONNECT x:443 HTTP/1.1\r\nHost: x\r\n\r\n", 400, "malformed_request"),
        (b"POST /a HTTP/1.1\r\n\r\n", 400, "ambiguous_host"),
        (HEAD + b"Host: y\r\n\r\n", 400, "ambiguous_host"),
        (b"POST /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414, "target_too_long"),
        (HEAD + b"X: " + b"a" * 40_000 + b"\r\n\r\n", 431, "headers_too_large"),
        (HEAD + b"X: a\r\n" * 101 + b"\r\n", 431, "headers_too_large"),
        (HEAD + b"Expect: wonders\r\n\r\n", 417, "expectation_failed"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, "version_not_supported"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400, "malformed_request"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\nabc\n0\n\n", 400, "malformed_request"),
        (HEAD + b"Content-Length: 99999999\r\n\r\nabc", 413, "body_too_large"),
    ],
)
def test_what_is_no_plain_request_is_told_so_and_the_connection_ends(
    serve: Serve, data: bytes, status: int, error: str
) -> None:
    serving = serve()
    with serving.connect() as peer:
        answer = peer.ask(data + post(b"smuggled", "/smuggled"))
        assert (answer.status, answer.error, answer.headers["connection"]) == (status, error, "close")
        assert peer.rest() == b""
    assert serving.ask(post(b"next")).status == 202


def test_a_refusal_reaches_a_sender_that_goes_on_sending(serve: Serve) -> None:
    with serve().connect() as peer:
        peer.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        for _ in range(2 * LARGEST // 0x8000):
            peer.send(b"8000\r\n" + b"x" * 0x8000 + b"\r\n")
        assert peer.answer().error == "body_too_large"


def test_a_body_nobody_asked_for_is_passed_over_and_the_connection_used_again(serve: Serve) -> None:
    async def refuse(request: Request) -> Response:
        return Response(404, "text/plain", request.head.path.encode())

    with serve(refuse).connect() as peer:
        for body in (b"POST /smuggled HTTP/1.1\r\nHost: x\r\n\r\n", b"x" * 200_000, b""):
            assert peer.ask(post(body, "/first")).body == b"/first"
        peer.send(post(b"x" * 1000, "/cut")[:-500])
        assert peer.answer().body == b"/cut"
        peer.send(b"x" * 500 + post(b"", "/next"))
        assert peer.answer().body == b"/next"


@pytest.mark.parametrize(
    "data", [post(b"x" * 300_000), chunked(b"abc")[:-2], post(b"abc", "/a", "Expect: 100-continue")[:-3]]
)
def test_a_body_not_worth_reading_ends_the_connection(serve: Serve, data: bytes) -> None:
    async def refuse(request: Request) -> Response:
        return Response(404, "text/plain", b"")

    with serve(refuse).connect() as peer:
        assert peer.ask(data).headers["connection"] == "close"
        assert peer.rest() == b""


def test_a_sender_that_waits_to_be_told_to_go_on_is_told(serve: Serve) -> None:
    with serve().connect() as peer:
        peer.send(HEAD + b"Content-Length: 3\r\nExpect: 100-continue\r\n\r\n")
        assert peer.socket.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        assert peer.ask(b"abc").json()["body"] == "abc"
        # A client that sends the body at once needs no 100 Continue.
        assert peer.ask(post(b"abc", "/a", "Expect: 100-continue")).status == 202


def test_a_sender_whose_body_is_refused_is_not_told_to_go_on(serve: Serve) -> None:
    answer = serve().ask(HEAD + b"Content-Length: 99999999\r\nExpect: 100-continue\r\n\r\n")
    assert (answer.status, answer.error) == (413, "body_too_large")


def test_what_follows_a_body_never_becomes_a_header_of_the_next_request(serve: Serve) -> None:
    with serve().connect() as peer:
        peer.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n" + post(b"next"))
        answer = peer.answer()
        assert (answer.status, answer.headers["connection"]) == (202, "close")
        assert b"192.0.2.1" not in answer.body + peer.rest()


@pytest.mark.parametrize(
    "framing",
    [
        b"1\r\nx\r\n" * 60_000,
        b"1;" + b"a" * 1_500_000,
        b"1;aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\nx\r\n" * 20_000,
        b"0\r\n" + TRAILER,
    ],
    ids=["chunks of one byte", "an extension", "extensions", "a trailer"],
)
def test_a_body_of_framing_alone_is_refused(serve: Serve, framing: bytes) -> None:
    with serve().connect() as peer:
        peer.try_to_send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + framing)
        assert peer.answer().error == "malformed_request"


def test_framing_that_arrives_before_its_handler_has_begun_is_counted(serve: Serve) -> None:
    serving = serve()
    with serving.connect() as peer:
        # All of it has arrived when the loop reads again, and a part of it is read before the handler begins.
        serving.loop.call_soon_threadsafe(time.sleep, 0.3)
        peer.try_to_send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + TRAILER[:700_000])
        assert peer.answer().error == "malformed_request"


@pytest.mark.parametrize("data", [HEAD + b"Content-Length: 9\r\n\r\nabc", chunked(b"abc")[:-3]])
def test_a_body_that_ends_too_early_is_refused(serve: Serve, data: bytes) -> None:
    with serve().connect() as peer:
        peer.send(data)
        peer.end()
        assert peer.answer().error == "incomplete_body"
        assert peer.rest() == b""


def test_a_sender_that_goes_away_leaves_nothing_behind(serve: Serve) -> None:
    serving = serve()
    for data in (HEAD + b"Content-Length: 9\r\n\r\nabc", b"POST /a", post(b"abc"), b""):
        peer = serving.connect()
        peer.send(data)
        # Reset by the client at any point.
        peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.close()
    until(lambda: not serving.server.connections and serving.server.bodies.size == 0)


def test_a_handler_that_fails_is_answered_for(serve: Serve) -> None:
    async def fail(request: Request) -> Response:
        await request.read(10)
        if request.head.path == "/later":
            await asyncio.create_task(asyncio.sleep(0))
        raise RuntimeError("a secret")

    serving = serve(fail)
    for path in ("/now", "/later"):
        answer = serving.ask(post(b"x", path))
        assert (answer.status, answer.error) == (500, "internal_error")
        assert b"secret" not in answer.body


def test_a_sender_that_never_reads_its_answers_is_not_asked_further(serve: Serve) -> None:
    serving = serve()
    with serving.connect() as peer:
        peer.socket.settimeout(1)
        with pytest.raises(TimeoutError):
            peer.send(post(b"x" * 1000) * 100_000)
        assert serving.ask(post(b"me")).status == 202
        until(lambda: _all_gone_by_their_deadlines(serving))


def _all_gone_by_their_deadlines(serving: Serving) -> bool:
    serving.expired()
    return not serving.server.connections
