"""Slow clients, many clients, and a stop: no client delays the listener."""

from __future__ import annotations

import asyncio
import time
from contextlib import ExitStack

import pytest

from runtime.http.error import HttpError
from runtime.http.request import Request
from runtime.http.response import Response, failure
from tests.runtime.http.peer import Peer, Serve, Serving, until
from tests.runtime.http.test_connection import HEAD, chunked, post


def taken(serving: Serving, count: int) -> None:
    """Wait until this many connections are open."""
    until(lambda: len(serving.server.connections) == count)


def begun(serving: Serving, count: int) -> None:
    """Wait until data was received on this many connections."""

    def some() -> int:
        return sum(not connection.idle for connection in list(serving.server.connections))

    until(lambda: some() == count)


def test_a_head_that_drips_in_is_cut_off(serve: Serve) -> None:
    serving = serve(head_seconds=600)
    with serving.connect() as peer:
        peer.send(b"POST /a HTTP/1.1\r\n")
        begun(serving, 1)
        serving.later(300)
        peer.send(b"X-Slow: loris\r\n")
        time.sleep(0.1)
        serving.later(601)
        answer = peer.answer()
        assert (answer.status, answer.error) == (408, "timeout")
        assert peer.rest() == b""


def test_a_body_that_takes_too_long_is_refused(serve: Serve) -> None:
    serving = serve(body_rate=0, body_seconds=600)
    with serving.connect() as peer:
        peer.send(HEAD + b"Content-Length: 9\r\n\r\nabc")
        until(lambda: serving.server.bodies.size == 3)
        serving.later(300)
        time.sleep(0.1)
        assert serving.server.bodies.size == 3
        serving.later(601)
        assert peer.answer().error == "timeout"
    until(lambda: serving.server.bodies.size == 0)


@pytest.mark.parametrize("data", [HEAD + b"Content-Length: 100000\r\n\r\n" + b"x" * 2000, chunked(b"x" * 2000)[:-5]])
def test_a_body_that_drips_in_is_refused_long_before_that(serve: Serve, data: bytes) -> None:
    slow = serve(body_rate=10, body_seconds=600)
    with slow.connect() as peer:
        peer.send(data)
        until(lambda: slow.server.bodies.size == 2000)
        slow.later(100)  # 2,000 bytes are far more than 10 a second so far
        time.sleep(0.1)
        assert slow.server.bodies.size == 2000
        slow.later(201)
        assert peer.answer().error == "timeout"
    serving = serve()
    with serving.connect() as peer:
        peer.send(data)
        until(lambda: serving.server.bodies.size == 2000)
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

    async def wait(request: Request) -> Response:
        await request.read(10)
        await released.wait()
        return Response(200, "text/plain", b"")

    serving = serve(wait)
    with serving.connect() as peer:
        peer.send(post(b"abc"))
        until(lambda: serving.server.bodies.size == 3)
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
    serving = serve(connections=2, head_seconds=600)
    with serving.connect() as first, serving.connect() as second:
        for number, peer in enumerate((first, second)):
            peer.send(b"POST /a HTTP/1.1\r\nX-Slow: ")
            begun(serving, number + 1)
        with serving.connect() as third:
            assert third.ask(post(b"")).status == 202
            assert first.rest() == b""
            assert second.ask(b"loris\r\nHost: x\r\nContent-Length: 0\r\n\r\n").status == 202
            assert third.ask(post(b"")).status == 202


