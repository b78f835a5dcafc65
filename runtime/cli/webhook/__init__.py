"""`symbi webhook`: list, test and edit webhooks, and the group of their other commands."""

from __future__ import annotations

import base64
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from runtime.cli.client import call, find_root
from runtime.cli.terminal.output import json_option, root_option
from runtime.cli.terminal.screen import echo_json
from runtime.cli.tool_command import Rows
from runtime.cli.webhook.deliveries import deliveries, redeliver, show
from runtime.cli.webhook.dynamic import create, delete, rotate, secret, update
from runtime.cli.webhook.edit import add, remove
from runtime.cli.webhook.explain import explain_options, show_explanation
from runtime.cli.webhook.logs import logs
from runtime.cli.webhook.post import print_post_result, send
from runtime.cli.webhook.program_files import program_files
from runtime.cli.webhook.providers import providers
from runtime.cli.webhook.trigger import trigger
from runtime.daemon.process.root import locate, named_folder
from runtime.errors import UsageError


@click.group()
def webhook() -> None:
    """List, edit, test and inspect webhooks and their deliveries."""


for _command in (
    add,
    remove,
    create,
    update,
    delete,
    rotate,
    secret,
    trigger,
    logs,
    deliveries,
    show,
    redeliver,
    providers,
):
    webhook.add_command(_command)


@webhook.command("list", short_help="List every webhook, the source of its secret, and whether it is mounted.")
@root_option
@json_option
def list_(root: Path | None, as_json: bool) -> None:
    """List every webhook, declared or created through the API: the source of its secret, and whether it is mounted.

    Without a root, list the webhooks that the files of the current folder declare.
    """
    answer = _list_webhooks(root)
    if as_json:
        echo_json(answer)
    else:
        _ROWS(answer)


def _state(row: Mapping[str, Any]) -> str:
    return "mounted" if row["mounted"] else "not mounted" if row["problem"] else "no daemon"


_ROWS = Rows(
    "webhooks",
    {
        "webhook": lambda row: f"{row['title']} ({row['user']})" if row["title"] else row["name"],
        "path": "path",
        "provider": "provider",
        "agent": "agent",
        "state": _state,
        "secret": lambda row: row["problem"] or row["secret"],
    },
    empty="There are no webhooks.",
)


def _list_webhooks(explicit_root: Path | None) -> dict[str, Any]:
    if locate(Path.cwd(), os.environ, explicit_root) is None and named_folder(os.environ, explicit_root) is None:
        with program_files(None, None) as files:
            if files.sources:
                return {"webhooks": files.webhooks()}
    return call(find_root(explicit_root), "webhook_mounts")


@webhook.command(short_help="Sign and post a body of your own, and show the answer.")
@click.argument("name")
@click.option(
    "--payload", required=True, metavar="JSON|@FILE|-", help="The body: JSON text, a file, or standard input."
)
@click.option("--event", metavar="EVENT", help="The name of the event, if the provider sends it in a header.")
@click.option("--delivery-id", metavar="ID", help="The sender's id of this delivery.  [default: a new one]")
@explain_options
@root_option
@json_option
def test(
    name: str,
    payload: str,
    event: str | None,
    delivery_id: str | None,
    explain: bool,
    headers: tuple[str, ...],
    root: Path | None,
    as_json: bool,
) -> None:
    """Sign a delivery as the sender of webhook NAME would, post it to the running daemon, and show its answer.

    Exit code 0 if the daemon answered 2xx, else 1. With --explain nothing is sent; the exit code is then 0 if the
    delivery would be run, else 1.
    """
    body = _payload(payload)
    if explain:
        show_explanation(name, body, event=event, headers=headers, root=root, as_json=as_json)
        return
    if headers:
        raise UsageError("--header needs --explain: a posted delivery has only the headers of its provider")
    parameters = {
        "name": name,
        "body": base64.b64encode(body).decode(),
        "event": event,
        "delivery_id": delivery_id,
    }
    print_post_result(send(find_root(root), parameters), as_json=as_json)


def _payload(text: str) -> bytes:
    if text == "-":
        body, place = sys.stdin.buffer.read(), "standard input"
    elif text.startswith("@"):
        place = text[1:]
        try:
            body = Path(place).read_bytes()
        except OSError as error:
            raise UsageError(f"--payload {text}: {(error.strerror or 'cannot be read').lower()}") from None
    else:
        # The exact bytes of the argument, which need not be valid text.
        body, place = os.fsencode(text), "--payload"
    from runtime import json_text

    try:
        json_text.decode(body)
    except json_text.DecodeError as error:
        if error.reason != "duplicate_key":  # the daemon says what it does with one
            hint = """write it in single quotes, such as '{"action":"opened"}', or name a file with @"""
            raise UsageError(f"{place} {error}", hint=hint) from None
    return body
