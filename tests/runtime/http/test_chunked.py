"""Chunked bodies: however they are cut on the way, the same bytes or a refusal."""

from __future__ import annotations

import contextlib

import httptools
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.http.chunked import LONGEST_TRAILER, MOST_FRAMING, Chunks
from runtime.http.problem import Problem

LIMIT = 1024 * 1024


def decode(data: bytes, cut: int = 0) -> tuple[bytes, bytes] | None:
    """The body and what follows it, fed in pieces of `cut` bytes (0: at once); None when it is not whole."""
    chunks = Chunks()
    size = cut or len(data) or 1
    for start in range(0, len(data), size):
        rest = chunks.feed(data[start : start + size], LIMIT)
        if rest is not None:
            return chunks.body(), rest + data[start + size :]
    return None


@pytest.mark.parametrize("cut", [0, 1, 2, 3, 5, 7])
def test_a_body_is_the_same_however_it_is_cut(cut: int) -> None:
    data = b'3\r\nabc\r\n0A;name=value;x;y="z "\r\n0123456789\r\n0\r\nX: y\r\nZ:\r\n\r\nGET /'
    assert decode(data, cut) == (b"abc0123456789", b"GET /")


def test_a_trailer_is_ignored() -> None:
    assert decode(b"0\r\nX-Hub-Signature-256: sha256=abc\r\n\r\n") == (b"", b"")


@pytest.mark.parametrize("name", ["Content-Length", "transfer-encoding", "Host"])
def test_a_trailer_that_speaks_of_the_body_is_refused(name: str) -> None:
    with pytest.raises(Problem):
        decode(f"1\r\na\r\n0\r\n{name}: 5\r\n\r\n".encode())


@pytest.mark.parametrize(
    "data",
    [
        *(b"0x3\r\nabc\r\n", b"-3\r\nabc\r\n", b"+3\r\nabc\r\n", b" 3\r\nabc\r\n", b"3 \r\nabc\r\n", b"\r\n", b"g\r\n"),
        *(
            b"3\nabc\n",
            b"3\r\nabc0\r\n\r\n",
            b"3\r\nabcd\r\n",
            b"3\r\nabc\n0\r\n",
            b"3\r\nabc\r0",
            b"3_0\r\n",
            *(b";a\r\n", b"3;\r\nabc\r\n", b"3;a=\r\nabc\r\n", b"3 ;a\r\nabc\r\n", b'3;a="\r\nabc\r\n'),
        ),
        *(b"3;a\nb\r\nabc\r\n", b"3;\0\r\nabc\r\n", b"f" * 16 + b"\r\n", b"0\r\nX : y\r\n\r\n", b"0\r\n y\r\n\r\n"),
        *(b"0\r\nX: y\n\r\n", b"0\r\n\n", b"\xef\xbc\x93\r\nabc\r\n", b"3;" + b"a" * 300 + b"\r\nabc\r\n"),
    ],
)
def test_chunks_of_another_form_are_refused(data: bytes) -> None:
    for cut in (0, 1):
        with pytest.raises(Problem, match="malformed_request"):
            decode(data, cut)


def test_no_more_than_the_limit_is_decoded() -> None:
    chunks = Chunks()
    assert chunks.feed(b"10\r\n" + b"x" * 16 + b"\r\n10\r\n" + b"x" * 16, 8) is None
    assert chunks.size == 16


def test_a_body_of_framing_alone_is_refused() -> None:
    with pytest.raises(Problem):
        decode(b"1;aaaaaaaaaaaa\r\nx\r\n" * MOST_FRAMING)


def test_an_endless_trailer_is_refused() -> None:
    with pytest.raises(Problem):
        decode(b"0\r\n" + b"X: y\r\n" * LONGEST_TRAILER)


class _Theirs:
    def __init__(self) -> None:
        self.body = b""
        self.complete = False

    def on_body(self, data: bytes) -> None:
        self.body += data

    def on_message_complete(self) -> None:
        self.complete = True


@settings(max_examples=300, deadline=None)
@given(
    parts=st.lists(st.binary(min_size=1, max_size=40), max_size=4),
    cut=st.integers(0, 9),
    place=st.integers(0, 200),
    removed=st.integers(0, 2),
    inserted=st.sampled_from([b"", b"", b"\0", b"\r", b"\n", b" ", b";", b"1", b"0\r\n", b"\r\n", b"x: y\r\n"]),
)
def test_what_is_taken_is_what_llhttp_decodes(
    parts: list[bytes], cut: int, place: int, removed: int, inserted: bytes
) -> None:
    whole = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
    place = min(place, len(whole))
    damaged = whole[:place] + inserted + whole[place + removed :]
    try:
        ours = decode(damaged, cut)
    except Problem:
        return
    theirs = _Theirs()
    parser = httptools.HttpRequestParser(theirs)
    head = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    if ours is None:
        with contextlib.suppress(httptools.HttpParserError):
            parser.feed_data(head + damaged)
        assert not theirs.complete
        return
    parser.feed_data(head + damaged[: len(damaged) - len(ours[1])])
    assert (theirs.complete, theirs.body) == (True, ours[0])
