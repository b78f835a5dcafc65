"""`symbi webhook trigger`: sends a signed sample of a sender's delivery to the running daemon."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from runtime.cli.client import call, find_root
from runtime.cli.terminal.output import json_option, print_table, root_option
from runtime.cli.terminal.screen import counting_bar, echo, echo_json
from runtime.cli.webhook.post import print_post_result, send
from runtime.daemon.process.root import Root
from runtime.errors import UsageError
from runtime.suggestions import unknown_name


@click.command(short_help="Sign a sample delivery, post it, and show the answer.")
@click.argument("name", required=False)
@click.option(
    "--event",
    metavar="EVENT",
    help="The sample, such as pull_request.opened.  [default: the provider's first]",
)
@click.option("--delivery-id", metavar="ID", help="The sender's id of this delivery.  [default: a new one]")
@click.option(
    "--count",
    default=1,
    show_default=True,
    metavar="N",
    type=click.IntRange(1),
    help="Send N deliveries, each with a new id.",
)
@click.option(
    "--rate",
    metavar="N",
    type=click.FloatRange(min=0, min_open=True),
    help="Send at most N per second.  [default: no limit]",
)
@click.option("--list", "listing", is_flag=True, help="List the samples (of the provider of NAME) and send nothing.")
@root_option
@json_option
def trigger(
    *,
    name: str | None,
    event: str | None,
    delivery_id: str | None,
    count: int,
    rate: float | None,
    listing: bool,
    root: Path | None,
    as_json: bool,
) -> None:
    """Send a sample delivery to webhook NAME of the running daemon, signed as its sender would, and show the answer.

    Exit code 0 if every answer was 2xx, else 1.
    """
    if listing:
        _print_samples(name, root, as_json=as_json)
        return
    if name is None:
        raise UsageError("NAME is missing", hint="symbi webhook trigger NAME; `symbi webhook list` shows the webhooks")
    if count > 1 and delivery_id is not None:
        raise UsageError("--delivery-id and --count exclude each other: every delivery needs its own id")
    found = find_root(root)
    given = {"name": name, "event": event, "delivery_id": delivery_id}
    if count > 1:
        _send_many(found, given, count, rate, as_json=as_json)
        return
    sent = send(found, given)
    print_post_result(sent, as_json=as_json, event=sent.signed["event"])


def _send_many(root: Root, given: dict[str, Any], count: int, rate: float | None, *, as_json: bool) -> None:
    """Send `count` deliveries, and print the number of answers by status."""
    answers: Counter[int] = Counter()
    begun = time.monotonic()
    with counting_bar(count, "sending") as advance:
        for number in range(count):
            if rate is not None:
                time.sleep(max(0.0, begun + number / rate - time.monotonic()))
            answers[send(root, given).status] += 1
            advance(1)
    if as_json:
        echo_json({"sent": count, "answers": {str(status): times for status, times in sorted(answers.items())}})
    else:
        for status, times in sorted(answers.items()):
            echo(f"{status}  {times:,} times", fg="green" if status < 300 else "red")
    if any(status >= 300 for status in answers):
        sys.exit(1)


def _print_samples(name: str | None, root: Path | None, *, as_json: bool) -> None:
    from runtime.webhooks.providers.samples import sample

    providers: Sequence[str] = sample.names()
    if name is not None:
        mounts = {each["name"]: each["provider"] for each in call(find_root(root), "webhook_mounts")["webhooks"]}
        if name not in mounts:
            raise unknown_name("webhook", name, mounts)
        providers = (mounts[name],)
    samples = [{"provider": each, "events": list(sample.events(each))} for each in providers]
    samples = [each for each in samples if each["events"]]
    if as_json:
        echo_json({"samples": samples})
        return
    rows = [(str(each["provider"]), event) for each in samples for event in each["events"]]
    print_table(("provider", "event"), rows, empty=_NONE.format(name))


_NONE = "There are no samples for the provider of {}: a generic body would be sent."
