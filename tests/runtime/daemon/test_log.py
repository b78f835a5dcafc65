"""What the log says is for its reader; keys and bodies that pass by are not."""

from __future__ import annotations

import subprocess
import sys

import pytest

_FAILING = """
import structlog
from runtime.daemon import log

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
