"""Requests can be followed, across restarts, and filtered by reason and status."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.lanes import LONG
from tests.runtime.daemon.running import BIN, GITHUB, environment, running, symbi, until, write_program

pytestmark = LONG

ROTATING = GITHUB.replace('"secret://env/GITHUB_SECRET"', '["secret://env/NEWER_SECRET", "secret://env/GITHUB_SECRET"]')


class Follower:
    """`symbi webhook logs --follow --json`, and its output so far."""

    def __init__(self, process: subprocess.Popen[bytes], output: Path, errors: Path) -> None:
        self.process, self.output, self.errors = process, output, errors

    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.output.read_text().splitlines(keepends=True) if line.endswith("\n")]

    def until(self, count: int) -> None:
        until(lambda: len(self.rows()) >= count, what=f"{count} lines")


@contextmanager
def following(root: Path, *arguments: str) -> Iterator[Follower]:
    output, errors = root / "follow.out", root / "follow.err"
    with output.open("wb") as out, errors.open("wb") as err:
        process = subprocess.Popen(
            [BIN / "symbi", "webhook", "logs", "--follow", "--json", *arguments],
            cwd=root,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
        )
    try:
        yield Follower(process, output, errors)
    finally:
        process.kill()
        process.wait(30)


def test_new_attempts_are_shown_as_they_come_through_a_restart(tmp_path: Path) -> None:
    write_program(tmp_path)
    with running(tmp_path, "program") as daemon:
        for number in range(3):
            daemon.github(b"{}", f"before-{number}")
        with following(tmp_path, "--limit", "1") as follower:
            follower.until(1)
            daemon.github(b"{}", "live")
            daemon.request("POST", "/hooks/github", b"{}")
            follower.until(3)
            assert daemon.stop() == 0
            until(lambda: "waiting for the daemon" in follower.errors.read_text(), what="the note")
            with running(tmp_path, "program") as next_one:
                next_one.github(b"{}", "after")
                follower.until(4)
            follower.process.send_signal(signal.SIGINT)
            assert follower.process.wait(30) == 130
            rows = follower.rows()
            assert follower.errors.read_text().count("\n") <= 4
            assert "Traceback" not in follower.errors.read_text()
    assert [row["provider_delivery_id"] for row in rows] == ["before-2", "live", None, "after"]
    assert [row["reason"] for row in rows] == ["verified", "verified", "missing_signature", "verified"]


def test_attempts_are_found_by_reason_and_status(tmp_path: Path) -> None:
    write_program(tmp_path)
    with running(tmp_path, "program") as daemon:
        daemon.github(b"{}", "1")
        daemon.request("POST", "/hooks/github", b"{}")
        daemon.request("POST", "/hooks/nowhere", b"{}")
        counts = {
            arguments: len(daemon.attempts(*arguments))
            for arguments in (
                ("--reason", "verified"),
                ("--reason", "missing_signature"),
                ("--status", "404"),
                ("--status", "4xx"),
                ("--status", "2xx"),
                ("--name", "github-events", "--status", "4xx"),
            )
        }
        nothing = daemon.symbi("webhook", "logs", "--status", "5xx").stdout
    assert list(counts.values()) == [1, 1, 1, 2, 1, 1]
    assert nothing == "There are no such requests yet.\n"


def test_which_secret_matched_is_shown_where_there_are_several(tmp_path: Path) -> None:
    write_program(tmp_path, ROTATING)
    with running(tmp_path, "program", NEWER_SECRET="another one") as daemon:
        daemon.github(b"{}", "1")
        [row] = daemon.attempts()
        text = daemon.symbi("webhook", "logs").stdout
    assert (row["secret"], row["secret_index"]) == (2, 1)
    assert "secret" in text.splitlines()[0]
    assert "no. 2" in text
    write_program(tmp_path, GITHUB)
    with running(tmp_path, "program") as daemon:
        daemon.github(b"{}", "2")
    assert "no. 1" not in symbi("webhook", "logs", root=tmp_path).stdout
