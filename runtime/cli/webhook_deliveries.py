"""`symbi webhook deliveries`, `show` and `replay`: what was accepted, what became of it, and the same once more."""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from runtime.cli.client import call, find_root
from runtime.cli.output import (
    F,
    ask,
    json_option,
    local,
    one_line,
    print_json,
    print_table,
    printable,
    root_option,
    zoned,
)
from runtime.daemon.root import Root
from runtime.errors import SymbiontError, UsageError

ASK_ABOVE = 20
"""A replay of more than so many is asked about first."""

CHUNK = 200
"""Deliveries that are queued at a time."""

_STATES = ("queued", "running", "done", "kept", "dead", "agent_gone")


def range_options(command: F) -> F:
    """`--name`, `--status`, `--since` and `--until`."""
    command = click.option("--until", metavar="2h|DATE", help="Received before that.")(command)
    command = click.option(
        "--since", metavar="2h|DATE", help="Received since then: so long ago, or a local date and time."
    )(command)
    command = click.option("--status", type=click.Choice(_STATES), help="Only those that stand so.")(command)
    return click.option("--name", metavar="NAME", help="Only this webhook's.")(command)


@click.command()
@range_options
@click.option(
    "--limit", default=20, show_default=True, metavar="N", type=click.IntRange(1, 10_000), help="The newest N."
)
@root_option
@json_option
def deliveries(
    *,
    name: str | None,
    status: str | None,
    since: str | None,
    until: str | None,
    limit: int,
    root: Path | None,
    as_json: bool,
) -> None:
    """Accepted deliveries and what became of them, newest first. Dead letters: --status dead."""
    given = {"name": name, "status": status, "since": zoned(since), "until": zoned(until), "limit": limit}
    answer = call(find_root(root), "deliveries.list", given)
    if as_json:
        print_json(answer)
        return
    rows = [
        (
            row["id"],
            local(row["received"]),
            row["webhook"],
            row["event"] or "-",
            row["agent"] or "-",
            row["state"],
            str(row["tries"]),
            f"{row['size']:,}",
            row["error"] or "",
        )
        for row in answer["deliveries"]
    ]
    columns = ("delivery", "received", "webhook", "event", "agent", "state", "tries", "bytes", "last error")
    print_table(columns, rows, empty="There are no such deliveries.")
    if answer["more"]:
        click.secho("there are more: --limit, --since, --status", dim=True, err=True)


@click.command(short_help="The delivery ID: headers, body, and its runs.")
@click.argument("delivery_id", metavar="ID")
@click.option("--raw", is_flag=True, help="Write the body to standard output, byte for byte, and nothing else.")
@root_option
@json_option
def show(delivery_id: str, raw: bool, root: Path | None, as_json: bool) -> None:
    """The delivery ID, or the only one that begins so: its headers and body as received, and its runs."""
    if raw and as_json:
        raise UsageError("--raw and --json exclude each other")
    answer = call(find_root(root), "deliveries.show", {"id": delivery_id})
    body = None if answer["body"] is None else base64.b64decode(answer["body"])
    if raw:
        if body is None:
            raise SymbiontError(f"the delivery {answer['id']} has no body: {answer['body_missing']}")
        sys.stdout.buffer.write(body)
    elif as_json:
        print_json({**answer, **_told_body(body)})
    else:
        _print(answer, body)


def _told_body(body: bytes | None) -> dict[str, Any]:
    """The body as text where it is text, besides the base64 of its bytes."""
    try:
        return {"body": base64.b64encode(body).decode(), "text": body.decode()} if body is not None else {"text": None}
    except UnicodeDecodeError:
        return {"text": None}


def _print(answer: dict[str, Any], body: bytes | None) -> None:
    finished = f", {local(answer['finished'])}" if answer["finished"] else ""
    tries = {0: "", 1: " after 1 try"}.get(answer["tries"], f" after {answer['tries']} tries")
    again = f", next try {local(answer['next_attempt'])}" if answer["tries"] and answer["next_attempt"] else ""
    for label, value in (
        ("delivery", answer["id"]),
        ("webhook", f"{answer['webhook']} ({answer['provider']})"),
        ("event", answer["event"]),
        ("sender's id", answer["provider_delivery_id"]),
        ("received", f"{local(answer['received'])} from {answer['source'] or 'an unknown address'}"),
        ("verified", _verified(answer)),
        ("agent", answer["agent"]),
        ("state", f"{answer['state']}{tries}{again}{finished}"),
        ("last error", answer["error"]),
    ):
        if value:
            click.echo(f"{label:<12} {one_line(value)}")
    for ran in answer["runs"]:
        error = f": {ran['error']}" if ran["error"] else ""
        click.echo(one_line(f"{'run':<12} {ran['id']} {ran['state']}{error}"))
    click.echo()
    for key, value in answer["headers"]:
        click.echo(f"{click.style(key, bold=True)}: {one_line(value)}")
    click.echo()
    if body is None:
        click.secho(f"(no body: {answer['body_missing']})", dim=True)
    else:
        click.echo(_readable(body))


