"""A TCP proxy in front of PostgreSQL that can be cut."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import parse_qs, urlsplit


class Proxy:
    """Forwards connections to the server of `url`; `cut` breaks them and refuses new ones."""

    def __init__(self, url: str) -> None:
        self._url = urlsplit(url)
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._guard = threading.Lock()
        self._open = True
        self._listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        """The URL of the same database through the proxy."""
        user = f"{self._url.username or 'postgres'}@"
        return f"postgresql://{user}127.0.0.1:{self._listener.getsockname()[1]}{self._url.path}?sslmode=disable"

    def cut(self) -> None:
        """Break all connections, also in the middle of a message, and refuse new ones."""
        with self._guard:
            self._open = False
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            _break(*pair)

    def reconnect(self) -> None:
        """Forward again."""
        with self._guard:
            self._open = True

    def close(self) -> None:
        self.cut()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with self._guard:
                if not self._open:
                    client.close()
                    continue
                try:
                    server = self._connect()
                except OSError:
                    client.close()
                    continue
                self._pairs.append((client, server))
            for source, target in ((client, server), (server, client)):
                threading.Thread(target=_forward, args=(source, target), daemon=True).start()

    def _connect(self) -> socket.socket:
        folder = parse_qs(self._url.query).get("host", [""])[0]
        port = self._url.port or 5432
        if folder.startswith("/"):
            server = socket.socket(socket.AF_UNIX)
            server.connect(f"{folder}/.s.PGSQL.{port}")
            return server
        return socket.create_connection((self._url.hostname or "127.0.0.1", port))


def _forward(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while part := source.recv(65536):
            target.sendall(part)
    _break(source, target)


def _break(*sockets: socket.socket) -> None:
    for each in sockets:
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        with suppress(OSError):
            each.close()


@contextmanager
def proxied(url: str) -> Iterator[Proxy]:
    """Yield a proxy to the PostgreSQL server at `url`."""
    proxy = Proxy(url)
    try:
        yield proxy
    finally:
        proxy.close()
