"""A client of `/v1` that reads server-sent events from a running daemon, and loses its connection with it."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Any, NamedTuple

from tests.runtime.daemon.running import Daemon


class Event(NamedTuple):
    """An event. `id`: None if it has none."""

    name: str
    data: dict[str, Any]
    id: str | None


class Stream:
    """An open stream. `ended`: the server ended it; False after a lost connection."""

    def __init__(self, response: HTTPResponse) -> None:
        self.status = response.status
        self.location = response.getheader("Location")
        self.ended = False
        self._response = response

    def events(self) -> Iterator[Event]:
        """Yield the events until the stream or the connection ends."""
        fields: dict[str, str] = {}
        with suppress(OSError, HTTPException):
            while line := self._response.readline():
                text = line.decode().rstrip("\n")
                if not text:
                    if "event" in fields:
                        yield Event(fields["event"], json.loads(fields["data"]), fields.get("id"))
                    fields = {}
                elif not text.startswith(":"):
                    name, _, value = text.partition(": ")
                    fields[name] = value
            self.ended = self._response.isclosed()

    def until(self, accepts: Callable[[Event], bool]) -> list[Event]:
        """Return the events up to the first that is as wanted."""
        found = []
        for event in self.events():
            found.append(event)
            if accepts(event):
                return found
        raise AssertionError(found)


@contextmanager
def opened(daemon: Daemon, token: str, path: str, body: Any = None, *, last: str | None = None) -> Iterator[Stream]:
    """Open a stream: POST with a body, else GET. Raises OSError and HTTPException."""
    host, _, port = str(daemon.addresses["admin"]).rpartition(":")
    headers = {"Authorization": f"Bearer {token}", "Accept": "text/event-stream"}
    if last is not None:
        headers["Last-Event-ID"] = last
    sent = None if body is None else json.dumps(body)
    if sent is not None:
        headers["Content-Type"] = "application/json"
    with closing(HTTPConnection(host, int(port), timeout=120)) as connection:
        connection.request("GET" if sent is None else "POST", path, sent, headers)
        with closing(connection.getresponse()) as response:
            yield Stream(response)


def connect_without_reading(daemon: Daemon, token: str, path: str) -> socket.socket:
    """Ask for a stream over a connection whose answer is not read. The caller closes it."""
    host, _, port = str(daemon.addresses["admin"]).rpartition(":")
    link = socket.socket()
    link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    link.settimeout(60)
    link.connect((host, int(port)))
    head = f"GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\nAccept: text/event-stream\r\n\r\n"
    link.sendall(head.encode())
    return link
