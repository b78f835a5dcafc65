"""Run `dslc` inside the process of the tests, which is faster than a process for each of many calls."""

from __future__ import annotations

import contextlib
import io
import sys
from pathlib import Path
from subprocess import CompletedProcess
from unittest import mock

from dslc.cli import _run


def run(*arguments: str, cwd: Path, stdin: str = "") -> CompletedProcess[str]:
    """Return the output and exit code of `dslc` with these arguments."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="") for _ in range(2))
    given = io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8")
    with (
        contextlib.chdir(cwd),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        mock.patch.object(sys, "stdin", given),
    ):
        code = _run(list(arguments))
    return CompletedProcess(arguments, code, _text(out), _text(err))


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    stream.seek(0)
    return stream.read()
