"""Heads: one reading, or none. Each way in which two servers have read one request differently is refused."""

from __future__ import annotations

import httptools
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.http.head import CHUNKED, Head, check_beginning, parse
from runtime.http.limits import Limits
from runtime.http.problem import Problem

LIMITS = Limits()


def head(*lines: str, start: str = "POST /hooks/a HTTP/1.1", host: bool = True) -> bytes:
    return "\r\n".join([start, *(["Host: x"] if host else []), *lines]).encode("latin-1")


def refused(data: bytes) -> str:
    with pytest.raises(Problem) as caught:
        parse(data, LIMITS)
    return caught.value.error


def test_a_head_is_read_as_it_was_sent() -> None:
    read = parse(head("X-One:  a b\t ", "x-ONE: c", "Content-Length: 12", start="POST /a/b?c=d?e HTTP/1.1"), LIMITS)
    assert (read.method, read.path, read.query, read.minor) == ("POST", "/a/b", "c=d?e", 1)
    assert list(read.pairs) == [("Host", "x"), ("X-One", "a b"), ("x-ONE", "c"), ("Content-Length", "12")]
    assert read.fields == {"host": "x", "x-one": "a b", "content-length": "12"}
    assert read.repeated == {"x-one"}
    assert (read.length, read.keep_alive, read.expects) == (12, True, False)


def test_a_request_without_a_length_has_no_body() -> None:
    assert parse(head(), LIMITS).length == 0


@pytest.mark.parametrize("coding", ["chunked", "CHUNKED", "  chunked "])
def test_a_chunked_body_says_its_length_itself(coding: str) -> None:
    assert parse(head(f"Transfer-Encoding: {coding}"), LIMITS).length == CHUNKED


@pytest.mark.parametrize(
    "lines",
    [
        ("Content-Length: 3", "Transfer-Encoding: chunked"),
        ("Transfer-Encoding: chunked", "Content-Length: 3"),
        ("Content-Length: 3", "TRANSFER-encoding: chunked"),
    ],
)
def test_a_length_and_a_transfer_coding_together_are_refused(lines: tuple[str, ...]) -> None:
    assert refused(head(*lines)) == "ambiguous_length"


@pytest.mark.parametrize("other", ["3", "4"])
def test_two_lengths_are_refused_even_when_they_are_the_same(other: str) -> None:
    assert refused(head("Content-Length: 3", f"content-length: {other}")) == "ambiguous_length"


@pytest.mark.parametrize(
    "length", ["", "3, 3", "+3", "-3", "0x3", "3 3", "3;", "1_0", "３", "9" * 19, "3.0", "1e3", "\u0663"]
)
def test_a_length_that_is_no_plain_number_is_refused(length: str) -> None:
    data = b"\r\n".join([head(), b"Content-Length: " + length.encode()])
    assert refused(data) == "ambiguous_length"


@pytest.mark.parametrize(
    "coding",
    [
        *("identity", "gzip, chunked", "chunked, chunked", "chunked,", ", chunked", "xchunked", "chunkedx"),
        *('"chunked"', "chunked;q=1", "gzip", "", "chunked, identity", "chun ked"),
    ],
)
def test_any_transfer_coding_but_chunked_is_refused(coding: str) -> None:
    assert refused(head(f"Transfer-Encoding: {coding}")) == "ambiguous_length"


def test_a_transfer_coding_given_twice_is_refused() -> None:
    assert refused(head("Transfer-Encoding: chunked", "Transfer-Encoding: chunked")) == "ambiguous_length"
    assert refused(head("Transfer-Encoding: chunked", "Transfer-Encoding: identity")) == "ambiguous_length"


def test_a_transfer_coding_in_http_1_0_is_refused() -> None:
    assert refused(head("Transfer-Encoding: chunked", start="POST /a HTTP/1.0")) == "ambiguous_length"


