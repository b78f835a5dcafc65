"""The page of core memory: its examples run in order, and it contains every command, option and limit."""

from __future__ import annotations

import re
from pathlib import Path

import click

from runtime.cli.agent.block import block
from runtime.memory.core.block import CHAR_LIMIT, HUMAN, PERSONA, BlockScope, first_blocks
from runtime.memory.core.changes import VERSIONS
from tests.docs.shell import typed
from tests.runtime.daemon.running import running, write_program

PAGE = (Path(__file__).parents[3] / "docs" / "core-memory.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^\$ (symbi agent block .*)$", PAGE, re.MULTILINE)


def test_every_example_on_the_page_runs(tmp_path: Path) -> None:
    (program,) = re.findall(r"^```symbiont\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    write_program(tmp_path, program)
    (tmp_path / "notes.txt").write_text("Name: Ada\nLikes tea.\n")
    with running(tmp_path, "program"):
        for command in COMMANDS:
            done = typed(command, tmp_path)
            assert done.returncode == 0, (command, done.stdout, done.stderr)


def test_every_command_and_option_is_on_the_page() -> None:
    names = block.list_commands(click.Context(block))
    assert {command.split()[3] for command in COMMANDS} == set(names)
    options = {
        option for name in names for each in block.commands[name].params for option in each.opts if "--" in option
    }
    assert set(re.findall(r"(--[a-z][a-z-]*)", PAGE)) == options - {"--root"}


def test_the_page_says_the_limits_and_the_first_texts() -> None:
    persona, human = first_blocks(BlockScope("owner", "assistant"), (), 0)
    assert (persona.label, human.label) == (PERSONA, HUMAN)
    assert f"`{persona.value}`" in PAGE
    assert f"{CHAR_LIMIT:,} characters" in PAGE
    assert f"newest {VERSIONS} are kept" in PAGE
