"""`symbi memory write`, `edit` and `forget`: single items."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from runtime.cli.client import RootClient, find_root
from runtime.cli.items import DeletionFailed, delete_each, quoted
from runtime.cli.terminal.input import text_or_input
from runtime.cli.terminal.output import confirm, count_text, json_option, root_option
from runtime.cli.terminal.progress import no_progress
from runtime.cli.terminal.screen import echo, echo_json
from runtime.cli.tool_command import tool_command
from runtime.errors import SymbiontError, UsageError

_GIT_SECONDS = 5
_NOT_APPLICABLE = "na:"

GATES = (
    click.option(
        "--close-governance",
        metavar="DONE|NA",
        help="For records with gates: close governance with done:WHAT or na:REASON.",
    ),
    click.option(
        "--tdd-proof",
        metavar="PROOF|NA",
        help="For records with gates: close tdd_proof with 'red:TEST green:TEST' or na:REASON.",
    ),
)
"""The options that close the gates of records."""


def gates(close_governance: str | None, tdd_proof: str | None, evidence: Sequence[str] = ()) -> dict[str, str]:
    """Return the closing of each gate, as a store accepts it; from `evidence` only a reason why none is needed.

    Raises UsageError for an empty one.
    """
    reason = next((each for each in evidence if each.startswith(_NOT_APPLICABLE)), None)
    given = {"governance": close_governance, "tdd_proof": tdd_proof, "evidence": reason}
    if "" in given.values():
        raise UsageError("an empty value does not close a gate", hint="give done:WHAT or na:REASON")
    return {name: text for name, text in given.items() if text is not None}


def _item(given: dict[str, Any]) -> Mapping[str, Any]:
    evidence = given.pop("evidence") or ()
    closed = gates(given.pop("close_governance"), given.pop("tdd_proof"), evidence)
    sources = [*(given["sources"] or ()), *_files(evidence)]
    return {**given, "git_commit": given["git_commit"] or _commit(), "sources": sources, "gates": closed}


def _print(answer: Mapping[str, Any]) -> None:
    if answer["dry_run"]:
        echo_json(answer["record"])
        if answer.get("refused"):
            raise SymbiontError(answer["refused"])
    elif answer["outcome"] == "there":
        echo(f"the memory {answer['memory']} contains it already; nothing was written", err=True)
    else:
        echo(f"stored in the memory {answer['memory']} as", err=True)
        echo(answer["item"]["memory_id"])


write = tool_command(
    "memory_write",
    "write",
    doc="""Write TEXT, or with `-` the text on standard input, to the memory of AGENT. Secrets in it are redacted first.

    Without --git-commit it concerns the commit that is checked out in the current folder.
    """,
    arguments={"agent": "AGENT", "text": "TEXT|-"},
    options={"gates": None},
    more_options=[
        click.option(
            "--evidence",
            metavar="FILE|NA",
            multiple=True,
            help="A file that supports it. Repeatable. For records with gates also na:REASON.",
        ),
        *GATES,
    ],
    read=_item,
    user="The user who owns the item.  [default: owner]",
    failed=lambda answer: answer.get("refused"),
    view=_print,
)


def _commit() -> str | None:
    """Return the commit that is checked out in the current folder; None if there is none, or no git."""
    try:
        done = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"],  # noqa: S607 - git from the user's PATH
            capture_output=True,
            text=True,
            timeout=_GIT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _files(evidence: Sequence[str]) -> list[str]:
    """Return the absolute paths of the files in `evidence`, without values that only close a gate. Raises UsageError
    for a missing file."""
    found = []
    for each in evidence:
        if each.startswith(_NOT_APPLICABLE):
            continue
        path = Path(each).absolute()
        if not path.is_file():
            fault = "it is a folder, not a file" if path.is_dir() else "no such file"
            raise UsageError(f"--evidence {each}: {fault}")
        found.append(str(path))
    return found


_memory_option = click.option("--memory", metavar="NAME", help="Only the memory called NAME in the program.")


@click.command(short_help="Replace the text of an item.")
@click.argument("memory_id", metavar="ID")
@click.argument("text", metavar="TEXT|-")
@_memory_option
@root_option
@json_option
def edit(memory_id: str, text: str, memory: str | None, root: Path | None, as_json: bool) -> None:
    """Replace the text of the item ID by TEXT, or with `-` by the text on standard input. Other fields do not change.

    ID may be shortened to a unique prefix. The command prints the new ID: in a Markdown memory the ID depends on the
    text.
    """
    said = text_or_input(text, "TEXT")
    with RootClient(find_root(root)) as client:
        whole = _find_item(client, memory_id, memory)["item"]["memory_id"]
        given = {"memory_id": whole, "text": said, "memory": memory}
        answer = client.call("memory_edit", given, progress=no_progress)
    if as_json:
        echo_json(answer)
        return
    item = answer["item"]
    same = item["memory_id"] == answer["previous_id"]
    echo(f"changed in the memory {item['memory']}; its id is {'still' if same else 'now'}", err=True)
    echo(item["memory_id"])


@click.command(short_help="Delete items permanently.")
@click.argument("memory_id", metavar="ID…", nargs=-1, required=True)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@_memory_option
@root_option
@json_option
def forget(memory_id: tuple[str, ...], yes: bool, memory: str | None, root: Path | None, as_json: bool) -> None:
    """Delete the items with these IDs permanently.

    An ID may be shortened to a unique prefix. An unknown ID is reported and the other items are deleted; the exit code
    is then 1.
    """
    with RootClient(find_root(root)) as client:
        found: list[dict[str, Any]] = []
        failed: list[DeletionFailed] = []
        for each in memory_id:
            try:
                found.append(_find_item(client, each, memory))
            except UsageError as error:
                if len(memory_id) == 1:
                    raise
                failed.append(DeletionFailed(each, error.line()))
        # After a deletion an equal item in a Markdown file gets the deleted id, so the last one is deleted first.
        found.sort(key=lambda answer: (answer["file"] or "", answer["line"] or 0), reverse=True)
        items = list({answer["item"]["memory_id"]: answer["item"] for answer in found}.values())
        if items and not yes:
            _confirm(items)
        ids = [item["memory_id"] for item in items]
        delete_each(
            client, "memory_forget", "memory_id", ids, noun="item", as_json=as_json, failed=failed, memory=memory
        )


def _confirm(items: list[Mapping[str, Any]]) -> None:
    what = count_text(len(items), "item") if len(items) > 1 else f"{quoted(items[0])} {_place(items[0])}"
    confirm(f"Delete {what}?", undone="nothing was deleted")


def _place(item: Mapping[str, Any]) -> str:
    return f"of {item['agent_id']} in the memory {item['memory']}"


def _find_item(client: RootClient, memory_id: str, memory: str | None) -> dict[str, Any]:
    """Return the item whose id begins with `memory_id`, and its location. Raises SymbiontError unless it is unique."""
    return client.call("memory_show", {"memory_id": memory_id, "memory": memory}, progress=no_progress)
