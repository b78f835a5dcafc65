"""The log is readable, contains no keys and no bodies, and holds nobody up."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import structlog

from runtime.daemon.process import log_setup
from tests.cases import each_case
from tests.runtime.daemon import forked
from tests.runtime.daemon.running import BIN, Daemon, environment, write_program

FORMS = each_case("form", ["text", "json"])


def logged(work: Callable[[], None], folder: Path, **environ: str) -> str:
    """Return what a function of this module writes to the log in a process of its own."""
    done = forked.run((), cwd=folder, env=environment(**environ), main=f"{__name__}:{work.__name__}")
    assert done.returncode == 0, done.stderr
    return done.stderr


def fail() -> None:
    def check(key: bytes) -> None:
        raise ValueError("no")

    log_setup.configure(os.environ["FORM"])  # type: ignore[arg-type]
    try:
        check(b"hunter" + b"2-key")
    except ValueError:
        structlog.get_logger("symbiont").exception("it failed")


@FORMS
def test_a_traceback_shows_where_and_never_a_variable(tmp_path: Path, form: str) -> None:
    said = logged(fail, tmp_path, FORM=form)
    assert "in check" in said
    assert "ValueError: no" in said
    assert "hunter2" not in said


def speak() -> None:
    log_setup.configure(os.environ["FORM"])  # type: ignore[arg-type]
    bad = "x\r\nforged line\x1b[2J\x85\u2028end"
    structlog.get_logger("symbiont").warning("event " + bad, source=bad)
    logging.getLogger("library").warning("from %s", bad)
    try:
        raise ValueError(bad)
    except ValueError:
        structlog.get_logger("symbiont").exception("it failed")


@FORMS
def test_what_a_request_holds_never_begins_a_line_or_speaks_to_the_terminal(tmp_path: Path, form: str) -> None:
    lines = logged(speak, tmp_path, FORM=form).splitlines()
    assert all(line.isprintable() for line in lines)
    assert not any(line.startswith("forged") for line in lines)
    assert sum("forged line" in line for line in lines) == 3
    assert len([line for line in lines if not line.startswith("  ")]) == 3


LEVELS = ["debug", "info", "warning", "error"]
LOGGERS = ("symbiont.receiver", "runtime.memory.markdown.store", "aiosqlite")


def log_at_each_level() -> None:
    log_setup.configure("json", os.environ["LEVEL"])  # type: ignore[arg-type]
    for name in LOGGERS:
        for level in LEVELS:
            getattr(structlog.get_logger(name), level)(f"{name} ours {level}")
            getattr(logging.getLogger(name), level)(f"{name} theirs {level}")


@each_case("level", LEVELS)
def test_a_level_is_the_least_that_is_logged_and_libraries_are_never_debugged(tmp_path: Path, level: str) -> None:
    said = [json.loads(line) for line in logged(log_at_each_level, tmp_path, LEVEL=level).splitlines()]
    for logger in LOGGERS:
        wanted = [each for each in LEVELS[LEVELS.index(level) :] if each != "debug" or logger != "aiosqlite"]
        assert [line["level"] for line in said if line["logger"] == logger] == [each for each in wanted for _ in "ab"]


_BEYOND = """
import os, sys
import structlog
from runtime.daemon.process import log_setup

log_setup.MOST_LINES = 100
log_setup.configure("json")
log = structlog.get_logger("symbiont")
read, write = (int(each) for each in sys.argv[1:])
for number in range(1000):
    log.info("entry", number=number, text="x" * 1000)
os.write(write, b"go")
os.read(read, 2)
log.info("after")
"""


def test_entries_that_nobody_reads_are_dropped_and_counted_and_the_end_waits_for_the_rest() -> None:
    """The pipe holds 64 KiB, and the queue 100 entries of 1 KiB."""
    ours, theirs = os.pipe(), os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-c", _BEYOND, str(theirs[0]), str(ours[1])],
        pass_fds=(theirs[0], ours[1]),
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert os.read(ours[0], 2) == b"go"
    first = [json.loads(process.stderr.readline()) for _ in range(100)]
    os.write(theirs[1], b"go")
    rest = [json.loads(line) for line in process.stderr]
    assert process.wait(60) == 0
    process.stderr.close()
    for number in (*ours, *theirs):
        os.close(number)
    assert [line["number"] for line in first] == list(range(100))
    *kept, dropped, after = rest
    assert (dropped["event"], after["event"]) == ("log_entries_dropped", "after")
    assert [line["number"] for line in kept] == list(range(100, 100 + len(kept)))
    assert dropped["count"] == 900 - len(kept)


def fork() -> None:
    log_setup.configure("json")
    log = structlog.get_logger("symbiont")
    log.info("parent")
    if (child := os.fork()) == 0:
        log.info("child")
        raise SystemExit
    assert os.waitpid(child, 0)[1] == 0
    log.info("parent again")


def test_a_forked_process_logs_too(tmp_path: Path) -> None:
    said = logged(fork, tmp_path)
    assert [json.loads(line)["event"] for line in said.splitlines()] == ["parent", "child", "parent again"]


def test_a_daemon_serves_and_stops_while_nobody_reads_its_log(tmp_path: Path) -> None:
    program = write_program(tmp_path)
    pipe = tmp_path / "log"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with pipe.open("wb") as output:
        addresses = ("--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
        process = subprocess.Popen(
            [BIN / "symbi", "up", program, "--log-level", "debug", *addresses],
            cwd=tmp_path, env=environment(), stdin=subprocess.DEVNULL, stdout=output, stderr=output,
        )  # fmt: skip
    daemon = Daemon(tmp_path, process, Path(os.devnull))
    try:
        daemon.wait_until_ready()
        filler = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        with suppress(BlockingIOError):
            while True:
                os.write(filler, b"\n")
        os.close(filler)
        for number in range(3):
            assert daemon.request("POST", "/hooks/github", b"{}").status == 401
            assert daemon.github(b"{}", f"delivery-{number}").status == 202
            assert daemon.request("GET", "/healthz", to="admin").status == 200
            daemon.process.send_signal(signal.SIGHUP)  # its reload is logged
        assert daemon.readyz().status == 200
        assert daemon.stop() == 0
    finally:
        if process.poll() is None:
            daemon.kill()
        os.close(reader)
