"""Commands that are made from a tool or an operation: options from its parameters, and a view of its result."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import click

from runtime.cli.client import RootClient, call_daemon, find_root
from runtime.cli.terminal.output import F, confirm, json_option, local_time, print_table, root_option, with_zone
from runtime.cli.terminal.progress import no_progress
from runtime.cli.terminal.screen import echo, echo_json, echo_text, style

FILE: Final = Path(__file__).with_name("parameters.json")
"""Written by `python -m runtime.generate.command_parameters`."""

Answer = Mapping[str, Any]
Cell = str | Callable[[Answer], Any]
"""The name of a field of a row, or what returns the value of a row."""
View = Callable[[Answer], None]
"""Prints an answer for a person."""

MOST_ROWS: Final = 10_000
_PAGING: Final = ("cursor", "offset")
_METAVARS: Final = {"agent": "NAME", "collection": "NAME", "since": "2h|DATE", "until": "2h|DATE"}
_TIME: Final = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}.*(?:Z|[+-]\d{2}:\d{2})", re.ASCII)


@dataclass(frozen=True)
class Rows:
    """A table of the rows that an answer has in its field `rows`. `columns`: by head. `empty`: printed without rows."""

    rows: str
    columns: Mapping[str, Cell]
    empty: str

    def __call__(self, answer: Answer) -> None:
        cells = ([shown(_value(row, cell)) for cell in self.columns.values()] for row in answer[self.rows])
        print_table(tuple(self.columns), cells, empty=self.empty)
        if answer.get("next_cursor") is not None:
            echo("there are more; --limit shows them", err=True)


@dataclass(frozen=True)
class Fields:
    """Lines of name and value, without values that are empty. `text`: the field that is printed below them."""

    fields: Mapping[str, Cell]
    text: str | None = None

    def __call__(self, answer: Answer) -> None:
        size = max(map(len, self.fields))
        for name, cell in self.fields.items():
            if (value := shown(_value(answer, cell))) != "-":
                echo(style(name.ljust(size), bold=True), f"  {value}")
        if self.text is not None and answer[self.text]:
            echo_text(f"\n{answer[self.text]}")


@dataclass(frozen=True)
class Sentence:
    """One line with fields of the answer. `notes`: the field with lines for standard error."""

    text: str
    notes: str | None = None

    def __call__(self, answer: Answer) -> None:
        echo(self.text.format_map(answer))
        for note in () if self.notes is None else answer[self.notes]:
            echo(note, fg="yellow", err=True)


class ToolCommand(click.Command):
    """A command that is made from a tool or an operation. `target`: its name."""

    target: str


def shown(value: Any) -> str:
    """Return a value as a cell: `-` for none, a time in the local zone."""
    match value:
        case None | "" | [] | {}:
            return "-"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case list():
            return " ".join(map(str, value))
        case str():
            return local_time(value) if _TIME.fullmatch(value) else value
    return str(value)


def _value(row: Answer, cell: Cell) -> Any:
    return row[cell] if isinstance(cell, str) else cell(row)


def tool_command(
    target: str,
    name: str | None = None,
    *,
    view: View,
    short: str = "",
    doc: str = "",
    arguments: Mapping[str, str] = {},
    options: Mapping[str, str | None] = {},
    user: str | None = None,
    question: Callable[[RootClient, Answer], str] | None = None,
    undone: str = "nothing was deleted",
    daemon: bool = False,
    check: Callable[[Answer], None] = lambda _values: None,
    group: click.Group | None = None,
) -> click.Command:
    """Return the command that calls the tool or operation `target` and prints its answer by `view`, or as JSON.

    `short`, `doc`: its help, by default that of the tool. `arguments`: the parameters that are arguments, in their
    order, with their names in the help; `[NAME]` is optional. Each other parameter is an option; `options` has those
    that are called otherwise, such as `--all`, or `--timezone ZONE` with the name of the value, or None for one that is
    no option. `user`: the help of `--user`, which a command has if it is given, or if the tool has this parameter.
    `question`: returns what is asked before the call, unless `--yes` is given; `undone`: the answer to a no. `daemon`:
    it needs a running daemon. `check`: raises UsageError for parameters that are wrong.
    """
    parameters, about = _parameters()[target]["parameters"], _parameters()[target]["doc"]
    short = short or f"{re.split('[.:]', about)[0]}."

    def run(root: Path | None, as_json: bool, user: str | None = None, yes: bool = False, **given: Any) -> None:
        values = {each: _given(value) for each, value in given.items()}
        check(values)
        as_user = None if "user" in parameters else user
        values |= {"user": user} if "user" in parameters else {}
        if daemon:
            answer = call_daemon(find_root(root), target, values, user=as_user)
        else:
            with RootClient(find_root(root)) as client:
                if question is not None and not yes:
                    confirm(question(client, values), undone=undone)
                answer = _pages(client, target, values, as_user, view)
        if as_json:
            echo_json(answer)
        else:
            view(answer)

    run.__doc__ = doc or about
    command: Any = root_option(json_option(run))
    if question is not None:
        command = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")(command)
    if user is not None or "user" in parameters:
        command = click.option("--user", metavar="NAME", help=user or "For this user.  [default: owner]")(command)
    left_out = {*arguments, *_PAGING, "user", *(each for each, called in options.items() if called is None)}
    for each in reversed([each for each in parameters if each not in left_out]):
        command = _option(each, parameters[each], options.get(each), pages="cursor" in parameters)(command)
    for each, metavar in reversed(list(arguments.items())):
        command = _argument(each, parameters[each], metavar)(command)
    made: click.Command = click.command(name or target, cls=ToolCommand, short_help=short)(command)
    assert isinstance(made, ToolCommand)
    made.target = target
    if group is not None:
        group.add_command(made)
    return made


def _pages(client: RootClient, target: str, values: Answer, user: str | None, view: View) -> dict[str, Any]:
    """Return the answer; of a list with pages, as many rows as are asked for."""
    parameters = _parameters()[target]["parameters"]
    if "cursor" not in parameters or not isinstance(view, Rows):
        return client.call(target, values, user=user, progress=no_progress)
    wanted, most = values["limit"], parameters["limit"]["maximum"]
    rows: list[Any] = []
    cursor = None
    while True:
        asked = {**values, "limit": min(wanted - len(rows), most), "cursor": cursor}
        answer = client.call(target, asked, user=user, progress=no_progress)
        rows += answer[view.rows]
        cursor = answer["next_cursor"]
        if cursor is None or len(rows) >= wanted:
            return {**answer, view.rows: rows}


def _given(value: Any) -> Any:
    return list(value) or None if isinstance(value, tuple) else value


def _argument(name: str, about: Answer, metavar: str) -> Callable[[F], F]:
    return click.argument(name, metavar=metavar, required=not metavar.startswith("["), type=_type(about))


def _option(name: str, about: Answer, called: str | None, *, pages: bool) -> Callable[[F], F]:
    kind = _type({**about, "maximum": MOST_ROWS} if name == "limit" and pages else about)
    default, several = about.get("default"), about.get("several", False)
    flag = about.get("type") == "boolean"
    called, _, metavar = (called or "").partition(" ")
    shows = not several and not flag and default not in (None, "")
    return click.option(
        called or f"--{name.removesuffix('s').replace('_', '-') if several else name.replace('_', '-')}",
        name,
        is_flag=flag,
        multiple=several,
        required=about["required"],
        default=default if shows or flag else None,
        show_default=shows,
        type=None if flag else kind,
        metavar=metavar or _METAVARS.get(name) or ("N" if "minimum" in about else None),
        help=about.get("description", "").replace("`", "") + ("  Repeatable." if several else ""),
        callback=_moment if name in ("since", "until") else None,
    )


def _moment(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    return with_zone(value)


def _type(about: Answer) -> Any:
    if "enum" in about:
        return click.Choice(about["enum"])
    match about.get("type"):
        case "integer":
            return click.IntRange(about.get("minimum"), about.get("maximum"))
        case "number":
            return click.FLOAT
    return click.STRING


@cache
def _parameters() -> Mapping[str, Mapping[str, Any]]:
    found: dict[str, Any] = json.loads(FILE.read_bytes())
    return found