class _Gate:
    """A handler that waits until the test releases it."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.entered = 0

    async def handle(self, request: Request) -> Response:
        body = await request.read(100)
        self.entered += 1
        await self.open.wait()
        return Response(202, "text/plain", body)


def test_when_every_connection_is_at_work_a_new_one_is_told_to_come_again(serve: Serve) -> None:
    gate = _Gate()
    serving = serve(gate.handle, connections=2)
    with serving.connect() as first, serving.connect() as second:
        for peer in (first, second):
            peer.send(post(b"abc"))
        until(lambda: gate.entered == 2)
        with serving.connect() as third:
            answer = third.answer()
            assert (answer.status, answer.error, answer.headers["retry-after"]) == (503, "overloaded", "1")
            assert third.rest() == b""
        serving.loop.call_soon_threadsafe(gate.open.set)
        assert first.answer().body == second.answer().body == b"abc"


def test_who_finds_no_room_reads_so_whatever_it_sends(serve: Serve) -> None:
    gate = _Gate()
    serving = serve(gate.handle, connections=1)
    with serving.connect() as first:
        first.send(post(b"abc"))
        until(lambda: gate.entered == 1)
        for _ in range(20):
            with serving.connect() as other:
                other.try_to_send(post(b"x" * 200_000))
                assert other.answer().error == "overloaded"
        serving.loop.call_soon_threadsafe(gate.open.set)
        assert first.answer().body == b"abc"


def test_when_there_is_no_room_and_nobody_idle_the_longest_awaited_body_goes(serve: Serve) -> None:
    serving = serve(connections=2, body_rate=0)
    with serving.connect() as first, serving.connect() as second:
        for number, peer in enumerate((first, second)):
            peer.send(HEAD + b"Content-Length: 9\r\n\r\nabc")
            until(lambda size=3 * (number + 1): serving.server.bodies.size == size)  # type: ignore[misc]
        with serving.connect() as third:
            assert third.ask(post(b"")).status == 202
            answer = first.answer()
            assert (answer.status, answer.error, answer.headers["connection"]) == (503, "overloaded", "close")
            assert first.rest() == b""
        assert second.ask(b"defghi").json()["body"] == "abcdefghi"
    until(lambda: serving.server.bodies.size == 0)


SLOW = {
    "silent": b"",
    "half a head": b"POST /a HTTP/1.1\r\nX-Slow: ",
    "half a body": HEAD + b"Content-Length: 9\r\n\r\nabc",
    "half a chunk": chunked(b"abc")[:-7],
    "waits to be told": HEAD + b"Content-Length: 9\r\nExpect: 100-continue\r\n\r\n",
    "refused": b"nonsense\r\n\r\n" + b"x" * 100,
}


@pytest.mark.parametrize("say", SLOW.values(), ids=SLOW)
def test_an_address_that_takes_every_connection_is_in_nobodys_way(serve: Serve, say: bytes) -> None:
    most = 20
    # No connection is closed for slowness here, so that the test does not depend on a fast machine.
    serving = serve(connections=most, head_seconds=600, body_seconds=600, body_rate=0)
    with ExitStack() as stack:
        others = [stack.enter_context(serving.connect("127.0.0.2")) for _ in range(3)]
        other = others[0]
        assert other.ask(post(b"before")).status == 202
        others[1].send(HEAD + b"Content-Length: 9\r\n\r\nabc")
        others[2].send(b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n")
        until(lambda: serving.server.bodies.size == 3)
        for _ in range(3 * most):
            stack.enter_context(serving.connect()).try_to_send(say)
            assert other.ask(post(b"meanwhile")).status == 202
            with serving.connect("127.0.0.3") as newcomer:
                assert newcomer.ask(post(b"hello")).json()["peer"] == "127.0.0.3"
        assert others[1].ask(b"defghi").json()["body"] == "abcdefghi"
        assert others[2].ask(b"\r\n").status == 202
        until(lambda: len(serving.server.connections) <= most)


def test_a_proxys_address_is_not_held_against_it(serve: Serve) -> None:
    serving = serve(connections=4, behind_proxies=True)
    with ExitStack() as stack:
        stranger = stack.enter_context(serving.connect("127.0.0.2"))
        assert stranger.ask(post(b"")).status == 202
        for _ in range(4):
            assert stack.enter_context(serving.connect()).ask(post(b"")).status == 202
        # The connection that was idle longest was closed, not one of those that share an address.
        assert stranger.rest() == b""


def test_a_stop_is_not_held_up_by_those_that_gave_way(serve: Serve) -> None:
    serving = serve(connections=2)
    with ExitStack() as stack:
        for _ in range(6):
            stack.enter_context(serving.connect()).try_to_send(SLOW["half a body"])
        until(lambda: len(serving.server.connections) == 2 and serving.server.bodies.size == 6)
        serving.stop(0.2).result(60)
        assert not serving.server.connections


def test_all_bodies_together_are_bounded(serve: Serve) -> None:
    serving = serve(all_bodies=100_000)
    with serving.connect() as first:
        first.send(HEAD + b"Content-Length: 90000\r\n\r\n" + b"x" * 60_000)
        until(lambda: serving.server.bodies.size == 60_000)
        with serving.connect() as second:
            second.send(HEAD + b"Content-Length: 90000\r\n\r\n" + b"x" * 60_000)
            assert second.answer().error == "overloaded"
        assert serving.ask(post(b"x" * 20_000)).status == 202
        assert first.ask(b"x" * 30_000).status == 202
    until(lambda: serving.server.bodies.size == 0)


def test_when_bodies_take_all_the_room_the_slowest_goes_once_it_had_its_time(serve: Serve) -> None:
    serving = serve(all_bodies=100_000)
    with serving.connect() as slowest, serving.connect() as slow, serving.connect() as fresh:
        slowest.send(HEAD + b"Content-Length: 90000\r\n\r\n" + b"x" * 30_000)
        until(lambda: serving.server.bodies.size == 30_000)
        slow.send(HEAD + b"Content-Length: 90000\r\n\r\n" + b"x" * 60_000)
        until(lambda: serving.server.bodies.size == 90_000)
        serving.older(serving.server.limits.body_grace + 1)
        fresh.send(HEAD + b"Content-Length: 60000\r\n\r\n" + b"x" * 30_000)
        assert slowest.answer().error == "overloaded"
        assert fresh.ask(b"x" * 30_000).status == 202
        assert slow.answer().error == "overloaded"
        assert serving.ask(post(b"x" * 20_000)).status == 202


async def _of_sender(request: Request) -> Response:
    try:
        await request.read(100_000, request.peer)
    except HttpError as problem:
        return failure(problem)
    return Response(202, "text/plain", b"")


def large(size: int) -> bytes:
    """Return the beginning of a request whose body has one more byte than `size`."""
    return HEAD + b"Content-Length: %d\r\n\r\n" % (size + 1) + b"x" * size


def test_large_bodies_of_one_address_leave_room_for_those_of_others(serve: Serve) -> None:
    serving = serve(_of_sender, all_bodies=100_000, small=1_000)
    with serving.connect("127.0.0.2") as first, serving.connect("127.0.0.2") as second, serving.connect() as other:
        first.send(large(20_000))
        until(lambda: serving.server.bodies.size == 20_000)
        second.send(large(20_000))
        assert second.answer().error == "overloaded"
        other.send(large(20_000))
        until(lambda: serving.server.bodies.size == 40_000)
        assert other.ask(b"x").status == 202
        assert first.ask(b"x").status == 202
    until(lambda: serving.server.bodies.size == 0)
    assert serving.server.bodies.large == 0


def test_large_bodies_of_many_addresses_leave_half_of_the_room_for_small_ones(serve: Serve) -> None:
    serving = serve(_of_sender, all_bodies=100_000, small=1_000)
    with ExitStack() as stack:
        senders = [stack.enter_context(serving.connect(f"127.0.0.{number}")) for number in range(2, 5)]
        for sender in senders:
            sender.send(large(20_000))
        until(lambda: serving.server.bodies.size == 40_000)
        small = [stack.enter_context(serving.connect("127.0.0.9")) for _ in range(50)]
        for each in small:
            each.send(large(999))
        until(lambda: serving.server.bodies.size == 40_000 + 50 * 999)
        assert [each.ask(b"x").status for each in small] == [202] * 50
        assert sum(sender.ask(b"x").status == 202 for sender in senders) == 2


def test_a_sender_of_little_takes_the_place_of_one_that_holds_more(serve: Serve) -> None:
    serving = serve(_of_sender, all_bodies=100_000, small=1_000)
    with ExitStack() as stack:
        greedy = [stack.enter_context(serving.connect("127.0.0.2")) for _ in range(2)]
        other, third = (stack.enter_context(serving.connect(f"127.0.0.{number}")) for number in (3, 4))
        for each in greedy:
            each.send(large(12_000))
        other.send(large(22_000))
        until(lambda: serving.server.bodies.size == 46_000)
        third.send(large(9_000))
        until(lambda: serving.server.bodies.size < 46_000)
        assert third.ask(b"x").status == 202


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
        until(lambda: gate.entered == 1 and serving.server.bodies.size == 10)
        stopped = serving.stop(60)
        assert idle.rest() == b""
        sending.send(b"ding")
        until(lambda: gate.entered == 2)
        assert not stopped.done()
        serving.loop.call_soon_threadsafe(gate.open.set)
        for peer, body in ((handled, b"handled"), (sending, b"sending")):
            answer = peer.answer()
            assert (answer.status, answer.body, answer.headers["connection"]) == (202, body, "close")
        stopped.result(60)
        until(lambda: _refused(serving))


def test_a_stop_does_not_wait_for_ever(serve: Serve) -> None:
    gate = _Gate()
    serving = serve(gate.handle)
    with serving.connect() as peer:
        peer.send(post(b"x"))
        until(lambda: gate.entered == 1)
        serving.stop(0.1).result(60)
        assert not serving.server.connections
        with pytest.raises((EOFError, ConnectionResetError)):
            peer.answer()