@pytest.mark.parametrize("space", [" ", "\t", "  "])
def test_a_value_that_goes_on_in_the_next_line_is_refused(space: str) -> None:
    assert refused(head("X: a", f"{space}b")) == "malformed_request"
    assert refused(head(host=False) + f"\r\n{space}Host: x".encode()) == "malformed_request"
    assert refused(head("Transfer-Encoding:", f"{space}chunked")) == "malformed_request"


@pytest.mark.parametrize(
    "data",
    [
        b"POST /a HTTP/1.1\nHost: x",
        b"POST /a HTTP/1.1\r\nHost: x\nX: a",
        b"POST /a HTTP/1.1\r\nHost: x\rX: a",
        b"POST /a HTTP/1.1\r\nHost: x\n\rX: a",
        b"POST /a HTTP/1.1\r\r\nHost: x",
        b"POST /a HTTP/1.1\rHost: x\n",
    ],
)
def test_a_bare_line_feed_or_carriage_return_is_refused(data: bytes) -> None:
    assert refused(data) == "malformed_request"


@pytest.mark.parametrize("character", ["\x00", "\x01", "\x0b", "\x0c", "\x1b", "\x7f"])
def test_a_control_character_is_refused_wherever_it_stands(character: str) -> None:
    for data in (head(f"X: a{character}b"), head(f"X{character}: a"), head(start=f"POST /{character} HTTP/1.1")):
        assert refused(data) == "malformed_request"


@pytest.mark.parametrize("line", ["X : a", "X\t: a", "X Y: a", ": a", "X", "X\xe9: a", "(X): a", 'X": a', "X/Y: a", ""])
def test_a_name_that_is_no_token_is_refused(line: str) -> None:
    assert refused(head(line, "Y: b")) == "malformed_request"


def test_a_space_before_the_colon_hides_no_length() -> None:
    assert refused(head("Content-Length : 3")) == "malformed_request"
    assert refused(head("Transfer-Encoding : chunked")) == "malformed_request"


@pytest.mark.parametrize(
    "start",
    [
        *("POST  /a HTTP/1.1", "POST /a  HTTP/1.1", "POST\t/a HTTP/1.1", " POST /a HTTP/1.1", "POST /a HTTP/1.1 "),
        *("POST /a b HTTP/1.1", "POST /a", "GET /", "POST HTTP/1.1", "POST  HTTP/1.1", "POST /a http/1.1", ""),
        *("POST /a HTTP/1.1x", "POST /a HTTP/11", "POST /a HTTP/1.10", "POST /a RTSP/1.0", "POST /a ICE/1.0"),
        *(
            "P(ST /a HTTP/1.1",
            "POST /a#b HTTP/1.1",
            "POST /\xe9 HTTP/1.1",
            "POST a HTTP/1.1",
            "POST /a HTTPS/1.1",
            "POST /a HTTP/１.1",
        ),
    ],
)
def test_a_request_line_of_another_form_is_refused(start: str) -> None:
    assert refused(start.encode() + b"\r\nHost: x") == "malformed_request"


@pytest.mark.parametrize("version", ["0.9", "1.2", "2.0", "3.0", "0.0"])
def test_another_version_is_refused(version: str) -> None:
    assert refused(head(start=f"POST /a HTTP/{version}")) == "version_not_supported"


def test_the_preface_of_http_2_is_refused() -> None:
    assert refused(b"PRI * HTTP/2.0") == "version_not_supported"


def test_a_request_needs_exactly_one_host() -> None:
    assert refused(head(host=False)) == "ambiguous_host"
    assert refused(head("Host: y")) == "ambiguous_host"
    assert refused(head("hOST: x")) == "ambiguous_host"
    assert parse(head(host=False, start="POST /a HTTP/1.0"), LIMITS).minor == 0
    assert refused(head("Host: x", start="POST /a HTTP/1.0")) == "ambiguous_host"


@pytest.mark.parametrize("host", ["", "x", "x:", "x:8080", "127.0.0.1:1", "[::1]:8080", "xn--a.example", "a_b.c"])
def test_a_host_is_a_name_or_an_address_and_a_port(host: str) -> None:
    assert parse(head(f"Host: {host}", host=False), LIMITS).fields["host"] == host


