"""`symbi webhook logs`: accepted and refused requests."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from runtime.cli.client import call, call_daemon, find_root
from runtime.cli.terminal.output import colour_of, json_option, local_time, newest_option, print_table, root_option
from runtime.cli.terminal.screen import StyledText, echo, echo_json, joined, style
from runtime.daemon.process.root import Root
from runtime.errors import SymbiontError, UsageError

POLL_SECONDS = 0.5
OVERLAP_MS = 2000
"""Milliseconds by which polls overlap: refusals are written half a second late, and a commit may be slow."""

AT_ONCE = 2000
"""Maximum requests of one poll."""


@click.command(short_help="List requests to webhooks, accepted and refused.")
@click.option("--name", metavar="NAME", help="Only requests to this webhook.")
@click.option(
    "--reason", metavar="CODE", help="Only requests with this reason, such as signature_mismatch or verified."
)
@click.option("--status", metavar="STATUS", help="Only requests answered with this HTTP status: 401, or 4xx.")
@newest_option(10_000)
@click.option("-f", "--follow", is_flag=True, help="Show new requests as they arrive, until interrupted.")
@root_option
@json_option
def logs(
    *,
    name: str | None,
    reason: str | None,
    status: str | None,
    limit: int,
    follow: bool,
    root: Path | None,
    as_json: bool,
) -> None:
    """List requests to webhooks, accepted and refused, newest last.

    With --follow new requests are shown as they arrive, across restarts of the daemon; with --json each is one line.
    """
    found = find_root(root)
    given = {"name": name, "reason": reason, "status": status}
    answer = call(found, "webhook_requests", {**given, "limit": limit})
    if follow:
        for row in _follow(found, given, answer["attempts"]):
            if as_json:
                echo_json(row, indent=None)
            else:
                echo(_line(row))
            sys.stdout.flush()
    elif as_json:
        echo_json(answer)
    else:
        filtered = any(value is not None for value in given.values())
        _table(
            answer["attempts"], empty="There are no such requests yet." if filtered else "There are no requests yet."
        )


def _follow(root: Root, given: dict[str, Any], first: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield `first`, then new requests, each once; a row whose count changes is yielded again."""
    yield from first
    seen = {row["id"]: (row["at"], row["count"]) for row in first}
    begun = newest = max((row["at"] for row in first), default=int(time.time() * 1000))
    since, away, looked = newest - OVERLAP_MS, False, False
    while True:
        try:
            answer = call_daemon(root, "webhook_requests", {**given, "limit": AT_ONCE, "since": max(0, since)})
        except UsageError:
            raise
        except SymbiontError as error:
            if not away:
                echo(f"waiting for the daemon: {error}", dim=True, err=True)
            away = True
            time.sleep(POLL_SECONDS)
            continue
        away = False
        for row in answer["attempts"]:
            known = seen.get(row["id"])
            seen[row["id"]] = (row["at"], row["count"])
            # Requests before the oldest of `first` are not wanted.
            if known is None and not looked and row["at"] <= begun:
                continue
            if known is None or known[1] != row["count"]:
                yield row
        newest = max((newest, *(row["at"] for row in answer["attempts"])))
        # If there are more than one poll returns, continue after the last, else the same rows would repeat.
        since = answer["attempts"][-1]["at"] if answer["more"] else newest - OVERLAP_MS
        looked = looked or not answer["more"]
        seen = {key: known for key, known in seen.items() if known[0] >= since}
        if not answer["more"]:
            time.sleep(POLL_SECONDS)


def _table(rows: list[dict[str, Any]], *, empty: str) -> None:
    columns = ["time", "webhook", "verdict", "status", "event or reason", "run", "bytes", "from", "delivery"]
    several = any(row["secret"] for row in rows)
    if several:
        columns.append("secret")
    print_table(columns, [(*_cells(row), *((_secret(row),) if several else ())) for row in rows], empty=empty)


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    return (
        local_time(row["time"]),
        row["webhook"] or "-",
        row["verdict"],
        str(row["status"]),
        _event_text(row),
        row["run_state"] or ("kept" if row["state"] == "kept" else ""),
        f"{row['size']:,}",
        row["source"] or "-",
        row["delivery_id"] or "",
    )


def _event_text(row: dict[str, Any]) -> str:
    """Return the event of an accepted request, else the reason; with the number of requests if the row counts
    several."""
    text = (row["event"] if row["verdict"] == "accepted" else None) or row["reason"] or ""
    if row.get("path") is not None:
        text += f" {row['path']}"
    if row.get("near_path") is not None:
        text += f" (did you mean {row['near_path']}?)"
    return text if row["count"] == 1 else f"{text} ×{row['count']:,}"


def _secret(row: dict[str, Any]) -> str:
    return "" if row["secret"] is None else f"no. {row['secret']}"


def _line(row: dict[str, Any]) -> StyledText:
    when, webhook, verdict, status, what, _, size, source, delivery = _cells(row)
    verdict = style(f"{verdict:<9}", fg=colour_of(row["verdict"]) or None)
    parts = [when, verdict, status, webhook, what, f"{size} bytes", f"from {source}", delivery]
    if row["secret"]:
        parts.append(f"secret {_secret(row)}")
    return joined(filter(None, parts), "  ")
