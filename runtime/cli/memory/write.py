"""`symbi memory write`: writes an item."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

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
