"""`symbi kv`: the key-value store."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from runtime.cli.client import RootClient, find_root
from runtime.cli.terminal.output import (
    beginning,
    confirm,
    count_text,
    json_option,
    local_time,
    root_option,
    subject_option,
)
from runtime.cli.terminal.output_file import export_lines, output_option
from runtime.cli.terminal.screen import echo, echo_json, one_line
from runtime.cli.tool_command import Rows, tool_command
from runtime.errors import NotFound, UsageError

_PAGE: Final = 500
"""Entries that an export asks for at once, so that the daemon can do other work in between."""
_SHOWN: Final = 60
"""Characters of a value that a list shows."""


@click.group()
def kv() -> None:
    """Set, list, delete and export what agents keep by name.

    A value is any JSON of at most 64 KiB. Agents use the same entries with the tools `agent_memory_set`,
    `agent_memory_get` and `agent_memory_delete`.
    """


_command = partial(tool_command, group=kv)


def _read_entry(given: dict[str, Any]) -> Mapping[str, Any]:
    text = given.pop("text")
    return given if text else {**given, "value": _json_value(given["value"])}


def _json_value(text: str) -> Any:
    """Return the value in a JSON text. Raises UsageError."""

    def refuse(name: str) -> None:
        raise ValueError(name)

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise UsageError("the value has an object with a duplicate key", hint="give each key of an object once")
        return found

    try:
        return json.loads(text, object_pairs_hook=once, parse_constant=refuse)
    except json.JSONDecodeError as error:
        what = f"the value is not JSON: {error.msg.lower()} (line {error.lineno}, column {error.colno})"
    except (ValueError, RecursionError):
        what = "the value is not JSON: a number is not finite or too long, or it is nested too deep"
    raise UsageError(what, hint="""quote a text for the shell, as '"text"', or give --text""")


def _print_set(answer: Mapping[str, Any]) -> None:
    until = f", until {local_time(answer['expires_at'])}" if answer["expires_at"] else ""
    echo(f"{answer['key']} has version {answer['version']}{until}")


_command(
    "agent_memory_set",
    "set",
    short="Store a value under a name.",
    doc="Store a value under NAME, in place of what is there: JSON, or @ and a file, or - for standard input.",
    arguments={"key": "NAME", "value": "JSON|@FILE|-"},
    options={"expires_at": "--expires WHEN"},
    more_options=[click.option("--text", is_flag=True, help="The value is a text, not JSON.")],
    read=_read_entry,
    null=("value",),
    view=_print_set,
)


@kv.command(short_help="Print the value of an entry.")
@click.argument("name")
@subject_option("An entry of")
@root_option
@json_option
def get(name: str, subject: str | None, root: Path | None, as_json: bool) -> None:
    """Print the value of the entry NAME as JSON; with --json, the whole entry with its version."""
    with RootClient(find_root(root)) as client:
        (entry,) = client.call("agent_memory_get", {"key": name, "subject": subject})["entries"]
    echo_json(entry if as_json else entry["value"])


_command(
    "agent_memory_get",
    "list",
    short="List entries.",
    doc="List entries in the order in which they were created.",
    options={"key": None},
    view=Rows(
        "entries",
        {
            "name": "key",
            "value": lambda row: beginning(json.dumps(row["value"], ensure_ascii=False), _SHOWN),
            "tags": "tags",
            "version": "version",
            "expires": "expires_at",
            "changed": "updated_at",
            "subject": "subject",
        },
        empty="There are no entries.",
        optional=("subject",),
    ),
)


@kv.command(short_help="Delete entries permanently.")
@click.argument("name", metavar="[NAME]…", nargs=-1)
@click.option(
    "--tag",
    "tags",
    metavar="TAG",
    multiple=True,
    help="Delete all entries with this tag. Repeatable: entries with all of them.",
)
@subject_option("Only entries of")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@root_option
@json_option
def delete(
    *, name: tuple[str, ...], tags: tuple[str, ...], subject: str | None, yes: bool, root: Path | None, as_json: bool
) -> None:
    """Delete the entries with these names, or all entries that have all of the tags, or all of a subject.

    The exit code is 2 if there is no entry with one of the names; the others are deleted.
    """
    if bool(name) == bool(tags) and (name or subject is None):
        raise UsageError("give either names, --tag or --subject", hint="entries are never deleted without a choice")
    chosen = ", ".join(map(one_line, name)) if name else "all entries"
    chosen += f" with {' and '.join(map(one_line, tags))}" if tags else ""
    chosen += f" of {one_line(subject)}" if subject is not None else ""
    if not yes:
        confirm(f"Delete {chosen}?", undone="nothing was deleted")
    with RootClient(find_root(root)) as client:
        asked: list[dict[str, Any]] = [{"key": each} for each in dict.fromkeys(name)] or [{"tags": list(tags) or None}]
        counts = [client.call("agent_memory_delete", {**each, "subject": subject})["deleted"] for each in asked]
    if as_json:
        echo_json({"deleted": sum(counts)})
    else:
        echo(f"deleted {count_text(sum(counts), 'entry', 'entries')}")
    absent = [each["key"] for each, count in zip(asked, counts, strict=True) if name and not count]
    if absent:
        raise NotFound(f"there is no entry {', '.join(map(repr, absent))}")


@kv.command(short_help="Export all entries as JSON Lines.")
@output_option
@subject_option("Only entries of")
@root_option
def export(output: str, subject: str | None, root: Path | None) -> None:
    """Export all entries, one JSON object per line, in the order in which they were created."""
    with RootClient(find_root(root)) as client:
        pages = client.pages("agent_memory_kv_export", {"subject": subject, "limit": _PAGE})
        count = export_lines(output, ((page["entries"], page["total"]) for page in pages))
    echo(f"exported {count_text(count, 'entry', 'entries')}" + ("" if output == "-" else f" to {output}"), err=True)
