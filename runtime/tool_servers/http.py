"""The protocol over streamable HTTP, with the limits of our own calls: no redirects, no answers without end, and no
addresses of the daemon's network that a server on the internet names."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2
from mcp.client.streamable_http import streamable_http_client

from runtime.outbound.address import is_public
from runtime.outbound.bounded_client import http_client
from runtime.outbound.http import LARGEST_ANSWER
from runtime.tool_servers.errors import ServerAway

AWAY: Final = -32098
"""Code of the error that a request gets that could not be sent. No server's own: they have those down to -32099, but
the message is compared too."""
AWAY_TEXT: Final = "symbiont: not sent"
IDLE_SECONDS: Final = 3600.0
"""Seconds between two parts of an answer. A stream of notifications may be silent; calls have deadlines of their own.
"""


class ServerClient:
    """Calls of one server. `problem`: why it did not answer the last request, in the words of a message; empty if it
    did."""

    def __init__(self, url: str, headers: Mapping[str, str], auth: httpx2.Auth | None) -> None:
        """`headers` are sent to the server's own address only."""
        self._url = url
        self.problem = ""
        self.status: int | None = None
        """Of the last answer."""
        self.public = False
        """True after an answer of the server from an address of the public internet."""
        self.http: httpx2.AsyncClient = http_client(
            httpx2, IDLE_SECONDS, wrapped=lambda inner: _Transport(inner, self, dict(headers)), auth=auth
        )

    @property
    def origin(self) -> tuple[str, str, int | None]:
        """The scheme, host and port of the server."""
        parts = urlsplit(self._url)
        return parts.scheme, (parts.hostname or "").lower(), parts.port

    def streams(self) -> AbstractAsyncContextManager[Any]:
        """Return the transport for the SDK's client."""
        return streamable_http_client(self._url, http_client=self.http, max_sse_event_size=LARGEST_ANSWER)


class _Transport(httpx2.AsyncBaseTransport):
    def __init__(self, inner: httpx2.AsyncBaseTransport, client: ServerClient, headers: Mapping[str, str]) -> None:
        self._inner = inner
        self._client = client
        self._headers = headers

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        own = (request.url.scheme, request.url.host.lower(), request.url.port) == self._client.origin
        client = self._client
        if own:
            for name, value in self._headers.items():
                request.headers[name] = value
        else:
            await _check_address(request, client)
        try:
            response = await self._inner.handle_async_request(request)
        except (httpx2.ConnectError, httpx2.ConnectTimeout):
            client.problem = f"no connection to {request.url.host}"
            return _unsent(request, client.problem)
        if own and is_public(_peer(response)):
            client.public = True
        client.status = response.status_code
        client.problem = "" if response.status_code < 300 else f"it answered {response.status_code}"
        if 300 <= response.status_code < 400:
            client.problem += ": redirects are not followed, so use the URL of its target"
            # The SDK follows those within an origin.
            response.headers.pop("Location", None)
        if response.headers.get("Content-Encoding", "identity").lower() != "identity":
            await response.aclose()
            client.problem = "it sent a compressed answer, which was not asked for"
            return _unsent(request, client.problem, status=502)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


def _unsent(request: httpx2.Request, reason: str, status: int = 503) -> httpx2.Response:
    """Return an answer that says that a request was not sent, in the form that the SDK gives to its caller alone. An
    exception would end the connection, with all calls that other runs make."""
    code = AWAY if status == 503 else -32000
    error = {"code": code, "message": f"{AWAY_TEXT}: {reason}" if code == AWAY else reason}
    body = json.dumps({"jsonrpc": "2.0", "id": 0, "error": error}).encode()
    return httpx2.Response(status, headers={"Content-Type": "application/json"}, content=body, request=request)


def _peer(response: httpx2.Response) -> str:
    """Return the address from which an answer came; empty if it is not known."""
    stream = response.extensions.get("network_stream")
    address = None if stream is None else stream.get_extra_info("server_addr")
    return str(address[0]) if address else ""


async def _check_address(request: httpx2.Request, client: ServerClient) -> None:
    """Let a request to another host than the server's go to the public internet only, if the server itself is there.

    A server may name other hosts, such as that of its authorization server; it must not reach the daemon's network by
    that. Where it answered from counts, because its name may resolve differently a moment later. The connection is made
    to the checked address. Raises ServerAway.
    """
    own, host = client.origin[1], request.url.host
    if not client.public and (known := await _addresses(own)) and not any(map(is_public, known)):
        return
    found = await _addresses(host)
    if request.url.scheme != "https" or not found or not all(map(is_public, found)):
        raise ServerAway(f"{own} refers to {host}, which is not called: it is not https at a public address")
    request.extensions = {**request.extensions, "sni_hostname": host}
    request.url = request.url.copy_with(host=found[0])


async def _addresses(host: str) -> list[str]:
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return []
    return list(dict.fromkeys(str(each[4][0]) for each in found))
