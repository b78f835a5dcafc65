"""Slow senders, many senders, and the end: nobody holds the listener up."""

from __future__ import annotations

import asyncio
import time

import pytest

from runtime import http
from tests.runtime.http.peer import Peer, Serve, Serving, until
from tests.runtime.http.test_connection import HEAD, chunked, post


def taken(serving: Serving, count: int) -> None:
    """Wait until so many connections are there."""
    until(lambda: len(serving.server.connections) == count)


def test_a_head_that_drips_in_is_cut_off(serve: Serve) -> None:
    serving = serve()
    with serving.connect() as peer:
        peer.send(b"POST /a HTTP/1.1\r\n")
        time.sleep(0.1)
        serving.later(serving.server.limits.head_seconds - 2)
        peer.send(b"X-Slow: loris\r\n")
        time.sleep(0.1)
        serving.later(serving.server.limits.head_seconds + 1)
        answer = peer.answer()
        assert (answer.status, answer.error) == (408, "timeout")
        assert peer.rest() == b""


def test_a_body_that_takes_too_long_is_refused(serve: Serve) -> None:
    serving = serve(body_rate=0)
    with serving.connect() as peer:
        peer.send(HEAD + b"Content-Length: 9\r\n\r\nabc")
        until(lambda: serving.server.gathered == 3)
        serving.later(serving.server.limits.body_seconds - 2)
        time.sleep(0.1)
        assert serving.server.gathered == 3
        serving.later(serving.server.limits.body_seconds + 1)
        assert peer.answer().error == "timeout"
    until(lambda: serving.server.gathered == 0)


@pytest.mark.parametrize("data", [HEAD + b"Content-Length: 100000\r\n\r\n" + b"x" * 2000, chunked(b"x" * 2000)[:-5]])
def test_a_body_that_drips_in_is_refused_long_before_that(serve: Serve, data: bytes) -> None:
    serving = serve()
    with serving.connect() as peer:
        peer.send(data)
        until(lambda: serving.server.gathered == 2000)
        serving.later(7)  # 2,000 bytes are well over 240 a second so far
        time.sleep(0.1)
        assert serving.server.gathered == 2000
        serving.later(10)
        assert peer.answer().error == "timeout"


def test_a_connection_that_nobody_uses_is_closed_without_a_word(serve: Serve) -> None:
    serving = serve()
    with serving.connect() as silent, serving.connect() as used:
        assert used.ask(post(b"")).status == 202
        taken(serving, 2)
        serving.later(serving.server.limits.head_seconds + 1)
        assert silent.rest() == b""
        assert used.ask(post(b"")).status == 202
        serving.later(serving.server.limits.idle_seconds + 1)
        assert used.rest() == b""


def test_a_request_that_is_being_handled_is_not_cut_off(serve: Serve) -> None:
    released = asyncio.Event()

    async def wait(request: http.Request) -> http.Response:
        await request.read(10)
        await released.wait()
        return http.Response(200, "text/plain", b"")

    serving = serve(wait)
    with serving.connect() as peer:
        peer.send(post(b"abc"))
        until(lambda: serving.server.gathered == 3)
        serving.expired()
        serving.loop.call_soon_threadsafe(released.set)
        assert peer.answer().status == 200


def test_deadlines_are_looked_at_by_themselves(serve: Serve) -> None:
    with serve(head_seconds=0.1).connect() as peer:
        peer.send(b"POST /a")
        assert peer.answer().error == "timeout"


def test_when_there_is_no_room_the_longest_idle_connection_goes(serve: Serve) -> None:
    serving = serve(connections=3)
    with serving.connect() as first, serving.connect() as second, serving.connect() as third:
        for peer in (first, second, third, first):
            assert peer.ask(post(b"")).status == 202
        with serving.connect() as fourth:
            assert fourth.ask(post(b"")).status == 202
            assert second.rest() == b""
            for peer in (first, third, fourth):
                assert peer.ask(post(b"")).status == 202


def test_when_there_is_no_room_and_nobody_idle_the_longest_unfinished_head_goes(serve: Serve) -> None:
    serving = serve(connections=2)
    with serving.connect() as first, serving.connect() as second:
        for peer in (first, second):
            peer.send(b"POST /a HTTP/1.1\r\nX-Slow: ")
            time.sleep(0.1)
        with serving.connect() as third:
            assert third.ask(post(b"")).status == 202
            assert first.rest() == b""
            assert second.ask(b"loris\r\nHost: x\r\nContent-Length: 0\r\n\r\n").status == 202
            assert third.ask(post(b"")).status == 202


def test_when_every_connection_is_at_work_a_new_one_is_told_to_come_again(serve: Serve) -> None:
    serving = serve(connections=2)
    with serving.connect() as first, serving.connect() as second:
        for peer in (first, second):
            peer.send(HEAD + b"Content-Length: 9\r\n\r\nabc")
        until(lambda: serving.server.gathered == 6)
        with serving.connect() as third:
            answer = third.answer()
            assert (answer.status, answer.error, answer.headers["retry-after"]) == (503, "overloaded", "1")
            assert third.rest() == b""
        assert first.ask(b"defghi").json()["body"] == "abcdefghi"


def test_all_bodies_together_are_bounded(serve: Serve) -> None:
    serving = serve(gathered=100_000)
    with serving.connect() as first:
        first.send(HEAD + b"Content-Length: 90000\r\n\r\n" + b"x" * 60_000)
        until(lambda: serving.server.gathered == 60_000)
        with serving.connect() as second:
            second.send(HEAD + b"Content-Length: 90000\r\n\r\n" + b"x" * 60_000)
            assert second.answer().error == "overloaded"
        assert serving.ask(post(b"x" * 20_000)).status == 202
        assert first.ask(b"x" * 30_000).status == 202
    until(lambda: serving.server.gathered == 0)


class _Gate:
    """A handler that waits to be let through."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.entered = 0

    async def handle(self, request: http.Request) -> http.Response:
        body = await request.read(100)
        self.entered += 1
        await self.open.wait()
        return http.Response(202, "text/plain", body)


def _refused(serving: Serving) -> bool:
    try:
        Peer(serving.address).close()
    except ConnectionRefusedError:
        return True
    return False


def test_a_stop_finishes_what_is_under_way_and_takes_no_more(serve: Serve) -> None:
    gate = _Gate()
    serving = serve(gate.handle)
    with serving.connect() as earlier:
        taken(serving, 1)
        earlier.close()
        taken(serving, 0)
    with serving.connect() as handled, serving.connect() as sending, serving.connect() as idle:
        handled.send(post(b"handled"))
        sending.send(HEAD + b"Content-Length: 7\r\n\r\nsen")
        until(lambda: gate.entered == 1 and serving.server.gathered == 10)
        stopped = serving.stop(20)
        assert idle.rest() == b""
        sending.send(b"ding")
        until(lambda: gate.entered == 2)
        assert not stopped.done()
        serving.loop.call_soon_threadsafe(gate.open.set)
        for peer, body in ((handled, b"handled"), (sending, b"sending")):
            answer = peer.answer()
            assert (answer.status, answer.body, answer.headers["connection"]) == (202, body, "close")
        stopped.result(20)
        until(lambda: _refused(serving))


def test_a_stop_does_not_wait_for_ever(serve: Serve) -> None:
    gate = _Gate()
    serving = serve(gate.handle)
    with serving.connect() as peer:
        peer.send(post(b"x"))
        until(lambda: gate.entered == 1)
        serving.stop(0.1).result(20)
        assert not serving.server.connections
        with pytest.raises((EOFError, ConnectionResetError)):
            peer.answer()
