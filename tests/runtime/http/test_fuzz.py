"""However a request is split or broken, it is read in one way, which is also h11's.

h11 is independent of llhttp, which the listener uses. The handler gets exactly what h11 reads, and never gets what h11
refuses.
"""

from __future__ import annotations

import itertools
import re

import h11
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.http.error import ERRORS
from runtime.http.head import CHUNKED
from tests.lanes import examples
from tests.runtime.http.memory import LARGEST, exchange

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
    b"PUT http://y.example/d?e HTTP/1.1\r\nHost: x\r\nX-\xe2: \xe2\x84\xaa \xff\r\nContent-Length: 1\r\n\r\n!",
    HEAD + b"X: \xe2\x84\xaa \xff\x80\r\nTransfer-Encoding: CHUNKED\r\nContent-Type: a/b\r\n\r\n1\r\na\r\n0\r\n\r\n",
]


@pytest.mark.parametrize("number", range(len(WHOLE)))
def test_a_cut_anywhere_changes_nothing(number: int) -> None:
    data = WHOLE[0] + WHOLE[number] + WHOLE[4]
    expected = exchange(data)
    for place in range(1, len(data)):
        assert exchange(data[:place], data[place:]) == expected, place
    assert exchange(*(data[place : place + 1] for place in range(len(data)))) == expected


def h11_reads(data: bytes) -> list[tuple[h11.Request, bytes]]:
    """Return the requests and bodies that h11 reads in `data`, up to the first refused or incomplete one."""
    found = []
    while data:
        connection = h11.Connection(h11.SERVER)
        # h11 refuses empty lines before a request, which RFC 9112 section 2.2 requires, and several spaces between the
        # parts of the request line, which section 3 allows.
        line, end, rest = data.lstrip(b"\r\n").partition(b"\n")
        connection.receive_data(re.sub(rb" +", b" ", line) + end + rest)
        try:
            request, body = connection.next_event(), b""
            if not isinstance(request, h11.Request):
                break
            while isinstance(part := connection.next_event(), h11.Data):
                body += part.data
        except h11.RemoteProtocolError:
            break
        if not isinstance(part, h11.EndOfMessage):
            break
        found.append((request, body))
        data = connection.trailing_data[0]
    return found


def agree(data: bytes) -> None:
    """Fail if the handler got a request that h11 reads differently or refuses."""
    said = exchange(data)
    if 404 in said.statuses:
        return
    theirs = h11_reads(data)
    assert len(said.taken) <= len(theirs), (said.taken, theirs)
    for (head, body), (request, their_body) in zip(said.taken, theirs, strict=False):
        assert head.method.encode() == request.method
        target = request.target.partition(b"://")[2] if b"://" in request.target else request.target
        path = head.path + ("?" + head.query if head.query else "")
        assert target.rstrip(b"?").endswith(path.rstrip("?").encode())
        assert head.minor == int(request.http_version[-1:])
        pairs = [(name.lower().encode(), value.encode("utf-8", "surrogateescape")) for name, value in head.pairs]
        # h11 reads this one.
        assert [(name, b"chunked" if name == b"transfer-encoding" else value) for name, value in pairs] == list(
            request.headers
        )
        assert body == their_body
        fields = dict(pairs)
        assert (head.length == CHUNKED) == (b"transfer-encoding" in fields)
        assert len(body) <= LARGEST
        assert head.length in {CHUNKED, len(body)}


DAMAGE = st.sampled_from(
    [
        *(b"", b"\0", b"\r", b"\n", b"\r\n", b" ", b"\t", b":", b",", b";", b"0", b"\r\n\r\n", b"#", b"?", b"//", b"@"),
        *("\u212a".encode(), "\u017f".encode(), b"\xa0", b"\x85", b"\xad", b"\xef\xbc\x8d", b"\xc2\xa0"),
    ]
) | st.binary(min_size=1, max_size=2)


@settings(max_examples=examples(300), database=None)
@given(
    parts=st.lists(st.sampled_from(WHOLE), min_size=1, max_size=3),
    place=st.integers(0, 250),
    removed=st.integers(0, 3),
    inserted=DAMAGE,
    cuts=st.lists(st.integers(0, 300), max_size=6),
)
def test_damage_is_read_alike_however_it_is_cut_and_as_h11_reads_it(
    parts: list[bytes], place: int, removed: int, inserted: bytes, cuts: list[int]
) -> None:
    data = b"".join(parts)
    place %= len(data) + 1
    data = data[:place] + inserted + data[place + removed :]
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    pieces, whole = exchange(*(data[start:end] for start, end in itertools.pairwise(edges))), exchange(data)
    if pieces.error != whole.error:
        # A head and what follows it are both wrong. Received together, what follows is refused before the head is read.
        assert whole.error == "malformed_request"
        assert pieces.error is not None
        assert pieces.statuses == [*whole.statuses[:-1], ERRORS[pieces.error][0]]
        whole = whole._replace(statuses=pieces.statuses, error=pieces.error)
    assert pieces == whole
    agree(data)


LINES = st.sampled_from(
    [
        *(b"Host: x", b"X: y", b"x: z", b"Content-Length: 5", b"Content-Length: 05", b"Content-Length:5"),
        *(b"Content-Length: +5", b"Content-Length: \xd9\xa5", b"Transfer-Encoding: chunked", b"Connection: close"),
        *(b"transfer-encoding:chunked", b"Transfer-Encoding: gzip", b"Transfer-Encoding: chunked, x", b"X:"),
        *("Transfer-Encoding: chun\u212aed".encode(), "Connection: \u212aeep-alive".encode(), b"\xe2\x84\xaa: a"),
        *(b"Connection: keep-alive", b"Connection: upgrade", b"Upgrade: h2c", b"X: \t a \t", b" folded", b"\tfolded"),
        *(b"No colon", b"X : y", b"Transfer-Encoding : chunked", b"Expect: 100-continue", b"X: \x80\xff", b"X\xff: a"),
    ]
)
STARTS = st.sampled_from(
    [
        *(b"POST /hooks/a HTTP/1.1", b"GET /?q HTTP/1.0", b"OPTIONS * HTTP/1.1", b"POST /a HTTP/1.2"),
        *(b"POST http://x/a HTTP/1.1", b"POST  /a HTTP/1.1", b"GET /a", b"POST /a HTTP/1.1 ", b"POST /\xe2 HTTP/1.1"),
        *(b"PUT /%2e%2e/a HTTP/1.1", "POST /\u212a HTTP/1.1".encode(), b"POST /a#b HTTP/1.1", b"POST //a HTTP/1.1"),
    ]
)
BREAKS = st.sampled_from([b"\r\n"] * 12 + [b"\n", b"\r", b"\n\r", b"\r\r\n", b"\xc2\x85"])
BODIES = st.sampled_from(
    [b"", b"abcde", b"5\r\nabcde\r\n0\r\n\r\n", b"5\nabcde\n0\n\n", b"0005;\x80\r\nabcde\r\n0\r\n\r\n"]
)


@settings(max_examples=examples(300), database=None)
@given(start=STARTS, lines=st.lists(st.tuples(BREAKS, LINES), max_size=6), body=BODIES)
def test_what_is_taken_is_what_h11_reads(start: bytes, lines: list[tuple[bytes, bytes]], body: bytes) -> None:
    agree(start + b"".join(end + line for end, line in lines) + b"\r\n\r\n" + body)
