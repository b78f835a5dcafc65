"""`symbi webhook`: what is declared, a signed test delivery, what came in, and edits of the declarations."""

from __future__ import annotations

import base64
import json
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from runtime.cli.client import call, call_daemon, find_root
from runtime.cli.output import json_option, print_json, print_table, root_option
from runtime.cli.webhook_edit import add, remove
from runtime.cli.webhook_explain import explain_options, show_explanation
from runtime.cli.webhook_made import create, delete
from runtime.errors import SymbiontError, UsageError


@click.group()
def webhook() -> None:
    """Webhooks: what is declared, and what came in."""


webhook.add_command(add)
webhook.add_command(remove)
webhook.add_command(create)
webhook.add_command(delete)


@webhook.command("list")
@root_option
@json_option
def list_(root: Path | None, as_json: bool) -> None:
    """Every webhook, of the program and made at run time: where its secret is from, and whether it is mounted."""
    answer = call(find_root(root), "webhooks.list")
    if as_json:
        print_json(answer)
        return
    rows = [
        (
            f"{row['title']} ({row['user']})" if row["title"] else row["name"],
            row["path"],
            row["provider"],
            row["agent"],
            "mounted" if row["mounted"] else "not mounted",
            row["secret"] if row["mounted"] else row["problem"],
        )
        for row in answer["webhooks"]
    ]
    print_table(("webhook", "path", "provider", "agent", "state", "secret"), rows, empty="There are no webhooks.")


@webhook.command()
@click.argument("name")
@click.option(
    "--payload", required=True, metavar="JSON|@FILE|-", help="The body: JSON text, a file, or standard input."
)
@click.option("--event", help="The event's name, where the provider sends one in a header.")
@click.option("--delivery-id", help="The sender's id for this delivery; a new one by default.")
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
    """Sign a delivery as webhook NAME's sender would, post it to the running daemon, and show its answer.

    Exit code 0 when the daemon answered 2xx, else 1. With --explain nothing is sent: 0 when it would be run, else 1.
    """
    body = _payload(payload)
    if explain:
        show_explanation(name, body, event=event, headers=headers, root=root, as_json=as_json)
        return
    parameters = {
        "name": name,
        "body": base64.b64encode(body).decode(),
        "event": event,
        "delivery_id": delivery_id,
    }
    signed = call_daemon(find_root(root), "webhooks.sign", parameters)
    status, reason, answer = _post(signed["url"], signed["headers"], base64.b64decode(signed["body"]))
    if as_json:
        print_json({"url": signed["url"], "status": status, "answer": answer})
    else:
        click.echo(f"POST {signed['url']}  ({len(body):,} bytes, signed as {signed['provider']})")
        click.secho(f"{status} {reason}", fg="green" if status < 300 else "red", bold=True)
        click.echo(answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False))
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
        body, place = text.encode(), "--payload"
    try:
        json.loads(body)
    except json.JSONDecodeError as error:
        raise UsageError(
            f"{place} is not JSON: {error.msg.lower()} (line {error.lineno}, column {error.colno})",
            hint="""write it in single quotes, such as '{"action":"opened"}', or name a file with @""",
        ) from None
    except (UnicodeDecodeError, RecursionError):
        raise UsageError(f"{place} is not JSON: it is not UTF-8 text, or nested too deep") from None
    return body


def _post(url: str, headers: list[list[str]], body: bytes) -> tuple[int, str, Any]:
    import http.client
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "127.0.0.1", parts.port, timeout=30)
    try:
        connection.request("POST", parts.path, body, dict(headers))
        response = connection.getresponse()
        text = response.read().decode("utf-8", "replace")
    except ValueError:
        raise UsageError("--event and --delivery-id go into headers: printable text in one line") from None
    except (OSError, http.client.HTTPException) as error:
        raise SymbiontError(
            f"{url} does not answer: {str(error) or type(error).__name__}", hint="is the daemon still running?"
        ) from None
    finally:
        connection.close()
    try:
        answer = json.loads(text)
    except ValueError:
        answer = text
    return response.status, response.reason, answer


@webhook.command()
@click.option("--name", help="Only this webhook's.")
@click.option("--tail", default=20, show_default=True, type=click.IntRange(1, 10_000), help="The newest N.")
@root_option
@json_option
def logs(name: str | None, tail: int, root: Path | None, as_json: bool) -> None:
    """What came in, refused attempts too: newest last."""
    answer = call(find_root(root), "webhooks.log", {"name": name, "tail": tail})
    if as_json:
        print_json(answer)
        return
    rows = [
        (
            _local(row["time"]),
            row["webhook"] or "-",
            row["verdict"],
            str(row["status"]),
            (row["event"] if row["verdict"] == "accepted" else None) or row["reason"] or "",
            row["run_state"] or "",
            f"{row['size']:,}",
            row["source"] or "-",
            row["delivery_id"] or "",
        )
        for row in answer["attempts"]
    ]
    columns = ("time", "webhook", "verdict", "status", "event or reason", "run", "bytes", "from", "delivery")
    print_table(columns, rows, empty="Nothing came in yet.")


def _local(text: str) -> str:
    return datetime.fromisoformat(text).astimezone().strftime("%Y-%m-%d %H:%M:%S")