@pytest.mark.parametrize(
    "host",
    ["user@x", "x y", "x/", "x?", "x#", "http://x", "x:y", "x:1:2", "::1", "[::1", "[]", "x:123456", "é"],
)
def test_what_is_no_host_is_refused(host: str) -> None:
    for start in ("POST /a HTTP/1.1", "POST /a HTTP/1.0"):
        assert refused(head(f"Host: {host}", host=False, start=start)) == "ambiguous_host"


def test_a_tunnel_is_refused() -> None:
    assert refused(b"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com") == "malformed_request"


@pytest.mark.parametrize(
    "target",
    [
        *("/hooks/%61", "/hooks//a", "/hooks/./a", "/hooks/../hooks/a", "//hooks/a", "/hooks/a/", "/hooks/a;x=1"),
        *("/HOOKS/a", "/hooks\\a", "http://x/hooks/a", "*", "/hooks/a%00", "/hooks%2fa"),
    ],
)
def test_no_other_spelling_of_a_path_becomes_it(target: str) -> None:
    read = parse(head(start=f"POST {target} HTTP/1.1"), LIMITS)
    assert read.path == target
    assert read.path != "/hooks/a"


def test_a_line_over_the_limit_is_refused() -> None:
    fits = "/" + "a" * (LIMITS.line - len("POST / HTTP/1.1"))
    assert parse(head(start=f"POST {fits} HTTP/1.1"), LIMITS).path == fits
    assert refused(head(start=f"POST {fits}a HTTP/1.1")) == "target_too_long"


def test_more_headers_than_the_limit_are_refused() -> None:
    lines = [f"X-{number}: a" for number in range(LIMITS.fields - 1)]
    assert len(parse(head(*lines), LIMITS).pairs) == LIMITS.fields
    assert refused(head(*lines, "X: a")) == "headers_too_large"


def test_only_100_continue_can_be_expected() -> None:
    assert parse(head("Expect: 100-Continue"), LIMITS).expects
    assert refused(head("Expect: 200-ok")) == "expectation_failed"
    assert refused(head("Expect: 100-continue", "Expect: 100-continue")) == "expectation_failed"
    assert not parse(head("Expect: 100-continue", start="POST /a HTTP/1.0"), LIMITS).expects


@pytest.mark.parametrize(
    ("lines", "start", "alive"),
    [
        ((), "POST /a HTTP/1.1", True),
        (("Connection: close",), "POST /a HTTP/1.1", False),
        (("Connection: x, CLOSE",), "POST /a HTTP/1.1", False),
        (("Connection: keep-alive", "Connection: close"), "POST /a HTTP/1.1", False),
        ((), "POST /a HTTP/1.0", False),
        (("Connection: Keep-Alive",), "POST /a HTTP/1.0", True),
    ],
)
def test_who_wants_the_connection_closed_says_so(lines: tuple[str, ...], start: str, alive: bool) -> None:
    assert parse(head(*lines, start=start), LIMITS).keep_alive is alive


def test_bytes_that_are_no_utf_8_are_kept_apart_from_text() -> None:
    read = parse(b"POST /a HTTP/1.1\r\nHost: x\r\nX: \xe9\r\nY: \xc3\xa9", LIMITS)
    assert (read.fields["x"], read.fields["y"]) == ("\udce9", "é")


@pytest.mark.parametrize(
    "data", [b"\x16\x03\x01\x02\x00", b"POST /a HTTP/1.1\n", b"\0", b" POST", b"GET / HTTP/1.1\n\n"]
)
def test_what_will_never_be_a_head_is_refused_at_once(data: bytes) -> None:
    with pytest.raises(Problem, match="malformed_request"):
        check_beginning(data, LIMITS)


@pytest.mark.parametrize(
    ("data", "error"),
    [(b"P" * 9000, "target_too_long"), (b"POST / HTTP/1.1\r\nX: " + b"a" * 33_000, "headers_too_large")],
)
def test_what_has_grown_too_large_is_refused_before_it_ends(data: bytes, error: str) -> None:
    with pytest.raises(Problem, match=error):
        check_beginning(data, LIMITS)


