"""`symbi agent config`: the settings that a user gives an agent in place of the program's."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import click

from runtime.cli.client import RootClient, find_root
from runtime.cli.terminal.input import text_or_file
from runtime.cli.terminal.output import beginning, json_option, print_table, root_option, user_option
from runtime.cli.terminal.screen import echo, echo_json
from runtime.cli.tool_command import tool_command
from runtime.errors import UsageError
from runtime.suggestions import unknown_name

_PREFERENCES: Final = "preferences"
_TEXTS: Final = ("model", "system_prompt")
_SETTINGS: Final = ("enabled", "model", "max_tokens", "compaction_threshold", "system_prompt", _PREFERENCES)
_LINE: Final = 80
"""Characters of a value in the table."""


@click.group()
def config() -> None:
    """Show and change the settings that a user gives an agent.

    They take the place of those of the program, except for what the program locks: whether the agent is enabled, its
    model, the size of its context, its system prompt, and what the user prefers.
    """


def _print(answer: Mapping[str, Any]) -> None:
    rows = [(name, _line(answer[name]), _source(answer, name)) for name in _SETTINGS]
    print_table(("setting", "value", "from"), rows, empty="")
    for note in answer["notes"]:
        echo(note, fg="yellow", err=True)


tool_command(
    "agent_config_show",
    "show",
    arguments={"agent": "[AGENT]"},
    view=_print,
    group=config,
)


@config.command("set", short_help="Change a setting of an agent.")
@click.argument("agent")
@click.argument("setting")
@click.argument("value")
@user_option("The settings of this user.")
@root_option
@json_option
def set_(agent: str, setting: str, value: str, user: str | None, root: Path | None, as_json: bool) -> None:
    """Change SETTING of AGENT to VALUE: @ and a file for its text, or - for standard input.

    \b
    enabled               true or false
    model                 the name of a `model` block with `offered true`
    max_tokens            tokens of the context, at least 1024
    compaction_threshold  0.1 to 1: share of the context that may be used
                          before older messages are summarized
    system_prompt         the instruction for every run
    preferences           a JSON object: {"language": "Italian"}
    preferences.NAME      one of the preferences

    The agent uses the new value from its next attempt on. For example:

    \b
    symbi agent config set assistant preferences.language Italian
    symbi agent config set assistant system_prompt @prompt.md
    """

    def change(own: dict[str, Any]) -> None:
        name, _, preference = setting.partition(".")
        text = text_or_file(value, "VALUE")
        if name == _PREFERENCES and preference:
            own[name] = {**own.get(name, {}), preference: text}
        else:
            known = _setting_name(setting)
            own[known] = _parse_value(known, text)

    _change(root, agent, user, change, as_json=as_json)


@config.command(short_help="Give an agent the settings of the program again.")
@click.argument("agent")
@click.argument("settings", metavar="SETTING…", nargs=-1, required=True)
@user_option("The settings of this user.")
@root_option
@json_option
def unset(agent: str, settings: tuple[str, ...], user: str | None, root: Path | None, as_json: bool) -> None:
    """Give each SETTING of AGENT the value of the program again; `preferences.NAME` removes one of the preferences."""

    def change(own: dict[str, Any]) -> None:
        for setting in settings:
            name, _, preference = setting.partition(".")
            if name == _PREFERENCES and preference:
                own[name] = {each: value for each, value in own.get(name, {}).items() if each != preference}
            else:
                own.pop(_setting_name(setting), None)

    _change(root, agent, user, change, as_json=as_json)


def _change(
    root: Path | None, agent: str, user: str | None, change: Callable[[dict[str, Any]], None], *, as_json: bool
) -> None:
    """Read the user's own settings, change them, and replace them, unless somebody else did meanwhile."""
    whose = {"agent": agent, "user": user}
    with RootClient(find_root(root)) as client:
        shown = client.call("agent_config_show", whose)
        own = {name: shown[name] for name in shown["overridden"]}
        change(own)
        answer = client.call("agent_config_edit", {**whose, **own, "version": shown["version"]})
    if as_json:
        echo_json(answer)
    else:
        _print(answer)


def _source(answer: Mapping[str, Any], name: str) -> str:
    if name in answer["locked"]:
        return "the program, locked"
    return "the user" if name in answer["overridden"] else "the program"


def _line(value: Any) -> str:
    return beginning(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), _LINE) or "-"


def _setting_name(setting: str) -> str:
    if setting not in _SETTINGS:
        raise unknown_name("setting", setting, _SETTINGS)
    return setting


def _parse_value(setting: str, text: str) -> Any:
    """Return the value of a setting. Raises UsageError."""
    if setting in _TEXTS:
        return text
    try:
        return json.loads(text)
    except ValueError:
        hint = """such as '{"language": "Italian"}'""" if setting == _PREFERENCES else None
        raise UsageError(f"{setting}: {text!r} is no number, true, false or JSON object", hint=hint) from None
