"""`symbi agent block`: the blocks of an agent's core memory, which are in its context at every step."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from runtime.cli.agent.editor import edited_text, kept_text
from runtime.cli.client import RootClient, call, find_root
from runtime.cli.terminal.input import text_or_file
from runtime.cli.terminal.output import (
    F,
    as_read,
    json_option,
    local_time,
    print_json,
    print_table,
    printable,
    root_option,
    user_option,
)
from runtime.errors import SymbiontError, UsageError


def _whose(command: F) -> F:
    """Add `--subject` and `--user`."""
    command = user_option("The blocks of this user.")(command)
    return click.option(
        "--subject", metavar="TEXT", help="The blocks of this subject of keyed threads, such as a customer's number."
    )(command)


@click.group()
def block() -> None:
    """Show and edit the blocks of an agent's core memory.

    An agent sees its blocks at every step and edits them itself: `persona` says who it is, `human` what it knows about
    the user. Every change is kept as a version.
    """


@block.command("list", short_help="List the blocks of an agent.")
@click.argument("agent")
@_whose
@root_option
@json_option
def list_(agent: str, root: Path | None, as_json: bool, **whose: str | None) -> None:
    """List the blocks of AGENT in the order in which they are in its context."""
    answer = call(find_root(root), "agent_block_list", {"agent": agent, **whose})
    if as_json:
        print_json(answer)
        return
    columns = ("block", "of", "characters", "version", "changed", "text")
    print_table(columns, [_row(each) for each in answer["blocks"]], empty="There are no blocks.")


def _row(row: Mapping[str, Any]) -> tuple[str, ...]:
    owner = "all agents" if row["agent"] is None else "its subject" if row["subject"] is not None else row["agent"]
    return (
        f"{row['label']} (read-only)" if row["read_only"] else row["label"],
        owner,
        f"{row['characters']:,} of {row['char_limit']:,}",
        str(row["version"]),
        local_time(row["updated_at"]) if row["updated_at"] else "-",
        row["beginning"],
    )


@block.command(short_help="Print the text of a block.")
@click.argument("agent")
@click.argument("label")
@_whose
@root_option
@json_option
def show(agent: str, label: str, root: Path | None, as_json: bool, **whose: str | None) -> None:
    """Print the text of the block LABEL of AGENT."""
    answer = call(find_root(root), "agent_block_show", {"agent": agent, "label": label, **whose})
    if as_json:
        print_json(answer)
    else:
        click.echo(as_read(answer["value"]), nl=not answer["value"].endswith("\n"))


@block.command(short_help="Edit the text of a block.")
@click.argument("agent")
@click.argument("label")
@click.option(
    "--value",
    metavar="TEXT|@FILE|-",
    help="The new text, or @ and a file, or - for standard input; else an editor opens.",
)
@click.option("--version", type=click.IntRange(1), metavar="N", help="Refuse to edit if the newest version is not N.")
@_whose
@root_option
@json_option
def edit(
    agent: str,
    label: str,
    value: str | None,
    version: int | None,
    root: Path | None,
    as_json: bool,
    **whose: str | None,
) -> None:
    """Edit the block LABEL of AGENT, a read-only one too, in $VISUAL or $EDITOR, or replace its text by --value.

    If the block is changed while the editor is open, nothing is stored, and the text is kept in a file.
    """
    named = {"agent": agent, "label": label, **whose}
    given = None if value is None else text_or_file(value, "--value")
    with RootClient(find_root(root)) as client:
        if given is not None:
            answer = client.call("agent_block_edit", {**named, "value": given, "version": version})
        else:
            answer = _in_editor(client, named, version)
    if as_json:
        print_json(answer)
        return
    for note in answer["notes"]:
        click.secho(printable(note), fg="yellow", err=True)
    done = "is now" if answer["changed"] else "is unchanged,"
    click.echo(f"the block {answer['label']} {done} version {answer['version']}")


def _in_editor(client: RootClient, named: Mapping[str, Any], version: int | None) -> dict[str, Any]:
    if not sys.stdin.isatty():
        raise UsageError("standard input is not a terminal", hint="give the text with --value")
    shown = client.call("agent_block_show", named)
    text = edited_text(shown["value"])
    newest = shown["version"] if version is None else version
    try:
        return client.call("agent_block_edit", {**named, "value": text, "version": newest})
    except SymbiontError as error:
        if text != shown["value"]:
            click.echo(f"symbi: your text is kept in {kept_text(text)}", err=True)
        raise error


@block.command(short_help="Show the versions of a block.")
@click.argument("agent")
@click.argument("label")
@click.argument("count", metavar="[N]", type=click.IntRange(1, 50), default=10)
@_whose
@root_option
@json_option
def history(agent: str, label: str, count: int, root: Path | None, as_json: bool, **whose: str | None) -> None:
    """Show the latest N versions (default 10) of the block LABEL of AGENT, newest first: who made them, in which run.

    The newest 50 versions are kept. `--json` shows the whole texts.
    """
    given = {"agent": agent, "label": label, "limit": count, **whose}
    answer = call(find_root(root), "agent_block_history", given)
    if as_json:
        print_json(answer)
        return
    rows = [
        (
            str(each["version"]),
            local_time(each["created_at"]) if each["created_at"] else "-",
            each["changed_by"],
            each["run_id"] or "-",
            " ".join(each["value"][:400].split())[:200],
        )
        for each in answer["versions"]
    ]
    print_table(("version", "when", "by", "run", "text"), rows, empty="There are no versions.")


@block.command(short_help="Restore an earlier version of a block.")
@click.argument("agent")
@click.argument("label")
@click.argument("version", type=click.IntRange(1))
@_whose
@root_option
@json_option
def restore(agent: str, label: str, version: int, root: Path | None, as_json: bool, **whose: str | None) -> None:
    """Give the block LABEL of AGENT the text of its version VERSION again, as a new version."""
    given = {"agent": agent, "label": label, "version": version, **whose}
    answer = call(find_root(root), "agent_block_restore", given)
    if as_json:
        print_json(answer)
    else:
        click.echo(f"the block {answer['label']} is now version {answer['version']}, with the text of {version}")
