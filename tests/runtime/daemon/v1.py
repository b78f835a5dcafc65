"""Call `/v1` of a running daemon, and post to webhooks that were created there."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any

from tests.runtime.daemon.running import Answer, Daemon
from tests.signatures import sign


def make_token(daemon: Daemon, *arguments: str, **extra: str) -> str:
    """Return a new token, as `symbi token create` prints it."""
    done = daemon.symbi("token", "create", *arguments, **extra)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def ask(
    daemon: Daemon,
    token: str | None,
    method: str,
    path: str,
    body: Any = None,
    headers: list[tuple[str, str]] | None = None,
) -> Answer:
    """Return the response of the operators' listener."""
    sent = list(headers or [])
    if token is not None:
        sent.append(("Authorization", f"Bearer {token}"))
    if body is None:
        return daemon.request(method, path, None, sent, to="admin")
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return daemon.request(method, path, raw, [*sent, ("Content-Type", "application/json")], to="admin")


@dataclass
class Made:
    """A webhook that was created at run time."""

    daemon: Daemon
    id: str
    secret: str | None

    @property
    def path(self) -> str:
        return f"/webhooks/{self.id}"

    def headers(self, body: bytes, *, secret: str | None = None, late: float = 0) -> list[tuple[str, str]]:
        return sign("swarmlet", secret or self.secret or "", body, now=time.time() - late, delivery_id="unused")

    def post(self, body: bytes = b'{"a":1}', *, secret: str | None = None, late: float = 0) -> Answer:
        """Post `body`, signed `late` seconds ago with `secret`, by default its own; unsigned if it has none."""
        signed = self.headers(body, secret=secret, late=late) if secret or self.secret else []
        return self.daemon.request("POST", self.path, body, signed)


def make_webhook(daemon: Daemon, token: str, title: str = "Nightly build", **body: Any) -> Made:
    """Create a webhook over HTTP."""
    answer = ask(daemon, token, "POST", "/v1/webhooks", {"title": title, "agent": "reviewer", **body})
    assert answer.status == 201, answer
    made = answer.json()
    return Made(daemon, made["webhook_id"], made["secret"])
