"""Errors in terms of the command's options and arguments instead of a tool's parameters."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import click

from runtime.errors import SymbiontError, UsageError

OPTIONS: Final = {"time_range": "since", "time_range.start": "since", "time_range.end": "until"}
"""Options that represent composite parameters."""


def error_of(error: Mapping[str, Any], otherwise: str) -> SymbiontError:
    """Return the error that an operation answered, in terms of the running command. `otherwise`: the message if it has
    none.

    Its `failure` names the wrong parameter, the reason, and a correct example.
    """
    kind = UsageError if error.get("exit_code") == 2 else SymbiontError
    failure = error.get("failure")
    if not isinstance(failure, dict) or not failure.get("field"):
        return kind(error.get("message") or otherwise, hint=error.get("hint"))
    whole = str(failure["field"])
    path = OPTIONS.get(whole, whole)
    field = path.partition(".")[0]
    parameter = _parameters().get(field)
    name = path if parameter is None else _name(parameter)
    return kind(f"{name}: {failure.get('message')}", hint=failure.get("hint") or _example_hint(failure, field))


def _parameters() -> dict[str, click.Parameter]:
    """Return the parameters of the running command by name; commands name them like the tools' parameters."""
    context = click.get_current_context(silent=True)
    return {} if context is None else {each.name: each for each in context.command.params if each.name}


def _name(parameter: click.Parameter) -> str:
    if isinstance(parameter, click.Option):
        return max(parameter.opts, key=len)
    return parameter.human_readable_name.removesuffix("...").strip("[]")


def _example_hint(failure: Mapping[str, Any], field: str) -> str | None:
    """Return a correct example as it is typed."""
    example, parameter = failure.get("example"), _parameters().get(field)
    value = example.get(field) if isinstance(example, dict) else None
    if value is None or parameter is None or isinstance(value, dict):
        return None
    values = value if isinstance(value, list) else [value]
    if isinstance(parameter, click.Option):
        if parameter.is_flag:
            return None
        return "for example " + " ".join(f"{_name(parameter)} {_shell_word(each)}" for each in values)
    return f"for example {' '.join(map(_shell_word, values))}"


def _shell_word(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return f"'{text}'" if any(each.isspace() for each in text) and "'" not in text else text
