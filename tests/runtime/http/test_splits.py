"""However the network cuts what was sent, it is the same requests and the same answers."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import re

import httptools
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime import http
from runtime.http.connection import Connection

COUNT = int(os.environ.get("SYMBIONT_SPLITS", "0"))
"""How many examples; few unless it is set."""

_STATUS = re.compile(rb"HTTP/1\.1 ([0-9]{3}) ")


class _Transport(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__({"peername": ("192.0.2.1", 1)})
        self.written = b""
        self.ended = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.ended
        self.written += data

    def write_eof(self) -> None:
        self.ended = True

    def can_write_eof(self) -> bool:
        return True

    def close(self) -> None:
        self.ended = True

    def abort(self) -> None:
        self.ended = True

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        """What is fed comes all the same."""

    def resume_reading(self) -> None:
        """It never stopped."""


Taken = list[tuple[str, str, bytes]]


def exchange(*pieces: bytes) -> tuple[Taken, list[bytes], bool]:
    """What was taken, the status of each answer, and whether the connection ended."""
    taken: Taken = []

    async def handle(request: http.Request) -> http.Response:
        if request.head.path == "/unread":
            return http.Response(404, "text/plain", b"")
        try:
            body = await request.read(64)
        except http.Problem as problem:
            return http.failure(problem)
        taken.append((request.head.method, request.head.path, body))
        return http.Response(202, "text/plain", b"")

    async def play() -> _Transport:
        transport = _Transport()
        connection = Connection(http.Server(handle))
        connection.connection_made(transport)
        for piece in pieces:
            connection.data_received(piece)
            for _ in range(4):
                await asyncio.sleep(0)
        connection.connection_lost(None)
        for _ in range(4):
            await asyncio.sleep(0)
        return transport

    transport = asyncio.run(play())
    return taken, [each for each in _STATUS.findall(transport.written) if each != b"100"], transport.ended


HEAD = b"POST /a HTTP/1.1\r\nHost: x\r\n"
WHOLE = [
    HEAD + b"Content-Length: 3\r\n\r\nabc",
    HEAD + b"Transfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nX: y\r\n\r\n",
    b"POST /unread HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nGET / HTT",
    HEAD + b"Expect: 100-continue\r\nContent-Length: 3\r\n\r\nabc",
    b"GET /b HTTP/1.1\r\nHost: x\r\n\r\n",
    b"\r\nHEAD /c HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    HEAD + b"X: a\r\n b\r\n\r\n",
    HEAD + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    HEAD + b"Content-Length: 65\r\n\r\n" + b"x" * 65,
    HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n",
    HEAD + b"Connection: close\r\nContent-Length: 0\r\n\r\n",
]


@pytest.mark.parametrize("number", range(len(WHOLE)))
def test_a_cut_anywhere_changes_nothing(number: int) -> None:
    data = WHOLE[0] + WHOLE[number] + WHOLE[4]
    expected = exchange(data)
    for place in range(1, len(data)):
        assert exchange(data[:place], data[place:]) == expected, place
    assert exchange(*(data[place : place + 1] for place in range(len(data)))) == expected


DAMAGE = st.sampled_from([b"", b"\0", b"\r", b"\n", b"\r\n", b" ", b"\t", b":", b",", b";", b"0", b"\x80", b"\r\n\r\n"])


class _Theirs:
    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.complete = 0

    def on_message_begin(self) -> None:
        self.bodies.append(b"")

    def on_body(self, data: bytes) -> None:
        self.bodies[-1] += data

    def on_message_complete(self) -> None:
        self.complete += 1


@settings(max_examples=COUNT or 100, deadline=None, derandomize=not COUNT, database=None)
@given(
    parts=st.lists(st.sampled_from(WHOLE), min_size=1, max_size=3),
    place=st.integers(0, 250),
    removed=st.integers(0, 3),
    inserted=DAMAGE,
    cuts=st.lists(st.integers(0, 300), max_size=6),
)
def test_damage_is_read_alike_however_it_is_cut_and_as_llhttp_reads_it(
    parts: list[bytes], place: int, removed: int, inserted: bytes, cuts: list[int]
) -> None:
    data = b"".join(parts)
    place %= len(data) + 1
    data = data[:place] + inserted + data[place + removed :]
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    pieces = [data[start:end] for start, end in itertools.pairwise(edges)]
    expected = exchange(data)
    assert exchange(*pieces) == expected
    taken, statuses, _ = expected
    if b"404" in statuses or not all(method in {"GET", "HEAD", "POST"} for method, _, _ in taken):
        return
    theirs = _Theirs()
    with contextlib.suppress(httptools.HttpParserError):
        httptools.HttpRequestParser(theirs).feed_data(data)
    assert theirs.complete >= len(taken)
    assert [body for _, _, body in taken] == theirs.bodies[: len(taken)]
