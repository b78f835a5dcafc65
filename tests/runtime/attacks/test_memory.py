"""A flood of different requests does not increase the memory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.lanes import LONG
from tests.runtime.attacks.wire import check_unharmed, connect, request
from tests.runtime.daemon.running import Daemon, running, write_program

FLOOD = 5000
TOLERANCE = 24 * 1024 * 1024


def resident(daemon: Daemon) -> int:
    return int(Path(f"/proc/{daemon.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def flood(daemon: Daemon, begin: int) -> None:
    """Return pipelined requests that all differ in source, path, id and token."""
    with connect(daemon) as link:
        for start in range(begin, begin + FLOOD, 200):
            batch = b""
            for number in range(start, start + 200):
                source = f"{number >> 16 & 255 | 1}.{number >> 8 & 255}.{number & 255}.7"
                path = ("/hooks/github", f"/webhooks/{number}", f"/path/{number}", f"/hooks/github?{number}")[
                    number % 4
                ]
                headers = {
                    "X-Forwarded-For": source,
                    "X-GitHub-Delivery": f"{number}-{os.urandom(8).hex()}",
                    "X-GitHub-Event": f"event{number}",
                    "User-Agent": f"agent {number}",
                    "X-Hub-Signature-256": f"sha256={os.urandom(32).hex()}",
                    f"X-Name-{number}": "x",
                }
                batch += request(path, b"%d" % number, headers)
            link.sendall(batch)
            answered = 0
            while answered < 200:
                part = link.recv(1 << 20)
                assert part
                answered += part.count(b"HTTP/1.1 ")


@LONG
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads the memory of a process from /proc")
def test_what_is_remembered_of_strangers_is_bounded(tmp_path: Path) -> None:
    write_program(tmp_path)
    options = ("--trusted-proxies", "1")
    with running(tmp_path, "program", *options, wait=True, SYMBIONT_ADDRESS_PER_MINUTE="100") as daemon:
        flood(daemon, 0)
        before = resident(daemon)
        for turn in range(1, 4):
            flood(daemon, turn * FLOOD)
        assert resident(daemon) - before < TOLERANCE
        size = (tmp_path / ".symbi/symbiont.db").stat().st_size + (tmp_path / ".symbi/symbiont.db-wal").stat().st_size
        assert size < 40 * 1024 * 1024
        check_unharmed(daemon)
