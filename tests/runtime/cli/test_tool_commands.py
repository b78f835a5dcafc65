"""Commands that are made from tools and operations: one contract for all of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from runtime.cli import client, main, symbi
from runtime.cli.tool_command import FILE, ToolCommand
from runtime.daemon.process.root import Root, make
from runtime.generate.command_parameters import render
from runtime.tools import TOOLS
from tests.runtime.cli.terminal.test_screen import harmful, sample_of, terminal


def made(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], ToolCommand]]:
    """Yield all commands that are made, each with how it is called."""
    if isinstance(command, ToolCommand):
        yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from made(found, (*path, name))


COMMANDS = dict(made(symbi))
EACH = pytest.mark.parametrize("path", COMMANDS, ids=" ".join)


def test_the_committed_parameters_are_those_of_tools_and_operations() -> None:
    assert FILE.read_text(encoding="utf-8") == render()


def test_there_are_commands_for_agents_threads_users_and_tokens() -> None:
    assert {path[0] for path in COMMANDS} >= {"agent", "thread", "user", "token", "collection", "mcp-server"}


@EACH
def test_each_option_has_a_help(path: tuple[str, ...]) -> None:
    command = COMMANDS[path]
    options = [each for each in command.params if isinstance(each, click.Option)]
    assert all(each.help for each in options if each.name != "help")
    assert {"root", "as_json"} <= {each.name for each in options}
    assert command.help
    assert command.short_help
    assert command.short_help.endswith(".")


@EACH
def test_each_prints_the_answer_of_its_tool_and_nothing_that_controls_the_terminal(
    path: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = COMMANDS[path]
    if command.target not in TOOLS:
        return
    asked: list[tuple[str, dict[str, Any]]] = []
    monkeypatch.setattr(Root, "socket", lambda _root: "/nowhere")

    def answered(_address: str, _identity: str, name: str, envelope: dict[str, Any], *_: object) -> Any:
        if name == "user_list":
            return {"users": []}
        asked.append((name, envelope["parameters"]))
        return {**sample_of(TOOLS[name].result_schema), **({"next_cursor": None} if "cursor" in envelope else {})}

    make(tmp_path, dict(os.environ))
    monkeypatch.setattr(client, "_ask", answered)
    options = [each for each in command.params if isinstance(each, click.Option)]
    flags = [each.opts[0] for each in options if each.name in ("yes", "explain", "text")]
    for more in (flags, [*flags, "--json"]):
        with terminal() as printed, pytest.raises(SystemExit) as ended:
            main([*path, *_given(command), *more, "--root", str(tmp_path)])
        assert ended.value.code in (0, 1), printed()
        assert printed().strip()
        # Every text of the answer is one that would control a terminal.
        assert harmful(printed()) == []
    assert asked[-1][0] == command.target
    TOOLS[command.target].check({**asked[-1][1], **_valid(command)})


def _given(command: ToolCommand) -> Iterator[str]:
    """Yield what the tool needs as it is typed."""
    for each in command.params:
        value = str(_valid(command).get(str(each.name), "7d" if each.name == "since" else "1"))
        if isinstance(each, click.Argument):
            yield value
        elif each.required or each.name in _valid(command):
            yield from (each.opts[-1], value)


def _valid(command: ToolCommand) -> dict[str, Any]:
    """Return correct values of what the tool needs."""
    tool = TOOLS[command.target]
    names = tool.parameters.model_json_schema().get("required", ())
    return {name: (tool.example or {})[name] for name in names if name in (tool.example or {})}
