"""A call that waits for approval, as a person sees it before deciding."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from runtime.cli.terminal.output import local_time
from runtime.cli.terminal.screen import echo, echo_text, json_escaped

_LONGEST: Final = 20_000
"""Maximum characters of arguments on a terminal."""


def print_approval(approval: Mapping[str, Any], *, err: bool = False) -> None:
    """Print what is to be approved: the tool and its arguments, as they are stored, and until when. Nothing that the
    model says about them is shown. `err`: on standard error."""
    state = "" if approval["state"] == "awaiting" else f", {approval['state']}"
    echo(f"{approval['id']}  {approval['tool']}{state}", bold=True, err=err)
    server = f" of the server {approval['server']}" if approval["server"] else ""
    echo(f"  agent {approval['agent']}, asked {local_time(approval['created_at'])}{server}", err=err)
    for what, value in _origin(approval):
        echo(f"  {what:<8} {value}", err=err)
    if not state:
        echo(f"  denied at {local_time(approval['deadline'])} if nobody answers", err=err)
    if approval["cannot_run"] is not None:
        echo(f"  it cannot run: {approval['cannot_run']}", fg="yellow", err=err)
    if approval["state"] == "approved" and approval["decided_via"] is None:
        echo("  nobody approved it: the row was changed, and the call does not run", fg="yellow", err=err)
    elif state and approval["decided_at"] is not None:
        how = f" over {approval['decided_via']}" if approval["decided_via"] else ""
        by = f" by {approval['decided_by']}" if approval["decided_by"] else ""
        why = f": {approval['reason']}" if approval["reason"] else ""
        echo(f"  decided {local_time(approval['decided_at'])}{by}{how}{why}", err=err)
    echo_text(_indented(_arguments(approval)), err=err)


def _origin(approval: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield for whom and on whose word the agent calls."""
    yield "user", approval["user"]
    if approval["subject"] is not None:
        yield "subject", approval["subject"]
    yield "thread", f"{approval['thread_id']} {approval['kind']}".strip()
    if approval["webhook"] is not None:
        yield "webhook", f"{approval['webhook']}, delivery {approval['delivery_id']}"
    if approval["message"]:
        yield "message", " ".join(approval["message"].split())


def _arguments(approval: Mapping[str, Any]) -> str:
    if approval["arguments"] is None:
        return "the stored call was changed, and will not be run"
    text = json_escaped(json.dumps(approval["arguments"], ensure_ascii=False, indent=2))
    if len(text) <= _LONGEST:
        return text
    left = len(text) - _LONGEST
    return f"{text[:_LONGEST]}\n… {left:,} more characters: `symbi agent pending --json` shows all of them"


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.split("\n"))
