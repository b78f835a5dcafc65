"""Request heads: one reading, or none. Each form that two servers have read differently is refused."""

from __future__ import annotations

from runtime.http.head import CHUNKED, RequestHead
from runtime.http.limits import HttpLimits
from tests.cases import each_case
from tests.runtime.http.memory import exchange

LIMITS = HttpLimits()


def head(*lines: str, start: str = "POST /hooks/a HTTP/1.1", host: bool = True) -> bytes:
    return "\r\n".join([start, *(["Host: x"] if host else []), *lines]).encode("latin-1")


def parse(data: bytes) -> RequestHead:
    """Return what a handler gets for the head `data`."""
    said = exchange(data + b"\r\n\r\n", b"0\r\n\r\n" * 4)
    assert said.taken, said
    return said.taken[0][0]


def refused(data: bytes) -> str:
    """Return the error with which the head `data` is refused."""
    said = exchange(data + b"\r\n\r\n")
    assert not said.taken
    assert said.ended
    assert said.error is not None
    return said.error


def test_a_head_is_read_as_it_was_sent() -> None:
    read = parse(head("X-One:  a b\t ", "x-ONE: c", "Content-Length: 12", start="POST /a/b?c=d?e HTTP/1.1"))
    assert (read.method, read.path, read.query, read.minor) == ("POST", "/a/b", "c=d?e", 1)
    assert list(read.pairs) == [("Host", "x"), ("X-One", "a b"), ("x-ONE", "c"), ("Content-Length", "12")]
    assert read.fields == {"host": "x", "x-one": "a b", "content-length": "12"}
    assert read.repeated == {"x-one"}
    assert (read.length, read.keep_alive, read.expects) == (12, True, False)


def test_a_request_without_a_length_has_no_body() -> None:
    assert parse(head()).length == 0


@each_case("coding", ["chunked", "CHUNKED", "  chunked "])
def test_a_chunked_body_says_its_length_itself(coding: str) -> None:
    assert parse(head(f"Transfer-Encoding: {coding}")).length == CHUNKED


@each_case(
    "lines",
    [
        ("Content-Length: 3", "Transfer-Encoding: chunked"),
        ("Transfer-Encoding: chunked", "Content-Length: 3"),
        ("Content-Length: 3", "TRANSFER-encoding: chunked"),
    ],
)
def test_a_length_and_a_transfer_coding_together_are_refused(lines: tuple[str, ...]) -> None:
    assert refused(head(*lines)) == "ambiguous_length"


@each_case("other", ["3", "4"])
def test_two_lengths_are_refused_even_when_they_are_the_same(other: str) -> None:
    assert refused(head("Content-Length: 3", f"content-length: {other}")) == "ambiguous_length"


@each_case("length", ["", "3, 3", "+3", "-3", "0x3", "3 3", "3;", "1_0", "３", "9" * 19, "3.0", "1e3", "\u0663"])
def test_a_length_that_is_no_plain_number_is_refused(length: str) -> None:
    data = b"\r\n".join([head(), b"Content-Length: " + length.encode()])
    assert refused(data) == "ambiguous_length"


