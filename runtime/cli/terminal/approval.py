"""A call that waits for approval, as a person sees it before deciding."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import click

from runtime.cli.terminal.output import local_time, one_line, printable

_LONGEST: Final = 20_000
"""Maximum characters of arguments on a terminal."""


def print_approval(approval: Mapping[str, Any], *, err: bool = False) -> None:
    """Print what is to be approved: the tool and its arguments, as they are stored, and until when. Nothing that the
    model says about them is shown. `err`: on standard error."""
    state = "" if approval["state"] == "awaiting" else f", {approval['state']}"
    click.secho(f"{approval['id']}  {one_line(approval['tool'])}{state}", bold=True, err=err)
    click.echo(f"  agent {approval['agent']}, asked {local_time(approval['created_at'])}", err=err)
    if not state:
        click.echo(f"  denied at {local_time(approval['deadline'])} if nobody answers", err=err)
    if approval["cannot_run"] is not None:
        click.secho(f"  it cannot run: {one_line(approval['cannot_run'])}", fg="yellow", err=err)
    if state and approval["decided_at"] is not None:
        by = f" by {one_line(approval['decided_by'])}" if approval["decided_by"] else ""
        why = f": {one_line(approval['reason'])}" if approval["reason"] else ""
        click.echo(f"  decided {local_time(approval['decided_at'])}{by}{why}", err=err)
    click.echo(_indented(_arguments(approval)), err=err)


def _arguments(approval: Mapping[str, Any]) -> str:
    if approval["arguments"] is None:
        return "the stored call was changed, and will not be run"
    text = printable(json.dumps(approval["arguments"], ensure_ascii=False, indent=2))
    if len(text) <= _LONGEST:
        return text
    left = len(text) - _LONGEST
    return f"{text[:_LONGEST]}\n… {left:,} more characters: `symbi agent pending --json` shows all of them"


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.split("\n"))
