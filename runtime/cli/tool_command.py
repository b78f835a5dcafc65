"""Commands that are made from a tool or an operation: options from its parameters, and a view of its result."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from inspect import cleandoc
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from runtime.cli.client import RootClient, call_daemon, find_root
from runtime.cli.terminal.input import text_or_file, text_or_input
from runtime.cli.terminal.output import F, confirm, json_option, local_time, print_table, root_option, with_zone
from runtime.cli.terminal.progress import no_progress
from runtime.cli.terminal.screen import echo, echo_json, echo_text, style

if TYPE_CHECKING:
    from runtime.memory.indexing.progress import Progress

FILE: Final = Path(__file__).with_name("parameters.json")
"""Written by `python -m runtime.generate.command_parameters`."""

Answer = Mapping[str, Any]
Cell = str | Callable[[Answer], Any]
"""The name of a field of a row, or what returns the value of a row."""
View = Callable[[Answer], None]
"""Prints an answer for a person. What was given is there too, under the names of the parameters."""
Question = Callable[[RootClient, Answer, str | None], str | None]
"""Returns what is asked before a call with these parameters, as this user; None for nothing."""
Bar = Callable[[], "AbstractContextManager[Progress]"]
"""Shows the progress of a call, such as `progress_bar`."""

MOST_ROWS: Final = 10_000
_PAGING: Final = ("cursor", "offset")
_OPTION_NAMES: Final = {
    "agent": "--agent NAME",
    "all_tags": "--all-tags TAG",
    "collection": "--collection NAME",
    "memory": "--memory NAME",
    "memory_type": "--type",
    "project": "--project ID",
    "project_id": "--project ID",
    "score_threshold": "--threshold 0…1",
    "since": "--since 2h|DATE",
    "source_uri": "--source-uri URI",
    "status": "--status",
    "subject": "--subject TEXT",
    "tags_all": "--all-tags TAG",
    "until": "--until 2h|DATE",
}
"""Options that are not called like the parameter, and the names of their values."""
_HELP: Final = {
    "since": "Only from this time on: a duration before now, or a local date and time.",
    "until": "Only from before this time.",
}
"""Instead of the description of a parameter, whose times are in UTC."""
_MOMENTS: Final = ("since", "until", "expires_at")
"""Parameters for which a time without an offset is one of this machine."""
_TIME: Final = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}.*(?:Z|[+-]\d{2}:\d{2})", re.ASCII)


@dataclass(frozen=True)
class Rows:
    """A table of the rows that an answer has in its field `rows`. `columns`: by head. `empty`: printed without rows.
    `optional`: heads of columns that are only there if a row has a value."""

    rows: str
    columns: Mapping[str, Cell]
    empty: str
    optional: Collection[str] = ()

    def __call__(self, answer: Answer) -> None:
        rows = [
            {head: cell_text(_value(row, cell)) for head, cell in self.columns.items()} for row in answer[self.rows]
        ]
        heads = [each for each in self.columns if each not in self.optional or any(row[each] != "-" for row in rows)]
        print_table(heads, ([row[head] for head in heads] for row in rows), empty=self.empty)
        if answer.get("next_cursor") is not None or answer.get("more"):
            echo("there are more; --limit shows them", err=True)


@dataclass(frozen=True)
class Fields:
    """Lines of name and value, without values that are empty; a list has a line for each of its values. `text`: the
    field that is printed below them."""

    fields: Mapping[str, Cell]
    text: str | None = None

    def __call__(self, answer: Answer) -> None:
        size = max(map(len, self.fields))
        for name, cell in self.fields.items():
            value = _value(answer, cell)
            for each in value if isinstance(value, list) else [value]:
                if (text := cell_text(each)) != "-":
                    echo(style(name.ljust(size), bold=True), f"  {text}")
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


def cell_text(value: Any) -> str:
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
    more_options: Sequence[Callable[[Any], Any]] = (),
    read: Callable[[dict[str, Any]], Answer] = lambda given: given,
    null: Collection[str] = (),
    user: str | None = None,
    question: Question | None = None,
    undone: str = "nothing was deleted",
    daemon: bool = False,
    progress: Bar = lambda: nullcontext(no_progress),
    details: Callable[[RootClient, Answer], Answer] = lambda _client, _answer: {},
    views: Mapping[str, tuple[str, View]] = {},
    failed: Callable[[Answer], Any] = lambda _answer: False,
    group: click.Group | None = None,
) -> click.Command:
    """Return the command that calls the tool or operation `target` and prints its answer by `view`, or as JSON.

    `short`, `doc`: its help, by default that of the tool. `arguments`: the parameters that are arguments, in their
    order, with their names in the help; `[NAME]` is optional. Each other parameter is an option; `options` has those
    that are called otherwise, such as `--all`, or `--timezone ZONE` with the name of the value, or None for one that is
    no option. A value called `TEXT|-` is also read from standard input, and one called `TEXT|@FILE|-` from a file.

    `more_options`: options that are no parameters. `read`: returns the parameters by what was given; raises UsageError.
    `null`: parameters that are sent also if they are None. `user`: the help of `--user`, which a command has if it is
    given, or if the tool has this parameter. `question`: returns what is asked before the call, unless `--yes` is given
    or it is None; `undone`: the answer to a no. `daemon`: it needs a running daemon.

    `details`: returns what other calls add to the answer for a person. `views`: other views, each by the flag that
    chooses it, with the flag's help. `failed`: returns True for an answer with which the exit code is 1.
    """
    parameters, about = _parameters()[target]["parameters"], _parameters()[target]["doc"]
    call = _Call(target, view, read, null, question, undone, daemon, progress, details, views, failed)
    command = ToolCommand(
        name or target,
        callback=call,
        short_help=short or f"{re.split('[.:]', about)[0]}.",
        help=cleandoc(doc or about),
    )
    command.target = target
    for each, metavar in arguments.items():
        _argument(each, parameters[each], metavar)(command)
    for each in parameters:
        called = options.get(each, _OPTION_NAMES.get(each, ""))
        if called is not None and each not in (*arguments, *_PAGING, "user"):
            about_it = {**parameters[each], "required": parameters[each]["required"] and each not in null}
            _option(each, about_it, called, pages="cursor" in parameters)(command)
    for option in (*more_options, *(click.option(flag, is_flag=True, help=text) for flag, (text, _) in views.items())):
        option(command)
    if user is not None or "user" in parameters:
        click.option("--user", metavar="NAME", help=user or "For this user.  [default: owner]")(command)
    if question is not None:
        click.option("--yes", is_flag=True, help="Do not ask for confirmation.")(command)
    json_option(root_option(command))
    if group is not None:
        group.add_command(command)
    return command


class ToolCommand(click.Command):
    """A command that is made from a tool or an operation. `target`: its name."""

    target: str


@dataclass(frozen=True)
class _Call:
    """The function of a command. For the fields see `tool_command`."""

    target: str
    view: View
    read: Callable[[dict[str, Any]], Answer]
    null: Collection[str]
    question: Question | None
    undone: str
    daemon: bool
    progress: Bar
    details: Callable[[RootClient, Answer], Answer]
    views: Mapping[str, tuple[str, View]]
    failed: Callable[[Answer], Any]

    def __call__(
        self, root: Path | None, as_json: bool, user: str | None = None, yes: bool = False, **given: Any
    ) -> None:
        chosen = [view for flag, (_, view) in self.views.items() if given.pop(flag.lstrip("-"))]
        as_user = user
        if "user" in _parameters()[self.target]["parameters"]:
            given["user"], as_user = user, None
        values = self.read({name: _parameter_value(value) for name, value in given.items()})
        more: Answer = {}
        if self.daemon:
            answer = call_daemon(find_root(root), self.target, values, user=as_user)
        else:
            with RootClient(find_root(root)) as client:
                if (
                    self.question is not None
                    and not yes
                    and (asked := self.question(client, values, as_user)) is not None
                ):
                    confirm(asked, undone=self.undone)
                with self.progress() as show:
                    answer = self._answer(client, values, as_user, show)
                more = {} if as_json else self.details(client, answer)
        if as_json:
            echo_json(answer)
        else:
            [*chosen, self.view][0]({**values, **answer, **more})
        if self.failed(answer):
            sys.exit(1)

    def _answer(self, client: RootClient, values: Answer, user: str | None, progress: Progress) -> dict[str, Any]:
        """Return the answer; of a list with pages, as many rows as are asked for."""
        parameters = _parameters()[self.target]["parameters"]
        if "cursor" not in parameters or not isinstance(self.view, Rows):
            return client.call(self.target, values, user=user, null=self.null, progress=progress)
        wanted, most = values["limit"], parameters["limit"]["maximum"]
        rows: list[Any] = []
        cursor = None
        while True:
            asked = {**values, "limit": min(wanted - len(rows), most), "cursor": cursor}
            answer = client.call(self.target, asked, user=user, progress=progress)
            rows += answer[self.view.rows]
            cursor = answer["next_cursor"]
            if cursor is None or len(rows) >= wanted:
                return {**answer, self.view.rows: rows}


def _parameter_value(value: Any) -> Any:
    return list(value) or None if isinstance(value, tuple) else value


def _argument(name: str, about: Answer, metavar: str) -> Callable[[F], F]:
    required = not metavar.startswith("[")
    return click.argument(name, metavar=metavar, required=required, type=_type(about), callback=_reader(name, metavar))


def _option(name: str, about: Answer, called: str, *, pages: bool) -> Callable[[F], F]:
    kind = _type({**about, "maximum": MOST_ROWS} if name == "limit" and pages else about)
    default, several = about.get("default"), about.get("several", False)
    flag = about.get("type") == "boolean"
    called, _, metavar = called.partition(" ")
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
        metavar=metavar or ("N" if "minimum" in about else None),
        help=_HELP.get(name, about.get("description", "").replace("`", "")) + ("  Repeatable." if several else ""),
        callback=_reader(name, metavar),
    )


def _reader(name: str, metavar: str) -> Callable[[click.Context, click.Parameter, Any], Any] | None:
    """Return what reads a value as its metavar says, or that of a time."""
    shown, *sources = metavar.strip("[]").split("|")
    if name in _MOMENTS:
        return lambda _context, _parameter, value: with_zone(value)
    if "-" not in sources:
        return None
    text = text_or_file if "@FILE" in sources else text_or_input
    return lambda _context, _parameter, value: None if value is None else text(value, shown)


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
