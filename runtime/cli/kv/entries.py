"""`symbi kv set`, `get`, `list` and `delete`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import click

from runtime.cli.client import RootClient, call, find_root
from runtime.cli.terminal.input import text_or_file
from runtime.cli.terminal.output import (
    F,
    confirm,
    counted,
    json_option,
    local_time,
    print_table,
    root_option,
    subject_option,
    with_zone,
)
from runtime.cli.terminal.screen import echo, echo_json, one_line
from runtime.errors import NotFound, UsageError

PAGE: Final = 100
"""Entries that are asked for at once."""
_SHOWN: Final = 60
"""Characters of a value that a list shows."""


def _tag_option(what: str) -> Callable[[F], F]:
    """Return a decorator that adds `--tag`."""
    return click.option("--tag", "tags", metavar="TAG", multiple=True, help=what)


@click.command("set", short_help="Store a value under a name.")
@click.argument("name")
@click.argument("value", metavar="JSON|@FILE|-")
@click.option("--text", is_flag=True, help="The value is a text, not JSON.")
@_tag_option("A tag; together they replace those of the entry. Repeatable.")
@click.option("--expires", metavar="WHEN", help="When it ceases to exist: 7d from now, or a date or time.")
@click.option(
    "--if-version", type=click.IntRange(0), metavar="N", help="Only if the entry has version N; 0: only a new one."
)
@subject_option("An entry of")
@root_option
@json_option
def set_(
    *,
    name: str,
    value: str,
    text: bool,
    tags: tuple[str, ...],
    expires: str | None,
    if_version: int | None,
    subject: str | None,
    root: Path | None,
    as_json: bool,
) -> None:
    """Store a value under NAME, in place of what is there: JSON, or @ and a file, or - for standard input."""
    said = text_or_file(value, "the value")
    given = {
        "key": name,
        "value": said if text else _read(said),
        "tags": list(tags) or None,
        "expires_at": with_zone(expires),
        "if_version": if_version,
        "subject": subject,
    }
    answer = call(find_root(root), "agent_memory_set", given, null=("value",))
    if as_json:
        echo_json(answer)
        return
    until = f", until {local_time(answer['expires_at'])}" if answer["expires_at"] else ""
    echo(f"{answer['key']} has version {answer['version']}{until}")


def _read(text: str) -> Any:
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


@click.command(short_help="Print the value of an entry.")
@click.argument("name")
@subject_option("An entry of")
@root_option
@json_option
def get(name: str, subject: str | None, root: Path | None, as_json: bool) -> None:
    """Print the value of the entry NAME as JSON; with --json, the whole entry with its version."""
    (entry,) = call(find_root(root), "agent_memory_get", {"key": name, "subject": subject})["entries"]
    echo_json(entry if as_json else entry["value"])


@click.command("list", short_help="List entries.")
@_tag_option("Only entries with this tag. Repeatable: entries with all of them.")
@click.option(
    "--limit",
    type=click.IntRange(1, 10_000),
    default=100,
    show_default=True,
    metavar="N",
    help="Show at most N entries.",
)
@subject_option("Only entries of")
@root_option
@json_option
def list_(tags: tuple[str, ...], limit: int, subject: str | None, root: Path | None, as_json: bool) -> None:
    """List entries in the order in which they were created."""
    entries: list[dict[str, Any]] = []
    cursor = None
    with RootClient(find_root(root)) as client:
        while len(entries) < limit:
            wanted = {"tags": list(tags) or None, "limit": min(PAGE, limit - len(entries)), "cursor": cursor}
            answer = client.call("agent_memory_get", {**wanted, "subject": subject})
            entries += answer["entries"]
            cursor = answer["next_cursor"]
            if cursor is None:
                break
    if as_json:
        echo_json({"entries": entries, "next_cursor": cursor})
        return
    subjects = any(entry["subject"] for entry in entries)
    columns = ("name", "value", "tags", "version", "expires", "changed", *(["subject"] if subjects else []))
    print_table(columns, (_row(entry)[: len(columns)] for entry in entries), empty="There are no entries.")
    if cursor is not None:
        echo("there are more entries; --limit shows more of them", err=True)


def _row(entry: Mapping[str, Any]) -> tuple[str, ...]:
    text = json.dumps(entry["value"], ensure_ascii=False)
    return (
        one_line(entry["key"]),
        one_line(text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"),
        " ".join(map(one_line, entry["tags"])) or "-",
        str(entry["version"]),
        local_time(entry["expires_at"]) if entry["expires_at"] else "-",
        local_time(entry["updated_at"]),
        one_line(entry["subject"] or "-"),
    )


@click.command(short_help="Delete entries permanently.")
@click.argument("name", metavar="[NAME]…", nargs=-1)
@_tag_option("Delete all entries with this tag. Repeatable: entries with all of them.")
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
        echo(f"deleted {counted(sum(counts), 'entry', 'entries')}")
    absent = [each["key"] for each, count in zip(asked, counts, strict=True) if name and not count]
    if absent:
        raise NotFound(f"there is no entry {', '.join(map(repr, absent))}")
