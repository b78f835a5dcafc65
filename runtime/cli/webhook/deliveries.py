"""`symbi webhook deliveries`, `show` and `redeliver`: list, show and redeliver accepted deliveries."""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from runtime.cli.client import call, find_root
from runtime.cli.terminal.output import (
    F,
    confirm,
    json_option,
    local_time,
    root_option,
    with_zone,
)
from runtime.cli.terminal.screen import counting_bar, echo, echo_bytes, echo_json, echo_text, printable, style
from runtime.cli.tool_command import Fields, Rows, tool_command
from runtime.daemon.process.root import Root
from runtime.errors import SymbiontError, UsageError

ASK_ABOVE = 20
"""Redelivering more deliveries than this asks for confirmation."""

CHUNK = 200
"""Deliveries queued per call."""
SELECTED = 10_000
"""Deliveries of a range in one answer."""

_ENDED = ("done", "kept", "dead", "agent_gone", "cancelled")


def _range_options(command: F) -> F:
    """`--name`, `--status`, `--since` and `--until`."""
    command = click.option("--until", metavar="2h|DATE", help="Only deliveries received before this time.")(command)
    command = click.option(
        "--since",
        metavar="2h|DATE",
        help="Only deliveries received from this time on: a duration before now, or a local date and time.",
    )(command)
    command = click.option("--status", type=click.Choice(_ENDED), help="Only deliveries in this state.")(command)
    return click.option("--name", metavar="NAME", help="Only deliveries of this webhook.")(command)


deliveries = tool_command(
    "delivery_list",
    "deliveries",
    short="List accepted deliveries and their states, newest first.",
    doc="List accepted deliveries and their states, newest first. For dead letters: --status dead.",
    options={"after": None},
    view=Rows(
        "deliveries",
        {
            "delivery": "id",
            "received": "received",
            "webhook": "webhook",
            "event": "event",
            "agent": "agent",
            "state": "state",
            "tries": "tries",
            "bytes": "size",
            "last error": "error",
        },
        empty="There are no such deliveries.",
    ),
)


def _body(answer: Mapping[str, Any]) -> bytes | None:
    return None if answer["body"] is None else base64.b64decode(answer["body"])


def _print_raw(answer: Mapping[str, Any]) -> None:
    body = _body(answer)
    if body is None:
        raise SymbiontError(f"the delivery {answer['id']} has no body: {answer['body_missing']}")
    echo_bytes(body)


def _state_text(answer: Mapping[str, Any]) -> str:
    finished = f", {local_time(answer['finished'])}" if answer["finished"] else ""
    tries = {0: "", 1: " after 1 try"}.get(answer["tries"], f" after {answer['tries']} tries")
    again = f", next try {local_time(answer['next_attempt'])}" if answer["tries"] and answer["next_attempt"] else ""
    return f"{answer['state']}{tries}{again}{finished}"


def _run(ran: Mapping[str, Any]) -> str:
    return f"{ran['id']} {ran['state']}{': ' if ran['error'] else ''}{ran['error'] or ''}"


def _print(answer: Mapping[str, Any]) -> None:
    _FIELDS(answer)
    body = _body(answer)
    echo()
    for key, value in answer["headers"]:
        echo(style(key, bold=True), f": {value}")
    echo()
    if body is None:
        echo(f"(no body: {answer['body_missing']})", dim=True)
    else:
        echo_text(_body_text(body))


def _verification(answer: Mapping[str, Any]) -> str:
    if not answer["verified"]:
        return "no: this webhook accepts unverified requests"
    index = answer["secret_index"]
    return "yes" if not index else f"yes, with the secret number {index + 1}"


