"""Signs deliveries as their senders would, posts them to the running daemon, and prints its answers."""

from __future__ import annotations

import base64
import http.client
import json
import sys
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from runtime.cli.client import call_daemon
from runtime.cli.terminal.screen import echo, echo_json
from runtime.daemon.process.root import Root
from runtime.errors import SymbiontError, UsageError


def _post(url: str, headers: Iterable[tuple[str, str]], body: bytes, query: str = "") -> tuple[int, str, Any]:
    """Return status, reason and answer (JSON, else text). `query`: that of the URL, which no message shows. Raises
    UsageError for headers that cannot be sent."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "127.0.0.1", parts.port, timeout=30)
    try:
        connection.request("POST", f"{parts.path}?{query}" if query else parts.path, body, dict(headers))
        response = connection.getresponse()
        text = response.read().decode("utf-8", "replace")
    except ValueError:
        raise UsageError("--event and --delivery-id are sent in headers: give printable text in one line") from None
    except (OSError, http.client.HTTPException) as error:
        raise SymbiontError(
            f"{url} does not respond: {str(error) or type(error).__name__}", hint="is the daemon still running?"
        ) from None
    finally:
        connection.close()
    try:
        answer = json.loads(text)
    except ValueError:
        answer = text
    return response.status, response.reason, answer


class PostResult(NamedTuple):
    """A signed delivery, and the status, the reason and the answer (JSON, else text) of the daemon."""

    signed: Mapping[str, Any]
    status: int
    reason: str
    answer: Any


def send(root: Root, given: Mapping[str, Any]) -> PostResult:
    """Sign a delivery by the parameters of `webhook_sign` and post it. Raises SymbiontError."""
    signed = call_daemon(root, "webhook_sign", given)
    return PostResult(
        signed, *_post(signed["url"], signed["headers"], base64.b64decode(signed["body"]), signed["query"])
    )


def print_post_result(sent: PostResult, *, as_json: bool, event: str | None = None) -> None:
    """Print a delivery and the answer to it. Exits with code 1 if that is not 2xx. `event`: of a sample."""
    signed, status, reason, answer = sent
    if as_json:
        named = {} if event is None else {"event": event}
        echo_json({"url": signed["url"], **named, "status": status, "answer": answer})
    else:
        size = f"{len(base64.b64decode(signed['body'])):,} bytes, signed as {signed['provider']}"
        echo(f"POST {signed['url']}  ({f'{event}, ' if event else ''}{size})")
        if event is not None and signed["made_up"]:
            echo(f"there are no samples for {signed['provider']}: a generic body was sent", err=True)
        echo(f"{status} {reason}", fg="green" if status < 300 else "red", bold=True)
        echo(answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False))
    if status >= 300:
        sys.exit(1)
