"""Terminals and pipes whose encoding lacks what is printed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.runtime.daemon.running import BIN, environment, write_program

ENCODINGS = ["latin-1", "cp1252", "ascii", "utf-8:strict"]
PROGRAM = """\
webhook pushes { path "/größe/😀", provider github, secret "secret://env/GITHUB_SECRET" }
agent reviewer { instruction "größe 😀 ─" }
"""


def output(root: Path, encoding: str, *command: str) -> str:
    done = subprocess.run(
        [BIN / command[0], *command[1:]],
        cwd=root,
        env=environment(PYTHONIOENCODING=encoding),
        capture_output=True,
        check=False,
        timeout=120,
    )
    text = done.stdout.decode(encoding.partition(":")[0], "replace")
    assert b"Traceback" not in done.stderr, done.stderr.decode(errors="replace")
    return text


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_no_command_fails_for_what_the_encoding_lacks(tmp_path: Path, encoding: str) -> None:
    program = str(write_program(tmp_path, PROGRAM))
    for command in ("dslc check", "dslc fmt --diff", "dslc compile"):
        output(tmp_path, encoding, *command.split(), program)
    for command in ("symbi webhook providers", "symbi --help", "dslc explain N202"):
        assert output(tmp_path, encoding, *command.split())
    assert json.loads(output(tmp_path, encoding, "symbi", "webhook", "providers", "--json"))


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_table_has_a_rule_in_every_encoding(tmp_path: Path, encoding: str) -> None:
    head, line, *_ = output(tmp_path, encoding, "symbi", "webhook", "providers").splitlines()
    assert head
    assert set(line) == {"─" if encoding.startswith("utf-8") else "-"}


def test_json_escapes_what_the_encoding_lacks() -> None:
    code = "from runtime.cli.terminal.screen import echo_json; echo_json({'é': ['😀', 'caf\\udce9']}, indent=None)"
    for encoding in ENCODINGS:
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment(PYTHONIOENCODING=encoding), capture_output=True, check=True
        )
        assert json.loads(done.stdout.decode(encoding.partition(":")[0])) == {"é": ["😀", "caf\udce9"]}
