"""`symbi readiness`: checks everything that a daemon needs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from runtime.cli.client import call, find_root
from runtime.cli.terminal.output import json_option, root_option
from runtime.cli.terminal.progress import no_progress
from runtime.cli.terminal.screen import echo_json
from runtime.cli.tool_command import Rows
from runtime.errors import SymbiontError


@click.command()
@root_option
@json_option
def readiness(root: Path | None, as_json: bool) -> None:
    """Check everything the daemon needs, and report each check as GREEN, YELLOW or RED.

    Exit code 0 if nothing is RED, else 1. Asks the running daemon; if none is running, the command checks by itself.
    """
    answer = _ask(root)
    if as_json:
        echo_json(answer)
    else:
        Rows("checks", {"status": "status", "check": "check", "what was found": "text"}, empty="")(answer)
    if not answer["ready"]:
        sys.exit(1)


def _ask(root: Path | None) -> dict[str, Any]:
    """Return the checks; if they cannot run, one RED check with the reason."""
    found = find_root(root)
    try:
        return call(found, "readiness", progress=no_progress)
    except (SymbiontError, OSError) as error:
        reason = error.line() if isinstance(error, SymbiontError) else (error.strerror or str(error)).lower()
        check = {"check": "state", "status": "RED", "text": f"{found.folder}: {reason}"}
        return {"status": "RED", "ready": False, "checks": [check]}
