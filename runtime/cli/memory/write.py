"""`symbi memory write`: writes an item."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from runtime.cli.client import call, find_root
from runtime.cli.memory.options import NOT_APPLICABLE, TYPES, gate_options, gates
from runtime.cli.terminal.input import text_or_input
from runtime.cli.terminal.output import json_option, root_option, user_option
from runtime.cli.terminal.progress import no_progress
from runtime.cli.terminal.screen import echo, echo_json
from runtime.errors import SymbiontError, UsageError

_GIT_SECONDS = 5


@click.command(short_help="Write an item; secrets in it are redacted.")
@click.argument("agent")
@click.argument("text", metavar="TEXT|-")
@click.option(
    "--type", "type", type=click.Choice(TYPES), default="fact", show_default=True, help="The type of the item."
)
@click.option("--tag", "tags", metavar="TAG", multiple=True, help="A tag. Repeatable.")
@click.option("--project", metavar="ID", help="The project of the item.")
@click.option("--source-uri", metavar="URI", help="The source of the item.")
@click.option("--author", metavar="NAME", help="The author of the statement.")
@click.option("--session-id", metavar="ID", help="The conversation or run that produced the item.")
@click.option("--task", metavar="TEXT", help="The task during which it was learned.")
@click.option("--confidence", metavar="0…1", type=click.FloatRange(0, 1), help="Confidence in the statement.")
@click.option("--risk-tier", type=click.Choice(["GREEN", "YELLOW", "RED"]), help="The risk of acting on it.")
@click.option(
    "--git-commit",
    metavar="COMMIT",
    help="The commit that it concerns.  [default: the one checked out in the current folder]",
)
@click.option(
    "--source",
    "sources",
    metavar="TEXT",
    multiple=True,
    help="A reference that supports it, such as a URL. Repeatable.",
)
@click.option(
    "--evidence",
    metavar="FILE|NA",
    multiple=True,
    help="A file that supports it. Repeatable. For records with gates also na:REASON.",
)
@gate_options
@user_option("The user who owns the item.")
@click.option("--memory", metavar="NAME", help="The memory to write to.  [default: the one the agent writes to]")
@click.option("--dry-run", is_flag=True, help="Show what would be written without writing it.")
@root_option
@json_option
def write(
    *,
    text: str,
    git_commit: str | None,
    sources: tuple[str, ...],
    evidence: tuple[str, ...],
    tags: tuple[str, ...],
    close_governance: str | None,
    tdd_proof: str | None,
    dry_run: bool,
    root: Path | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Write TEXT, or with `-` the text on standard input, to the memory of AGENT. Secrets in it are redacted first."""
    found = find_root(root)
    asked = {
        **given,
        "text": text_or_input(text, "TEXT"),
        "tags": list(tags),
        "git_commit": git_commit or _commit(),
        "sources": [*sources, *_files(evidence)],
        "gates": gates(close_governance, tdd_proof, evidence),
        "dry_run": dry_run,
    }
    answer = call(found, "memory_write", asked, progress=no_progress)
    if as_json or dry_run:
        echo_json(answer if as_json else answer["record"])
        if answer.get("refused"):
            raise SymbiontError(answer["refused"])
        return
    if answer["outcome"] == "there":
        echo(f"the memory {answer['memory']} contains it already; nothing was written", err=True)
        return
    echo(f"stored in the memory {answer['memory']} as", err=True)
    echo(answer["item"]["memory_id"])


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
        if each.startswith(NOT_APPLICABLE):
            continue
        path = Path(each).absolute()
        if not path.is_file():
            fault = "it is a folder, not a file" if path.is_dir() else "no such file"
            raise UsageError(f"--evidence {each}: {fault}")
        found.append(str(path))
    return found
