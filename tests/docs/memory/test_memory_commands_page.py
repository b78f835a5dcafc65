"""The page of memory commands: its examples run in order, and it contains every command and type."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import click

from runtime.cli.memory import memory
from runtime.tools.memory.parameters import Kind
from tests.docs.shell import typed
from tests.lanes import LONG
from tests.runtime.daemon.running import running, write_program

pytestmark = LONG

PAGE = (Path(__file__).parents[3] / "docs" / "memory-commands.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^\$ (symbi memory .*)$", PAGE, re.MULTILINE)


def test_every_example_on_the_page_runs(tmp_path: Path) -> None:
    (program,) = re.findall(r"^```symbiont\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    # The page's embedding may be a model: here it is the one for tests.
    hashed = re.sub(r"^( +path .*| +store collection)$", r"\1\n    embedding hashing", program, flags=re.MULTILINE)
    write_program(tmp_path, hashed)
    (tmp_path / "notes.txt").write_text("Stand-up\nNothing new.\n")
    assert len(COMMANDS) > 20
    with running(tmp_path, "program"):
        for command in COMMANDS:
            done = typed(command, tmp_path)
            assert done.returncode == 0, (command, done.stdout, done.stderr)
            assert "AKIA" not in done.stdout


def test_every_command_has_an_example_or_is_explained() -> None:
    names = set(memory.list_commands(click.Context(memory)))
    assert {command.split()[2] for command in COMMANDS} | {"show"} == names
    assert "`show ID`" in PAGE


def test_every_type_is_on_the_page() -> None:
    rows = re.findall(r"^\| (`.*?) \| ", PAGE, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", " ".join(rows))) == set(get_args(Kind))


def test_every_option_on_the_page_is_one() -> None:
    known = {"--root", "--json"}
    for name in memory.list_commands(click.Context(memory)):
        command = memory.get_command(click.Context(memory), name)
        assert command is not None
        known |= {option for parameter in command.params for option in parameter.opts}
    assert set(re.findall(r"(--[a-z][a-z-]*)", PAGE)) <= known
