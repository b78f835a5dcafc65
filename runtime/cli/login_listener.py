"""The address on this machine to which a browser comes back after a login (RFC 8252, section 7.3)."""

from __future__ import annotations

import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Self
from urllib.parse import parse_qs, urlsplit

from runtime.errors import SymbiontError

PATH = "/callback"
_SECONDS = 600.0
_PAGE = b"<!doctype html><title>Symbiont</title><p>You can close this page and go back to the terminal."


class LoginListener:
    """A context manager; `redirect_uri` is the address."""

    def __init__(self) -> None:
        came = self._came = dict[str, str]()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                if parts.path != PATH:
                    self.send_error(404)
                    return
                came.update({name: values[0] for name, values in parse_qs(parts.query).items()})
                self.send_response(200)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.end_headers()
                self.wfile.write(_PAGE)

            def log_message(self, *_: object) -> None:
                """The path has the code."""

        self._server = HTTPServer(("127.0.0.1", 0), Handler)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.server_close()

    @property
    def redirect_uri(self) -> str:
        """The address to which the browser is sent."""
        return f"http://127.0.0.1:{self._server.server_port}{PATH}"

    def wait(self) -> dict[str, str]:
        """Wait for the browser; return what it brings: `code`, `state`, and `iss` if there is one. Raises
        SymbiontError."""
        end = time.monotonic() + _SECONDS
        while not self._came and (left := end - time.monotonic()) > 0:
            self._server.timeout = left
            self._server.handle_request()
        if "error" in self._came:
            detail = self._came.get("error_description", self._came["error"])
            raise SymbiontError(f"the login was refused: {detail[:300]}")
        if "code" not in self._came:
            raise SymbiontError("nobody logged in")
        return {name: self._came[name] for name in ("code", "state", "iss") if name in self._came}
