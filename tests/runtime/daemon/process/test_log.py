"""The log is readable, and contains no keys and no bodies."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

_FAILING = """
import structlog
from runtime.daemon.process import log_setup as log

def check(key):
    raise ValueError("no")

log.configure({form!r})
try:
    check(b"hunter" + b"2-key")
except ValueError:
    structlog.get_logger("symbiont").exception("it failed")
"""


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_traceback_shows_where_and_never_a_variable(form: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _FAILING.format(form=form)], capture_output=True, text=True, check=True
    )
    assert "in check" in done.stderr
    assert "ValueError: no" in done.stderr
    assert "hunter2" not in done.stderr


_SPEAKING = """
import logging
import structlog
from runtime.daemon.process import log_setup as log

log.configure({form!r})
bad = "x" + chr(13) + chr(10) + "forged line" + chr(27) + "[2J" + chr(0x85) + chr(0x2028) + "end"
structlog.get_logger("symbiont").warning("event " + bad, source=bad)
logging.getLogger("library").warning("from %s", bad)
"""


@pytest.mark.parametrize("form", ["text", "json"])
def test_what_a_request_holds_never_begins_a_line_or_speaks_to_the_terminal(form: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _SPEAKING.format(form=form)], capture_output=True, text=True, check=True
    )
    lines = done.stderr.splitlines()
    assert len(lines) == 2
    assert all("forged line" in line and line.isprintable() for line in lines)


_AT_A_LEVEL = """
import logging
import structlog
from runtime.daemon.process import log_setup as log

log.configure("json", {level!r})
for name in ("symbiont.receiver", "runtime.memory.markdown.store", "aiosqlite"):
    for level in ("debug", "info", "warning", "error"):
        getattr(structlog.get_logger(name), level)(f"{{name}} ours {{level}}")
        getattr(logging.getLogger(name), level)(f"{{name}} theirs {{level}}")
"""


@pytest.mark.parametrize("level", ["debug", "info", "warning", "error"])
def test_a_level_is_the_least_that_is_logged_and_libraries_are_never_debugged(level: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _AT_A_LEVEL.format(level=level)], capture_output=True, text=True, check=True
    )
    levels = ["debug", "info", "warning", "error"]
    said = [json.loads(line) for line in done.stderr.splitlines()]
    for logger in ("symbiont.receiver", "runtime.memory.markdown.store", "aiosqlite"):
        wanted = [each for each in levels[levels.index(level) :] if each != "debug" or logger != "aiosqlite"]
        assert [line["level"] for line in said if line["logger"] == logger] == [each for each in wanted for _ in "ab"]
