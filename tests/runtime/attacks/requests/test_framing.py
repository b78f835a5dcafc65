"""Request smuggling needs two readings of one request: the operators' listener and the socket have only one."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import pytest

from tests.runtime.attacks.wire import exchange, github_headers, request, statuses
from tests.runtime.daemon.running import Daemon
from tests.runtime.daemon.v1 import ask

BODY = b'{"title":"smuggled","agent":"reviewer"}'


def typed(token: str, *lines: str) -> bytes:
    fixed = ("Host: localhost", f"Authorization: Bearer {token}", "Content-Type: application/json", "Connection: close")
    return "\r\n".join(("POST /v1/webhooks HTTP/1.1", *fixed, *lines)).encode() + b"\r\n\r\n"


def titles(daemon: Daemon, token: str) -> list[str]:
    return [row["title"] for row in ask(daemon, token, "GET", "/v1/webhooks?limit=200").json()["webhooks"]]


CHUNKS = b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
LENGTH = f"Content-Length: {len(BODY)}"


@pytest.mark.parametrize(
    ("lines", "body"),
    [
        ((LENGTH, "Transfer-Encoding: chunked"), CHUNKS),
        (("Transfer-Encoding: chunked", LENGTH), CHUNKS),
        (("Transfer-Encoding: chunked", "Content-Length: 0"), CHUNKS),
        (("Transfer-Encoding: xchunked",), CHUNKS),
        (("Transfer-Encoding: chunked, identity",), CHUNKS),
        (("Transfer-Encoding: chunked", "Transfer-Encoding: identity"), CHUNKS),
        (("Transfer-Encoding: \x0bchunked", LENGTH), CHUNKS),
        (("Transfer-Encoding : chunked", LENGTH), CHUNKS),
        (("Transfer-Encoding: chunked", "X: y\n", LENGTH), CHUNKS),
        (("X: a", " Transfer-Encoding: chunked", LENGTH), CHUNKS),
        (("X: a\nTransfer-Encoding: chunked", LENGTH), CHUNKS),
        (("X: a\rTransfer-Encoding: chunked", LENGTH), CHUNKS),
        (("X: a\0", LENGTH), BODY),
        ((LENGTH, LENGTH), BODY),
        ((LENGTH, "Content-Length: 0"), BODY),
        ((f"Content-Length: {len(BODY)}, {len(BODY)}",), BODY),
        ((f"Content-Length: +{len(BODY)}",), BODY),
        (("Content-Length: 0x27",), BODY),
        ((f"Content-Length : {len(BODY)}",), BODY),
        (("Host: y", LENGTH), BODY),
    ],
)
def test_what_is_not_plainly_one_request_makes_nothing(
    daemon: Daemon, token: str, lines: tuple[str, ...], body: bytes
) -> None:
    before = titles(daemon, token)
    answer = exchange(daemon, typed(token, *lines) + body + typed(token, LENGTH) + BODY, "admin")
    assert statuses(answer)[:1] == [400], answer
    assert len(statuses(answer)) == 1
    assert titles(daemon, token) == before


def test_line_ends_of_another_kind_make_nothing(daemon: Daemon, token: str) -> None:
    before = titles(daemon, token)
    whole = typed(token, LENGTH) + BODY
    for data in (whole.replace(b"\r\n", b"\n"), whole.replace(b"\r\n\r\n", b"\n\n"), whole.replace(b"\r\n", b"\r")):
        assert statuses(exchange(daemon, data, "admin", patience=2)) in ([400], [])
    assert titles(daemon, token) == before


CODINGS = (
    "gzip",
    "GZip",
    "x-gzip",
    "deflate",
    "br",
    "zstd",
    "compress",
    "identity, gzip",
    "gzip, identity",
    "",
    "*",
    "a",
)


@pytest.mark.parametrize("coding", CODINGS)
def test_a_body_of_any_coding_is_refused(daemon: Daemon, token: str, coding: str) -> None:
    body = gzip.compress(BODY)
    for lines in (
        [("Content-Encoding", coding)],
        [("Content-Encoding", "identity"), ("Content-Encoding", coding)],
        [("Content-Encoding", coding), ("content-encoding", "identity")],
    ):
        signed = request("/hooks/github", body, [*github_headers(body), *lines])
        assert statuses(exchange(daemon, signed)) == [415], lines
        sent = [f"{name}: {value}" for name, value in lines]
        answer = exchange(daemon, typed(token, f"Content-Length: {len(body)}", *sent) + body, "admin")
        assert statuses(answer) == [415], lines


@pytest.mark.parametrize("coding", ["gzip, chunked", "gzip", "deflate, chunked"])
def test_a_coded_transfer_is_not_undone(daemon: Daemon, token: str, coding: str) -> None:
    zipped = gzip.compress(BODY)
    body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(zipped), zipped)
    before = titles(daemon, token)
    assert statuses(exchange(daemon, typed(token, f"Transfer-Encoding: {coding}") + body, "admin")) == [400]
    assert titles(daemon, token) == before
    plain = b"POST /hooks/github HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: " + coding.encode() + b"\r\n\r\n"
    assert statuses(exchange(daemon, plain + body)) == [400]


def resident(daemon: Daemon) -> int:
    """Return the peak memory of the daemon, in bytes."""
    lines = Path(f"/proc/{daemon.process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the memory of a process from /proc")
def test_nobody_has_a_bomb_inflated(daemon: Daemon, token: str) -> None:
    """200 MB of blanks each, sent without a token, with one, and to a webhook."""
    bombs = {"gzip": gzip.compress(b" " * 200_000_000, 9), "deflate": zlib.compress(b" " * 200_000_000, 9)}
    before = resident(daemon)
    for coding, bomb in bombs.items():
        for sender in (token, "symbi_nobody"):
            for name in ("Content-Encoding", "Transfer-Encoding"):
                data = typed(sender, f"{name}: {coding}", f"Content-Length: {len(bomb)}") + bomb
                assert statuses(exchange(daemon, data, "admin"))[:1] in ([400], [401], [415], [413])
        signed = request("/hooks/github", bomb, [*github_headers(bomb), ("Content-Encoding", coding)])
        assert statuses(exchange(daemon, signed)) == [415]
    assert resident(daemon) - before < 40_000_000
