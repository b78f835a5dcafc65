"""`symbi webhook`: list, test and edit webhooks, and the group of their other commands."""

from __future__ import annotations

import base64
import json
import os
import sys
from pathlib import Path
from typing import Any

import click

from runtime.cli.client import call, call_daemon, find_root
from runtime.cli.terminal.output import WEBHOOKS, json_option, print_table, root_option
from runtime.cli.terminal.screen import echo, echo_json
from runtime.cli.webhook.deliveries import deliveries, redeliver, show
from runtime.cli.webhook.dynamic import create, delete, secret, update
from runtime.cli.webhook.edit import add, remove
from runtime.cli.webhook.explain import explain_options, show_explanation
from runtime.cli.webhook.logs import logs
from runtime.cli.webhook.post import post
from runtime.cli.webhook.program_files import program_files
from runtime.cli.webhook.providers import providers
from runtime.cli.webhook.rotate import rotate
from runtime.cli.webhook.trigger import trigger
from runtime.daemon.process.root import locate, named
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
    answer = _listed(root)
    if as_json:
        echo_json(answer)
        return
    rows = [
        (
            f"{row['title']} ({row['user']})" if row["title"] else row["name"],
            row["path"],
            row["provider"],
            row["agent"] or "-",
            "mounted" if row["mounted"] else "not mounted" if row["problem"] else "no daemon",
            row["problem"] or row["secret"],
        )
        for row in answer["webhooks"]
    ]
    print_table(WEBHOOKS, rows, empty="There are no webhooks.")


def _listed(explicit_root: Path | None) -> dict[str, Any]:
    if locate(Path.cwd(), os.environ, explicit_root) is None and named(os.environ, explicit_root) is None:
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
    signed = call_daemon(find_root(root), "webhook_sign", parameters)
    status, reason, answer = post(signed["url"], signed["headers"], base64.b64decode(signed["body"]), signed["query"])
    if as_json:
        echo_json({"url": signed["url"], "status": status, "answer": answer})
    else:
        echo(f"POST {signed['url']}  ({len(body):,} bytes, signed as {signed['provider']})")
        echo(f"{status} {reason}", fg="green" if status < 300 else "red", bold=True)
        echo(answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False))
    if status >= 300:
        sys.exit(1)


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
