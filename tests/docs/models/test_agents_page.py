"""The page of agents: its program and its commands run, and it contains every command and option."""

from __future__ import annotations

import re
from pathlib import Path

import click

from runtime.cli.agent import agent
from runtime.cli.chat import chat
from runtime.cli.thread import thread
from runtime.threads.thread import KINDS
from tests.docs.shell import typed
from tests.runtime.agents.scripted import ScriptedModel, says
from tests.runtime.daemon.running import running, write_program

PAGE = (Path(__file__).parents[3] / "docs" / "agents.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^\$ (.*symbi .*)$", PAGE, re.MULTILINE)
INTERACTIVE = "symbi chat"


def test_every_example_on_the_page_runs(tmp_path: Path) -> None:
    (program,) = re.findall(r"^```symbiont\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    with ScriptedModel(says("Tea.")) as model:
        service = f'service openai {{ url "{model.url}" model "m" }}'
        write_program(tmp_path, re.sub(r"service ollama \{.*?\}", service, program, flags=re.DOTALL))
        with running(tmp_path, "program"):
            for command in COMMANDS:
                if command != INTERACTIVE:
                    done = typed(command, tmp_path)
                    assert done.returncode == 0, (command, done.stdout, done.stderr)


def test_every_option_of_a_chat_and_every_command_is_on_the_page() -> None:
    options = {option for each in chat.params for option in each.opts if option.startswith("--")}
    options |= {option for each in thread.commands["delete"].params for option in each.opts if option.startswith("--")}
    for option in options - {"--root", "--message"}:
        assert option in PAGE, option
    for group in (agent, thread):
        for name in group.list_commands(click.Context(group)):
            assert f"symbi {group.name} {name}" in PAGE or name in {"block", "undo"}, (group.name, name)


def test_every_kind_of_thread_is_on_the_page() -> None:
    for kind in KINDS:
        assert f"`{kind}`" in PAGE
