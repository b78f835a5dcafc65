"""The address on this machine to which a browser comes back after a login (RFC 8252, section 7.3)."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final, Self
from urllib.parse import parse_qs, urlsplit

from runtime.errors import SymbiontError

PATH: Final = "/callback"
_SECONDS: Final = 600.0
_IDLE_SECONDS: Final = 10.0
"""After which a connection without a request is closed: browsers open some in advance."""
_PAGE: Final = b"<!doctype html><title>Symbiont</title><p>You can close this page and go back to the terminal."


class LoginListener:
    """A context manager; `redirect_uri` is the address.

    Any page in the browser can call it: only a request with the `state` of this login counts (RFC 9700, section 4.7.1).
    """

    def __init__(self) -> None:
        self._came: dict[str, str] = {}
        self._state: str | None = None
        self._ended = threading.Event()
        listener = self

        class Handler(BaseHTTPRequestHandler):
            timeout = _IDLE_SECONDS

            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                if self.headers.get_all("Host") != [urlsplit(listener.redirect_uri).netloc] or parts.path != PATH:
                    self.send_error(404)
                elif not listener._take({name: values[0] for name, values in parse_qs(parts.query).items()}):
                    self.send_error(400, "not an answer to this login")
                else:
                    self.send_response(200)
                    self.send_header("Content-Type", "text/html; charset=utf-8")
                    self.end_headers()
                    self.wfile.write(_PAGE)
                    listener._ended.set()

            def log_message(self, *_: object) -> None:
                """The path has the code."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, name="login", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def redirect_uri(self) -> str:
        """The address to which the browser is sent."""
        return f"http://127.0.0.1:{self._server.server_port}{PATH}"

    def wait(self, address: str) -> dict[str, str]:
        """Wait for the browser, which opened `address`; return what it brings: `code`, `state`, and `iss` if there is
        one. Raises SymbiontError."""
        self._state = parse_qs(urlsplit(address).query).get("state", [""])[0]
        if not self._ended.wait(_SECONDS):
            raise SymbiontError("nobody logged in")
        if "error" in self._came:
            detail = self._came.get("error_description", self._came["error"])
            raise SymbiontError(f"the login was refused: {detail[:300]}")
        return {name: self._came[name] for name in ("code", "state", "iss") if name in self._came}

    def _take(self, came: dict[str, str]) -> bool:
        """Keep what a browser brings, if it answers this login and none did before."""
        if not self._state or came.get("state") != self._state or not came.keys() & {"code", "error"} or self._came:
            return False
        self._came = came
        return True
