"""Send raw bytes to a daemon, and check that they did no harm."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import socket
import sqlite3
import time
from collections.abc import Mapping
from contextlib import closing, suppress
from typing import Any

from runtime.api.admin.protocol import ROOT_HEADER
from runtime.daemon.process.root import Root
from tests.runtime.daemon.running import SECRET, Answer, Daemon

SECONDS = 60
"""Seconds that a response may take before the test fails."""

# Each response begins with it; bodies here are JSON and do not contain it.
_STATUS = re.compile(rb"HTTP/1\.[01] ([1-5][0-9]{2}) ")


def connect(daemon: Daemon, to: str = "public") -> socket.socket:
    """Connect to the `public` or `admin` listener, or to the admin `socket`."""
    if to == "socket":
        link = socket.socket(socket.AF_UNIX)
        link.settimeout(SECONDS)
        link.connect(json.loads((daemon.root / ".symbi/daemon.json").read_bytes())["socket"])
        return link
    host, _, port = str(daemon.addresses[to]).rpartition(":")
    return socket.create_connection((host, int(port)), timeout=SECONDS)


def exchange(daemon: Daemon, data: bytes, to: str = "public", *, patience: float = SECONDS) -> bytes:
    """Return everything that is received for `data` until the listener closes, or for at most `patience` seconds.

    The public listener is asked to close by ending our half. aiohttp, on the others, would take that for a sender that
    went away: there `data` says `Connection: close`.
    """
    with closing(connect(daemon, to)) as link:
        link.settimeout(patience)
        answer = b""
        with suppress(OSError):
            link.sendall(data)
            if to == "public":
                link.shutdown(socket.SHUT_WR)
        with suppress(ConnectionError, TimeoutError):
            while part := link.recv(65_536):
                answer += part
    return answer


def statuses(answer: bytes) -> list[int]:
    """Return the status of each response in `answer`."""
    return [int(found) for found in _STATUS.findall(answer)]


def request(
    path: str | bytes,
    body: bytes = b"",
    headers: Mapping[str, str] | list[tuple[str, str]] | None = None,
    method: str = "POST",
) -> bytes:
    """Return one request as bytes, with its length."""
    pairs = list(headers.items()) if isinstance(headers, Mapping) else list(headers or [])
    lines = [
        f"{name}: {value}".encode()
        for name, value in [("Host", "localhost"), *pairs, ("Content-Length", str(len(body)))]
    ]
    raw = path.encode() if isinstance(path, str) else path
    return method.encode() + b" " + raw + b" HTTP/1.1\r\n" + b"\r\n".join(lines) + b"\r\n\r\n" + body


def operate(daemon: Daemon, name: str, parameters: object, *, user: str | None = None) -> Answer:
    """Return the response of the admin socket to a call of the tool or operation `name` as `user`. `parameters`: bytes
    are the whole body."""
    envelope = {"user": user, "parameters": parameters}
    body = parameters if isinstance(parameters, bytes) else json.dumps(envelope).encode()
    headers = {"Connection": "close", ROOT_HEADER: Root(daemon.root).identity}
    answer = exchange(daemon, request(f"/v1/{name}", body, headers), "socket")
    head, _, content = answer.partition(b"\r\n\r\n")
    (status,) = statuses(head)
    return Answer(status, {}, content)


def github_mac(body: bytes, secret: bytes = SECRET.encode()) -> str:
    return hmac.new(secret, body, hashlib.sha256).hexdigest()


def github_headers(body: bytes, delivery_id: str | None = None) -> list[tuple[str, str]]:
    return [
        ("X-GitHub-Event", "push"),
        ("X-GitHub-Delivery", delivery_id or os.urandom(8).hex()),
        ("X-Hub-Signature-256", f"sha256={github_mac(body)}"),
    ]


def swarmlet_headers(body: bytes, secret: bytes, at: str | None = None) -> dict[str, str]:
    """Return a signature in Stripe's form, with the time written as `at`."""
    when = str(int(time.time())) if at is None else at
    mac = hmac.new(secret, when.encode() + b"." + body, hashlib.sha256).hexdigest()
    return {"t": when, "v1": mac}


def tables(daemon: Daemon, user_id: str | None = None) -> dict[str, list[Any]]:
    """Return every row of every table, or those of one user, without the columns that are stored some seconds later,
    nor rows that have nothing else."""
    found: dict[str, list[Any]] = {}
    with closing(sqlite3.connect(f"file:{daemon.root}/.symbi/symbiont.db?mode=ro", uri=True)) as database:
        names = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for name in sorted(names):
            columns = [row[1] for row in database.execute(f"PRAGMA table_info({name})")]
            if user_id is None or "user_id" in columns:
                where = "true" if user_id is None else "user_id = :user_id"
                if name == "user_storage":
                    where += " AND (name IS NOT NULL OR kv_key IS NOT NULL)"
                query = f"SELECT {', '.join(each for each in columns if each not in _LATER)} FROM {name} WHERE {where}"
                found[name] = sorted(database.execute(query, {"user_id": user_id}).fetchall(), key=repr)
    return found


_LATER = ("accessed_at", "text_bytes", "used_at")
"""Of users and of tokens."""


def living(daemon: Daemon) -> int:
    """Return the number of deliveries that have not ended."""
    with closing(sqlite3.connect(f"file:{daemon.root}/.symbi/symbiont.db?mode=ro", uri=True)) as database:
        query = "SELECT count(*) FROM deliveries WHERE state IN ('queued', 'running', 'waiting')"
        return int(database.execute(query).fetchone()[0])


def files(daemon: Daemon) -> set[str]:
    """Return every file under the root."""
    return {str(path.relative_to(daemon.root)) for path in daemon.root.rglob("*")}


def failures(daemon: Daemon, since: int = 0) -> list[str]:
    """Return lines of the log, after its first `since` bytes, that report an internal error."""
    lines = daemon.log.read_bytes()[since:].decode().splitlines()
    bad = ("Traceback", '"level": "error"', '"level": "critical"', "never awaited", "Task exception")
    return [line for line in lines if any(each in line for each in bad)]


def check_unharmed(daemon: Daemon, since: int = 0) -> None:
    """Assert that the daemon serves on every listener, stores deliveries, and logged no internal error."""
    assert daemon.process.poll() is None, daemon.log.read_text()[-4000:]
    assert daemon.request("GET", "/healthz").status == 200
    assert daemon.readyz().status == 200
    assert operate(daemon, "webhook_mounts", {}).status == 200
    body = b'{"unharmed":true}'
    assert daemon.request("POST", "/hooks/github", body, github_headers(body)).status == 202
    found = failures(daemon, since)
    assert not found, found
