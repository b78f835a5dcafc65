"""`symbi table sql` and `schema`: one statement, and the tables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import click

from runtime.cli.table.output import print_result, print_schema
from runtime.cli.terminal.input import text_or_file
from runtime.cli.terminal.output import user_option
from runtime.cli.tool_command import tool_command
from runtime.errors import UsageError

tables_user_option = user_option("The tables of this user.")


def _statement(given: dict[str, Any]) -> Mapping[str, Any]:
    values, text = given.pop("param"), given.pop("params_json")
    if values and text is not None:
        raise UsageError("--param and --params exclude each other")
    params: Any = [_value(each) for each in values or ()] or None
    return {**given, "params": params if text is None else _params(text_or_file(text, "--params"))}


def _value(text: str) -> Any:
    """Return the value that is meant by a text: JSON, or the text itself."""
    try:
        return json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError):
        return text


def _no_number(_: str) -> Any:
    raise ValueError


def _params(text: str) -> Any:
    try:
        read = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        why = str(error) or "NaN and Infinity are no JSON numbers"
        raise UsageError(f"--params is not JSON: {why}") from None
    if not isinstance(read, list | dict):
        raise UsageError("--params is neither a list nor an object", hint="""for example --params '[20, "bread"]'""")
    return read


sql = tool_command(
    "agent_memory_sql",
    "sql",
    short="Run one SQL statement.",
    doc="""Run the statement QUERY, with `-` that on standard input, with `@FILE` that of a file, and print what it
    returns.

    `symbi table schema` tells the dialect. NULL is printed as NULL, and the text NULL in quotes.
    """,
    arguments={"query": "QUERY|@FILE|-"},
    options={"params": None},
    more_options=[
        click.option(
            "--param",
            metavar="VALUE",
            multiple=True,
            help="A value for the next `?`: a number, true, false, null, a text, or JSON, such as '\"7\"' for the text "
            "7. Repeatable.",
        ),
        click.option(
            "--params", "params_json", metavar="JSON|@FILE", help="All values: a list for `?`, an object for `:name`."
        ),
    ],
    read=_statement,
    user="The tables of this user.  [default: owner]",
    view=print_result,
)
schema = tool_command(
    "agent_memory_schema",
    "schema",
    user="The tables of this user.  [default: owner]",
    view=print_schema,
)