def _body_text(body: bytes) -> str:
    """Return JSON indented, other text without control characters, and the size of anything else."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return f"({len(body):,} bytes that are not text; --raw writes them)"
    import msgspec

    with suppress(msgspec.DecodeError, RecursionError):
        # Formatted without decoding, which would change numbers and drop repeated keys.
        text = msgspec.json.format(text, indent=2)
    return "\n".join(map(printable, text.splitlines()))


_FIELDS = Fields(
    {
        "delivery": "id",
        "webhook": lambda answer: f"{answer['webhook']} ({answer['provider']})",
        "event": "event",
        "sender's id": "provider_delivery_id",
        "received": lambda answer: f"{local_time(answer['received'])} from {answer['source'] or 'an unknown address'}",
        "verified": _verification,
        "agent": "agent",
        "state": _state_text,
        "last error": "error",
        "run": lambda answer: [_run(ran) for ran in answer["runs"]],
    }
)
show = tool_command(
    "delivery_show",
    "show",
    short="Show one delivery: headers, body and runs.",
    doc="""Show the headers and body of one delivery as received, and its runs.

    ID may be shortened to a unique prefix.
    """,
    arguments={"delivery_id": "ID"},
    views={"--raw": ("Write the body to standard output, byte for byte, and nothing else.", _print_raw)},
    view=_print,
)


@click.command(short_help="Send deliveries to their agents again.")
@click.argument("delivery_ids", metavar="[ID]...", nargs=-1)
@_range_options
@click.option("--fresh", is_flag=True, help="Start a new run, even if the last one could continue after its last step.")
@click.option("--yes", is_flag=True, help=f"Redeliver more than {ASK_ABOVE} deliveries without asking.")
@root_option
@json_option
def redeliver(
    *,
    delivery_ids: tuple[str, ...],
    name: str | None,
    status: str | None,
    since: str | None,
    until: str | None,
    fresh: bool,
    yes: bool,
    root: Path | None,
    as_json: bool,
) -> None:
    """Send deliveries to their agents again: the deliveries with these IDs, or a range.

    A range without --status selects the deliveries that did not reach their agents: those in the states dead and
    agent_gone. A delivery in the state kept goes to the agent that its webhook has now. Deliveries that are queued or
    running are skipped. Exit code 0 if all were queued, 1 if some were not, 2 if the command could not run.
    """
    given = {"name": name, "status": status, "since": with_zone(since), "until": with_zone(until)}
    by_range = any(value is not None for value in given.values())
    if bool(delivery_ids) == by_range:
        raise UsageError(
            "name deliveries by their ids, or a range of them, and not both",
            hint="symbi webhook redeliver ID, or for example: symbi webhook redeliver --status dead --since 2h",
        )
    found = find_root(root)
    if delivery_ids:
        ids, states = list(dict.fromkeys(delivery_ids)), None
    else:
        states = ["dead", "agent_gone"] if status is None else [status]
        ids = _select(found, {**given, "status": states})
    if len(ids) > ASK_ABOVE and not yes:
        confirm(f"Redeliver {len(ids):,} deliveries?", undone="nothing was queued")
    queued: list[str] = []
    refused: list[dict[str, str]] = []
    for result in _in_chunks(found, ids, {"states": states, "fresh": fresh}):
        if result["queued"]:
            queued.append(result["id"])
        else:
            refused.append({"id": result["id"], "reason": result["reason"]})
    if as_json:
        echo_json({"queued": queued, "not_queued": refused})
    else:
        _print_result(queued, refused)
    if refused:
        sys.exit(1)


def _select(root: Root, given: dict[str, Any]) -> list[str]:
    """Return the ids of the range, oldest first."""
    ids: list[str] = []
    more = True
    while more:
        answer = call(root, "delivery_list", {**given, "after": ids[-1] if ids else "", "limit": SELECTED})
        ids += [row["id"] for row in answer["deliveries"]]
        more = answer["more"]
    return ids


def _in_chunks(root: Root, ids: list[str], given: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Redeliver in chunks and yield the result of each delivery; a terminal shows a progress bar."""
    with counting_bar(len(ids), "redelivering", hidden=len(ids) <= CHUNK) as advance:
        for start in range(0, len(ids), CHUNK):
            part = ids[start : start + CHUNK]
            yield from call(root, "delivery_redeliver", {**given, "ids": part})["deliveries"]
            advance(len(part))


def _print_result(queued: list[str], refused: list[dict[str, str]]) -> None:
    if not queued and not refused:
        echo("Nothing to redeliver.")
        return
    for each in refused:
        echo(f"not queued  {each['id']}  {each['reason']}")
    if len(queued) <= ASK_ABOVE:
        for delivery_id in queued:
            echo(f"queued      {delivery_id}")
    echo(f"{len(queued):,} of {len(queued) + len(refused):,} queued")
