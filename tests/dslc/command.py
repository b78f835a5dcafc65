"""`dslc` run inside the tests' own process: quicker than a process of its own where there is much to try."""

from __future__ import annotations

import contextlib
import io
import sys
from pathlib import Path
from subprocess import CompletedProcess
from unittest import mock

from dslc.cli import _run


def run(*arguments: str, cwd: Path, stdin: str = "") -> CompletedProcess[str]:
    """What `dslc` with these arguments prints and how it exits."""
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
