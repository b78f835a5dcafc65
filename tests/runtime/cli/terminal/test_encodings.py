"""Terminals and pipes whose encoding lacks what is printed."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

import dslc.cli
import runtime.cli
from runtime.cli.terminal.screen import echo_json
from tests.runtime.daemon.running import write_program

ENCODINGS = ["latin-1", "cp1252", "ascii", "utf-8"]
PROGRAM = """\
webhook pushes { path "/größe/😀", provider github, secret "secret://env/GITHUB_SECRET" }
agent reviewer { instruction "größe 😀 ─" }
"""


def output(encoding: str, run: Callable[[], None]) -> str:
    """Return what is written to a strict standard output of this encoding."""
    stdout = TextIOWrapper(BytesIO(), encoding=encoding, errors="strict")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", stdout)
        run()
        stdout.flush()
    raw: bytes = stdout.buffer.getvalue()
    return raw.decode(encoding, "replace")


def command(encoding: str, main: Callable[[list[str]], None], *arguments: str) -> str:
    def run() -> None:
        with pytest.raises(SystemExit):
            main([*arguments])

    return output(encoding, run)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_no_command_fails_for_what_the_encoding_lacks(tmp_path: Path, encoding: str) -> None:
    program = str(write_program(tmp_path, PROGRAM))
    for arguments in ("check", "fmt --diff", "compile"):
        command(encoding, dslc.cli.main, *arguments.split(), program)
    assert command(encoding, dslc.cli.main, "explain", "N202")
    assert command(encoding, runtime.cli.main, "--help")
    assert json.loads(command(encoding, runtime.cli.main, "webhook", "providers", "--json"))
    head, line, *_ = command(encoding, runtime.cli.main, "webhook", "providers").splitlines()
    assert head
    assert set(line) == {"─" if encoding == "utf-8" else "-"}


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_json_escapes_what_the_encoding_lacks(encoding: str) -> None:
    value = {"é": ["😀", "caf\udce9"]}
    assert json.loads(output(encoding, lambda: echo_json(value, indent=None))) == value