class _Theirs:
    """What llhttp, the parser of Node.js, reads."""

    def __init__(self) -> None:
        self.pairs: list[tuple[bytes, bytes]] = []
        self.url = b""
        self.complete = False

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.pairs.append((name, value.strip(b" \t")))

    def on_headers_complete(self) -> None:
        self.complete = True


def _agree(data: bytes) -> Head | None:
    """What is read of `data`, which llhttp reads alike; None when it is refused, which llhttp may see otherwise."""
    try:
        ours = parse(data, LIMITS)
    except Problem:
        return None
    theirs = _Theirs()
    parser = httptools.HttpRequestParser(theirs)
    try:
        parser.feed_data(data + b"\r\n\r\n")
    except httptools.HttpParserInvalidMethodError:
        # It knows some methods and no others; here any token is one, and no route has it.
        return ours
    except httptools.HttpParserUpgrade:
        # Ours reads on in HTTP/1.1, as RFC 9110 section 7.8 lets it.
        assert "upgrade" in ours.fields
    assert theirs.complete
    assert theirs.url.decode() == ours.path + ("?" + ours.query if "?" in theirs.url.decode() else "")
    assert parser.get_method().decode() == ours.method
    assert parser.get_http_version() == f"1.{ours.minor}"
    # llhttp tells nothing of a header without a value when it is the last one of all.
    decoded = [(name.decode(), value.decode("utf-8", "surrogateescape")) for name, value in theirs.pairs]
    assert [pair for pair in decoded if pair[1]] == [pair for pair in ours.pairs if pair[1]]
    return ours


_LINES = st.sampled_from(
    [
        *(
            "Host: x",
            "X: y",
            "x: z",
            "Content-Length: 5",
            "Content-Length: 05",
            "Content-Length:5",
            "Content-Length: +5",
        ),
        *("Transfer-Encoding: chunked", "transfer-encoding:chunked", "Transfer-Encoding: gzip", "Expect: 100-continue"),
        *("Connection: close", "Connection: keep-alive", "Connection: upgrade", "Upgrade: h2c", "X:", "X: \t a \t"),
        *(" folded", "\tfolded", "No colon", "X : y", "Transfer-Encoding : chunked", "Transfer-Encoding: chunked, x"),
    ]
)
_STARTS = st.sampled_from(
    [
        *(
            "POST /hooks/a HTTP/1.1",
            "GET /?q HTTP/1.0",
            "OPTIONS * HTTP/1.1",
            "POST /a HTTP/1.2",
            "POST http://x/a HTTP/1.1",
        ),
        *("POST  /a HTTP/1.1", "PRI * HTTP/2.0", "GET /a", "POST /a HTTP/1.1 ", "PUT /%2e%2e/a HTTP/1.1"),
    ]
)
_BREAKS = st.sampled_from(["\r\n"] * 12 + ["\n", "\r", "\r\n\r\n", "\n\r", "\r\r\n"])


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_what_is_taken_is_what_llhttp_reads(data: st.DataObject) -> None:
    text = data.draw(_STARTS)
    for line in data.draw(st.lists(_LINES, max_size=6)):
        text += data.draw(_BREAKS) + line
    if b"\r\n\r\n" not in text.encode():
        _agree(text.encode())


@settings(max_examples=400, deadline=None)
@given(
    place=st.integers(0, 120),
    removed=st.integers(0, 3),
    inserted=st.binary(max_size=3) | st.sampled_from([b"\0", b"\r", b"\n", b" ", b"\t", b":", b"\x80", b","]),
)
def test_a_damaged_head_is_refused_or_read_as_llhttp_reads_it(place: int, removed: int, inserted: bytes) -> None:
    whole = head("Content-Length: 5", "X-Hub-Signature-256: sha256=abc", "Connection: close")
    damaged = whole[:place] + inserted + whole[place + removed :]
    if b"\r\n\r\n" not in damaged:
        _agree(damaged)
