"""`symbi agent block`, for people and for programs."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.runtime.cli.memory.test_commands import good, refused
from tests.runtime.daemon.running import BIN, Daemon, running, write_program
from tests.runtime.daemon.terminal import terminal

PROGRAM = """\
memory notes {
    path      "notes"
    embedding hashing
}
agent assistant {
    memory      notes
    instruction "Help."
}
"""

Symbi = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    root = tmp_path_factory.mktemp("blocks")
    write_program(root, PROGRAM)
    with running(root, "program") as started:
        yield started


@pytest.fixture
def block(tmp_path: Path) -> Iterator[Symbi]:
    """Run `symbi agent block` in a fresh root."""
    write_program(tmp_path, PROGRAM)
    with running(tmp_path, "program") as started:
        yield partial(started.symbi, "agent", "block")


def test_a_block_is_shown_edited_and_restored(block: Symbi, tmp_path: Path) -> None:
    listed = good(block("list", "assistant"))
    assert "I am a helpful AI assistant." in listed
    assert "all agents" in listed
    assert good(block("show", "assistant", "persona")) == "I am a helpful AI assistant.\n"
    assert good(block("edit", "assistant", "human", "--value", "Name: Ada")) == "the block human is now version 2\n"
    assert good(block("edit", "assistant", "human", "--value", "-", input="Name: Ada\nTea\n")).endswith("version 3\n")
    (tmp_path / "human.md").write_text("Name: Ada\nCoffee\n")
    assert good(block("edit", "assistant", "human", "--value", "@human.md", "--version", "3")).endswith("version 4\n")
    assert good(block("show", "assistant", "human")) == "Name: Ada\nCoffee\n"
    same = good(block("edit", "assistant", "human", "--value", "@human.md"))
    assert same == "the block human is unchanged, version 4\n"
    history = [line.split() for line in good(block("history", "assistant", "human")).splitlines()]
    rows = [(words[0], words[3]) for words in history if words and words[0].isdigit()]
    assert rows == [("4", "person"), ("3", "person"), ("2", "person"), ("1", "program")]
    done = good(block("restore", "assistant", "human", "2"))
    assert done == "the block human is now version 5, with the text of the earlier one\n"
    shown = json.loads(good(block("show", "assistant", "human", "--json")))
    assert (shown["value"], shown["version"], shown["agent"]) == ("Name: Ada", 5, None)
    versions = json.loads(good(block("history", "assistant", "human", "--limit", "2", "--json")))["versions"]
    assert [each["value"] for each in versions] == ["Name: Ada", "Name: Ada\nCoffee"]


def test_subjects_and_users_have_blocks_of_their_own(daemon: Daemon) -> None:
    block = partial(daemon.symbi, "agent", "block")
    good(daemon.symbi("user", "add", "ada"))
    for more in ((), ("--subject", "17"), ("--user", "ada"), ("--user", "ada", "--subject", "17")):
        good(block("edit", "assistant", "human", "--value", " ".join(("of", *more)), *more))
    assert good(block("show", "assistant", "human")) == "of\n"
    assert good(block("show", "assistant", "human", "--subject", "17")) == "of --subject 17\n"
    assert good(block("show", "assistant", "human", "--user", "ada")) == "of --user ada\n"
    assert good(block("show", "assistant", "human", "--user", "ada", "--subject", "18")) == "\n"
    listed = good(block("list", "assistant", "--user", "ada", "--subject", "17"))
    assert "its subject" in listed


def test_mistakes_are_answered_with_the_right_names(daemon: Daemon, tmp_path: Path) -> None:
    block = partial(daemon.symbi, "agent", "block")
    refused(block("list", "asistant"), 2, "no agent is called 'asistant'", "did you mean assistant?")
    refused(block("show", "assistant", "humn"), 2, "no block is called 'humn'", "did you mean human?")
    refused(block("edit", "assistant", "persona", "--value", "x", "--version", "7"), 1, "newest version", "is 1, not 7")
    refused(block("edit", "assistant", "persona", "--value", "x" * 20_001), 2, "20,001 characters", "limit is 20,000")
    refused(block("edit", "assistant", "persona", "--value", "@absent.md"), 2, "no such file")
    refused(block("edit", "assistant", "persona"), 2, "not a terminal", "--value")
    refused(block("restore", "assistant", "persona", "9"), 2, "no version 9")
    refused(block("list", "assistant", "--user", "bob"), 2, "no user is called 'bob'")
    assert good(block("show", "assistant", "persona")) == "I am a helpful AI assistant.\n"


def script(path: Path, *lines: str) -> str:
    """Write an editor that runs these lines with the file in `$1`."""
    path.write_text("\n".join(("#!/bin/sh", *lines, "")))
    path.chmod(0o755)
    return str(path)


def test_the_editor_gets_the_text_and_gives_the_new_one(daemon: Daemon, tmp_path: Path) -> None:
    good(daemon.symbi("agent", "block", "edit", "assistant", "human", "--value", "Lives in Lyon."))
    editor = script(tmp_path / "editor", 'sed -i s/Lyon/Oslo/ "$1"', 'echo >> "$1"')
    shown = terminal(daemon, "agent", "block", "edit", "assistant", "human", EDITOR=editor, VISUAL=editor)
    assert "is now version" in shown
    assert good(daemon.symbi("agent", "block", "show", "assistant", "human")) == "Lives in Oslo.\n"


def test_an_edit_that_another_one_overtook_stores_nothing_and_keeps_the_text(daemon: Daemon, tmp_path: Path) -> None:
    good(daemon.symbi("agent", "block", "edit", "assistant", "human", "--value", "one"))
    overtake = f"{BIN / 'symbi'} agent block edit assistant human --value two"
    editor = script(tmp_path / "editor", overtake, 'echo three > "$1"')
    shown = terminal(daemon, "agent", "block", "edit", "assistant", "human", EDITOR=editor, VISUAL=editor)
    assert "newest version of the block human" in shown
    kept = re.search(r"your text is kept in (\S+\.md)", shown)
    assert kept is not None
    assert Path(kept[1]).read_text() == "three"
    assert Path(kept[1]).stat().st_mode & 0o077 == 0
    Path(kept[1]).unlink()
    assert good(daemon.symbi("agent", "block", "show", "assistant", "human")) == "two\n"


def test_characters_that_move_the_cursor_do_not_reach_a_terminal(daemon: Daemon) -> None:
    good(daemon.symbi("agent", "block", "edit", "assistant", "human", "--value", "a\x1b[2Jb"))
    assert "\x1b[2J" not in terminal(daemon, "agent", "block", "show", "assistant", "human")
    assert "\x1b[2J" not in good(daemon.symbi("agent", "block", "list", "assistant"))
    shown = json.loads(good(daemon.symbi("agent", "block", "show", "assistant", "human", "--json")))
    assert shown["value"] == "a\x1b[2Jb"
