"""`symbi table shell`: statements, one after the other."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import click

from runtime.cli.client import RootClient, find_root
from runtime.cli.table.output import print_result, print_schema
from runtime.cli.table.sql import tables_user_option
from runtime.cli.table.target import find_table
from runtime.cli.terminal.output import root_option
from runtime.cli.terminal.screen import echo, echo_text, read_line
from runtime.errors import SymbiontError

_HELP: Final = """\
A statement ends with `;` and may have several lines.
.tables          the names of the tables
.schema [TABLE]  the tables with their columns, or one of them
.help            this text
.quit            the end, as Ctrl-D; Ctrl-C drops what is typed"""

Ask = Callable[[str, Mapping[str, Any]], dict[str, Any]]


@click.command(short_help="Type statements, one after the other.")
@tables_user_option
@root_option
def shell(user: str | None, root: Path | None) -> None:
    """Run the statements that you type, each up to `;`, until `.quit` or Ctrl-D. `.help` lists the other commands.

    Statements in a pipe are run in order; the first that fails ends the command with its exit code. What was typed is
    kept until the end and never stored, because statements contain what tables contain.
    """
    interactive = sys.stdin.isatty()
    if interactive:
        # Line editing and a history, for `input`.
        with suppress(ImportError):
            import readline  # noqa: F401
    with RootClient(find_root(root)) as client:

        def ask(operation: str, given: Mapping[str, Any]) -> dict[str, Any]:
            return client.call(operation, given, user=user)

        _Shell(ask, stops=not interactive).run(_read_typed_line if interactive else _read_piped_line)


def _read_typed_line(prompt: str) -> str:
    return read_line(prompt)


def _read_piped_line(_prompt: str) -> str:
    """Return the next line of standard input. Raises EOFError."""
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.removesuffix("\n")


class _Shell:
    """One session. `stops`: an error ends it."""

    def __init__(self, ask: Ask, *, stops: bool) -> None:
        self._ask = ask
        self._stops = stops
        self._rest = ""

    def run(self, read: Callable[[str], str]) -> None:
        """Run what `read` returns, which is called with a prompt and raises EOFError at the end."""
        while True:
            try:
                line = read("   ...> " if self._rest else "symbi> ")
            except EOFError:
                break
            except KeyboardInterrupt:
                echo()
                self._rest = ""
                continue
            if not self._rest and line.lstrip().startswith("."):
                if not self._command(line.split()):
                    return
            else:
                self._take(line)
        if self._stops and self._rest.strip():
            self._statement(self._rest)
        elif not self._stops:
            echo()

    def _take(self, line: str) -> None:
        """Run the statements that end in this line, and keep the rest."""
        text = f"{self._rest}\n{line}" if self._rest else line
        start = len(self._rest)
        self._rest = ""
        begin = 0
        for place in range(start, len(text)):
            if text[place] == ";" and _complete(text[begin : place + 1]):
                statement, begin = text[begin : place + 1], place + 1
                if statement.strip(" \t\n;"):
                    self._statement(statement)
        self._rest = text[begin:] if text[begin:].strip() else ""

    def _statement(self, statement: str) -> None:
        self._show_answer("agent_memory_sql", {"query": statement.strip()}, print_result)

    def _command(self, words: list[str]) -> bool:
        """Run a command of the shell; return False if it ends the session."""
        match words:
            case [".quit" | ".exit"]:
                return False
            case [".tables"]:
                self._show_answer("agent_memory_schema", {}, _print_names)
            case [".schema"]:
                self._show_answer("agent_memory_schema", {}, print_schema)
            case [".schema", name]:
                self._show_answer("agent_memory_schema", {}, lambda answer: print_schema(_schema_of(answer, name)))
            case [".help"]:
                echo_text(_HELP)
            case _:
                self._fail(SymbiontError(f"there is no command {words[0]}", hint="`.help` lists them"))
        return True

    def _show_answer(self, operation: str, given: Mapping[str, Any], show: Callable[[Mapping[str, Any]], None]) -> None:
        try:
            show(self._ask(operation, given))
        except SymbiontError as error:
            self._fail(error)
        except KeyboardInterrupt:
            if self._stops:
                raise
            echo("interrupted; a change may have happened or not", fg="yellow", err=True)

    def _fail(self, error: SymbiontError) -> None:
        if self._stops:
            raise error
        echo(str(error), fg="red", err=True)
        if error.hint:
            echo(f"  help: {error.hint}", err=True)


def _complete(text: str) -> bool:
    """Return True if a statement ends here: the last `;` is in no text, name or comment."""
    try:
        return sqlite3.complete_statement(text)
    except ValueError:  # a NUL character: the database refuses it
        return True


def _print_names(answer: Mapping[str, Any]) -> None:
    for table in answer["tables"]:
        echo(table["name"])


def _schema_of(answer: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a schema with one table. Raises UsageError with the nearest names."""
    return {**answer, "tables": [find_table(answer, name)]}
