"""`symbi agent block`: the blocks of an agent's core memory, which are in its context at every step."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click

from runtime.cli.client import RootClient, find_root
from runtime.cli.terminal.input import text_or_file
from runtime.cli.terminal.output import F, beginning, json_option, root_option, subject_option, user_option
from runtime.cli.terminal.screen import echo, echo_json, echo_text
from runtime.cli.tool_command import Rows, Sentence, tool_command
from runtime.errors import SymbiontError, UsageError


def _owner_options(command: F) -> F:
    """Add `--subject` and `--user`."""
    return subject_option("The blocks of")(user_option("The blocks of this user.")(command))


@click.group()
def block() -> None:
    """Show and edit the blocks of an agent's core memory.

    An agent sees its blocks at every step and edits them itself: `persona` says who it is, `human` what it knows about
    the user. Every change is kept as a version.
    """


_command = partial(tool_command, group=block)


def _owner(row: Mapping[str, Any]) -> str:
    return "all agents" if row["agent"] is None else "its subject" if row["subject"] is not None else str(row["agent"])


def _print_text(answer: Mapping[str, Any]) -> None:
    echo_text(answer["value"], nl=not answer["value"].endswith("\n"))


_command(
    "agent_block_list",
    "list",
    arguments={"agent": "AGENT"},
    view=Rows(
        "blocks",
        {
            "block": lambda row: f"{row['label']} (read-only)" if row["read_only"] else row["label"],
            "of": _owner,
            "characters": lambda row: f"{row['characters']:,} of {row['char_limit']:,}",
            "version": "version",
            "changed": "updated_at",
            "text": "beginning",
        },
        empty="There are no blocks.",
    ),
)
_command(
    "agent_block_show",
    "show",
    arguments={"agent": "AGENT", "label": "LABEL"},
    view=_print_text,
)


@block.command(short_help="Edit the text of a block.")
@click.argument("agent")
@click.argument("label")
@click.option(
    "--value",
    metavar="TEXT|@FILE|-",
    help="The new text, or @ and a file, or - for standard input; else an editor opens.",
)
@click.option("--version", type=click.IntRange(1), metavar="N", help="Refuse to edit if the newest version is not N.")
@_owner_options
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
        echo_json(answer)
        return
    for note in answer["notes"]:
        echo_text(note, fg="yellow", err=True)
    done = "is now" if answer["changed"] else "is unchanged,"
    echo(f"the block {answer['label']} {done} version {answer['version']}")


def _in_editor(client: RootClient, named: Mapping[str, Any], version: int | None) -> dict[str, Any]:
    if not sys.stdin.isatty():
        raise UsageError("standard input is not a terminal", hint="give the text with --value")
    shown = client.call("agent_block_show", named)
    text = _edit_text(shown["value"])
    newest = shown["version"] if version is None else version
    try:
        return client.call("agent_block_edit", {**named, "value": text, "version": newest})
    except SymbiontError as error:
        if text != shown["value"]:
            echo(f"symbi: your text is kept in {_save_text(text)}", err=True)
        raise error


def _edit_text(text: str) -> str:
    """Open $VISUAL or $EDITOR with `text` and return the new text; `text` if it was not saved. Raises UsageError if
    the editor cannot be run or fails."""
    try:
        edited = click.edit(text, extension=".md")
    except click.ClickException as error:
        raise UsageError(error.message, hint="set EDITOR, or give the text with --value") from None
    if edited is None:
        return text
    # An editor ends the last line, which the text may not do.
    return edited if text.endswith("\n") else edited.removesuffix("\n")


def _save_text(text: str) -> str:
    """Write `text` to a new file that only its owner can read, and return the path."""
    descriptor, path = tempfile.mkstemp(prefix="symbi-", suffix=".md")
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)
    return path


_command(
    "agent_block_history",
    "history",
    doc="""Show the newest versions of the block LABEL of AGENT, newest first: who made them, in which run.

    The newest 50 versions are kept. `--json` shows the whole texts.
    """,
    arguments={"agent": "AGENT", "label": "LABEL"},
    view=Rows(
        "versions",
        {
            "version": "version",
            "when": "created_at",
            "by": "changed_by",
            "run": "run_id",
            "text": lambda row: beginning(row["value"], 200),
        },
        empty="There are no versions.",
    ),
)
_command(
    "agent_block_restore",
    "restore",
    arguments={"agent": "AGENT", "label": "LABEL", "version": "VERSION"},
    view=Sentence("the block {label} is now version {version}, with the text of the earlier one"),
)