@each_case(
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


@each_case("space", [" ", "\t", "  "])
def test_a_value_that_goes_on_in_the_next_line_is_refused(space: str) -> None:
    assert refused(head("X: a", f"{space}b")) == "malformed_request"
    assert refused(head(host=False) + f"\r\n{space}Host: x".encode()) == "malformed_request"
    assert refused(head("Transfer-Encoding:", f"{space}chunked")) == "malformed_request"


@each_case(
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


@each_case("character", ["\x00", "\x01", "\x0b", "\x0c", "\x1b", "\x7f"])
def test_a_control_character_is_refused_wherever_it_stands(character: str) -> None:
    for data in (head(f"X: a{character}b"), head(f"X{character}: a"), head(start=f"POST /{character} HTTP/1.1")):
        assert refused(data) == "malformed_request"


@each_case("line", ["X : a", "X\t: a", "X Y: a", ": a", "X", "X\xe9: a", "(X): a", 'X": a', "X/Y: a"])
def test_a_name_that_is_no_token_is_refused(line: str) -> None:
    assert refused(head(line, "Y: b")) == "malformed_request"


def test_a_space_before_the_colon_hides_no_length() -> None:
    assert refused(head("Content-Length : 3")) == "malformed_request"
    assert refused(head("Transfer-Encoding : chunked")) == "malformed_request"


@each_case("start", ["POST  /a HTTP/1.1", "POST /a  HTTP/1.1"])
def test_several_spaces_between_the_parts_of_a_request_line_are_one(start: str) -> None:
    (head, _) = exchange(start.encode() + b"\r\nHost: x\r\n\r\n").taken[0]
    assert (head.method, head.path, head.minor) == ("POST", "/a", 1)


@each_case(
    "start",
    [
        *("POST\t/a HTTP/1.1", " POST /a HTTP/1.1", "POST /a HTTP/1.1 "),
        *("POST /a b HTTP/1.1", "POST HTTP/1.1", "POST  HTTP/1.1", "POST /a http/1.1", ""),
        *("POST /a HTTP/1.1x", "POST /a HTTP/11", "POST /a HTTP/1.10", "POST /a ICE/1.0"),
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


@each_case("version", ["0.9", "1.2", "2.0", "3.0", "0.0"])
def test_another_version_is_refused(version: str) -> None:
    assert refused(head(start=f"POST /a HTTP/{version}")) == "version_not_supported"


@each_case("start", ["POST /a", "GET /"])
def test_a_request_line_without_a_version_is_refused(start: str) -> None:
    assert refused(head(start=start)) == "version_not_supported"


def test_the_preface_of_http_2_is_refused() -> None:
    assert refused(b"PRI * HTTP/2.0\r\n\r\nSM") == "version_not_supported"


def test_a_request_needs_exactly_one_host() -> None:
    assert refused(head(host=False)) == "ambiguous_host"
    assert refused(head("Host: y")) == "ambiguous_host"
    assert refused(head("hOST: x")) == "ambiguous_host"
    assert parse(head(host=False, start="POST /a HTTP/1.0")).minor == 0
    assert refused(head("Host: x", start="POST /a HTTP/1.0")) == "ambiguous_host"


@each_case("host", ["", "x", "x:", "x:8080", "127.0.0.1:1", "[::1]:8080", "xn--a.example", "a_b.c"])
def test_a_host_is_a_name_or_an_address_and_a_port(host: str) -> None:
    assert parse(head(f"Host: {host}", host=False)).fields["host"] == host


@each_case(
    "host", ["user@x", "x y", "x/", "x?", "x#", "http://x", "x:y", "x:1:2", "::1", "[::1", "[]", "x:123456", "é"]
)
def test_what_is_no_host_is_refused(host: str) -> None:
    for start in ("POST /a HTTP/1.1", "POST /a HTTP/1.0"):
        assert refused(head(f"Host: {host}", host=False, start=start)) == "ambiguous_host"


def test_a_tunnel_is_refused() -> None:
    assert refused(b"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com") == "malformed_request"


@each_case(
    "target",
    [
        *("/hooks/%61", "/hooks//a", "/hooks/./a", "/hooks/../hooks/a", "//hooks/a", "/hooks/a/", "/hooks/a;x=1"),
        *("/HOOKS/a", "/hooks\\a", "/hooks/a%00", "/hooks%2fa"),
    ],
)
def test_no_other_spelling_of_a_path_becomes_it(target: str) -> None:
    read = parse(head(start=f"POST {target} HTTP/1.1"))
    assert read.path == target
    assert read.path != "/hooks/a"


@each_case(
    ("target", "path", "query"),
    [
        *(("http://x/hooks/a", "/hooks/a", ""), ("HTTPS://x.example:8443/hooks/a?b=c", "/hooks/a", "b=c")),
        *(("http://x", "/", ""), ("http://x?q", "/", "q"), ("http://[::1]:80//a", "//a", "")),
    ],
)
def test_a_target_may_name_its_host(target: str, path: str, query: str) -> None:
    read = parse(head(start=f"POST {target} HTTP/1.1"))
    assert (read.path, read.query) == (path, query)


@each_case("target", ["http://", "http:///a", "http://u@x/a", "http://x y/a", "ftp://x/a", "http:x/a", "x"])
def test_a_target_of_another_form_is_refused(target: str) -> None:
    assert refused(head(start=f"POST {target} HTTP/1.1")) == "malformed_request"


@each_case("coding", ["chun\u212aed", "\uff43hunked", "chunked\x80"])
def test_what_only_looks_like_chunked_is_refused(coding: str) -> None:
    assert refused(head() + b"\r\nTransfer-Encoding: " + coding.encode()) == "ambiguous_length"


def test_what_only_looks_like_keep_alive_is_not() -> None:
    read = parse(head(start="POST /a HTTP/1.0") + "\r\nConnection: \u212aeep-alive".encode())
    assert not read.keep_alive


def test_a_line_over_the_limit_is_refused() -> None:
    fits = "/" + "a" * (LIMITS.line - 1)
    assert parse(head(start=f"POST {fits} HTTP/1.1")).path == fits
    assert refused(head(start=f"POST {fits}a HTTP/1.1")) == "target_too_long"


def test_more_headers_than_the_limit_are_refused() -> None:
    lines = [f"X-{number}: a" for number in range(LIMITS.fields - 1)]
    assert len(parse(head(*lines)).pairs) == LIMITS.fields
    assert refused(head(*lines, "X: a")) == "headers_too_large"


def test_only_100_continue_can_be_expected() -> None:
    assert parse(head("Expect: 100-Continue")).expects
    assert refused(head("Expect: 200-ok")) == "expectation_failed"
    assert refused(head("Expect: 100-continue", "Expect: 100-continue")) == "expectation_failed"
    assert not parse(head("Expect: 100-continue", start="POST /a HTTP/1.0")).expects


@each_case(
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
    assert parse(head(*lines, start=start)).keep_alive is alive


def test_bytes_that_are_no_utf_8_are_kept_apart_from_text() -> None:
    read = parse(b"POST /a HTTP/1.1\r\nHost: x\r\nX: \xe9\r\nY: \xc3\xa9")
    assert (read.fields["x"], read.fields["y"]) == ("\udce9", "é")