def _verified(answer: dict[str, Any]) -> str:
    if not answer["verified"]:
        return "no: this webhook accepts unverified requests"
    index = answer["secret_index"]
    return "yes" if not index else f"yes, with the secret number {index + 1}"


def _readable(body: bytes) -> str:
    """JSON indented, other text as it is but for control characters, anything else as its size."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return f"({len(body):,} bytes that are no text; --raw writes them)"
    import msgspec

    with suppress(msgspec.DecodeError, RecursionError):
        # Not by way of values: numbers and repeated keys stay as they stand.
        text = msgspec.json.format(text, indent=2)
    return "\n".join(map(printable, text.splitlines()))


@click.command(short_help="Send deliveries to their agents again.")
@click.argument("delivery_ids", metavar="[ID]...", nargs=-1)
@range_options
@click.option("--fresh", is_flag=True, help="Begin a new run, also where one could go on after its last step.")
@click.option("--yes", is_flag=True, help=f"Don't ask before more than {ASK_ABOVE} are replayed.")
@root_option
@json_option
def replay(
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
    """Send deliveries to their agents again: those with these IDs, or a range.

    Of a range without --status those are taken that did not reach their agents: dead and agent_gone. What was only
    kept goes to the agent that its webhook wakes by now. What is queued or running already is left alone. Exit code 0
    when all were queued, 1 when some were not, 2 when it could not be done as asked.
    """
    given = {"name": name, "status": status, "since": zoned(since), "until": zoned(until)}
    by_range = any(value is not None for value in given.values())
    if bool(delivery_ids) == by_range:
        raise UsageError(
            "name deliveries by their ids, or a range of them, and not both",
            hint="symbi webhook replay ID, or for example: symbi webhook replay --status dead --since 2h",
        )
    found = find_root(root)
    if delivery_ids:
        ids, states = list(dict.fromkeys(delivery_ids)), None
    else:
        ids, states = _select(found, given)
    if len(ids) > ASK_ABOVE and not yes:
        ask(f"Replay {len(ids):,} deliveries?", undone="nothing was queued")
    queued: list[str] = []
    refused: list[dict[str, str]] = []
    for told in _in_chunks(found, ids, {"states": states, "fresh": fresh}):
        if told["queued"]:
            queued.append(told["id"])
        else:
            refused.append({"id": told["id"], "reason": told["reason"]})
    if as_json:
        print_json({"queued": queued, "not_queued": refused})
    else:
        _tell(queued, refused)
    if refused:
        sys.exit(1)


def _select(root: Root, given: dict[str, Any]) -> tuple[list[str], list[str]]:
    """The ids of the range, oldest first, and the states that they are in."""
    ids: list[str] = []
    while True:
        answer = call(root, "deliveries.select", {**given, "after": ids[-1] if ids else None})
        ids += answer["ids"]
        if not answer["more"]:
            return ids, answer["states"]


def _in_chunks(root: Root, ids: list[str], given: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What became of each, with a bar on a terminal while it lasts."""
    with click.progressbar(
        length=len(ids), label="replaying", file=sys.stderr, hidden=len(ids) <= CHUNK or not sys.stderr.isatty()
    ) as bar:
        for start in range(0, len(ids), CHUNK):
            part = ids[start : start + CHUNK]
            yield from call(root, "deliveries.replay", {**given, "ids": part})["deliveries"]
            bar.update(len(part))


def _tell(queued: list[str], refused: list[dict[str, str]]) -> None:
    if not queued and not refused:
        click.echo("Nothing to replay.")
        return
    for each in refused:
        click.echo(f"not queued  {each['id']}  {each['reason']}")
    if len(queued) <= ASK_ABOVE:
        for delivery_id in queued:
            click.echo(f"queued      {delivery_id}")
    click.echo(f"{len(queued):,} of {len(queued) + len(refused):,} queued")
