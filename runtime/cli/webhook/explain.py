"""`symbi webhook test --explain`: the result of each filter for a delivery, without sending it."""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from runtime.cli.client import call, find_root
from runtime.cli.terminal.output import F, print_table
from runtime.cli.terminal.screen import echo, echo_json
from runtime.errors import UsageError


def explain_options(command: F) -> F:
    """Add `--explain` and `--header`."""
    command = click.option(
        "--header",
        "headers",
        multiple=True,
        metavar="NAME:VALUE",
        help="With --explain: a header that the sender adds. Repeatable.",
    )(command)
    return click.option(
        "--explain", is_flag=True, help="Show what each filter finds and decides. Nothing is sent; no daemon is needed."
    )(command)


def show_explanation(
    name: str, body: bytes, *, event: str | None, headers: Iterable[str], root: Path | None, as_json: bool
) -> None:
    """Print the explanation. Exits with code 1 if the delivery would not be run."""
    answer = call(
        find_root(root),
        "filter_explain",
        {
            "name": name,
            "body": base64.b64encode(body).decode(),
            "event": event,
            "headers": [list(_header(text)) for text in headers],
        },
    )
    if as_json:
        echo_json(answer)
    else:
        rows = [_row(line) for line in answer["filters"]]
        columns = ("filter", "says", "finds", "verdict")
        print_table(columns, rows, empty=f"The webhook {name} has no filters.")
        echo(_outcome(answer))
    if not answer["wanted"]:
        sys.exit(1)


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise UsageError(f"--header {text!r} is not NAME:VALUE", hint="such as --header 'X-Environment: live'")
    return name.strip(), value.strip()


def _row(line: dict[str, Any]) -> tuple[str, str, str, str]:
    more = line["found"] - len(line["values"])
    values = [*line["values"], *([f"… and {more} more"] if more > 0 else [])]
    compared = bool(line["says"])
    finds = ", ".join(values) or ("nothing" if compared and line["refused"] is None else "")
    verdict = line["refused"] or {True: "yes", False: "no", None: ""}[line["holds"]]
    return "  " * line["depth"] + line["name"], line["says"], finds, verdict


def _outcome(answer: dict[str, Any]) -> str:
    event = f" (event {answer['event']})" if answer["event"] else ""
    if answer["refused"]:
        return f"The delivery{event} would be refused: {answer['refused']}."
    if answer["refusing"]:
        return f"The delivery{event} would be filtered out by {answer['refusing']}."
    return f"The delivery{event} would be run."
