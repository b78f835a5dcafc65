"""The protocol over streamable HTTP, with the limits of our own calls: no redirects, no answers without end, and no
addresses of the daemon's network that a server on the internet names."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2
from mcp.client.streamable_http import streamable_http_client
from mcp_types import RequestId

from dslc.blocks.values.quantity import format_size
from runtime.json_bounds import OFF_THE_LOOP, excess
from runtime.outbound.address import is_public
from runtime.outbound.bounded_client import CompressedAnswer, TooLarge, http_client
from runtime.outbound.http import LARGEST_ANSWER
from runtime.tool_servers.errors import ServerAway
from runtime.tool_servers.stdio import MOST_VALUES, request_id, unreadable

AWAY: Final = -32098
"""Code of the error that a request gets that could not be sent. No server's own: they have those down to -32099, but
the message is compared too."""
SESSION_ENDED: Final = -32097
"""Code of the error that a request gets whose session the server knows no more: by the protocol, status 404."""
AWAY_TEXT: Final = "symbiont: not sent"
_SESSION: Final = "mcp-session-id"
_EVENT_END: Final = re.compile(rb"\r?\n\r?\n|\r\r")
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
        self._begins = False
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

    @contextmanager
    def new_session(self) -> Iterator[None]:
        """Send the request to initialize without the session that has ended, while inside."""
        self._begins = True
        try:
            yield
        finally:
            self._begins = False

    def prepare(self, request: httpx2.Request) -> None:
        """Take what belongs to the session that has ended off the request to initialize."""
        # Those of a login have no session, and another body.
        of_session = self._begins and request.method == "POST" and _SESSION in request.headers
        if of_session and json.loads(request.content).get("method") == "initialize":
            del request.headers[_SESSION]
            request.headers.pop("mcp-protocol-version", None)


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
            client.prepare(request)
        else:
            await _check_address(request, client)
        try:
            response = await self._inner.handle_async_request(request)
        except (httpx2.ConnectError, httpx2.ConnectTimeout):
            client.problem = f"no connection to {request.url.host}"
            return _unsent_answer(request, client.problem)
        except CompressedAnswer:
            client.problem = "it sent a compressed answer, which was not asked for"
            return _unsent_answer(request, client.problem, code=-32000)
        if own and is_public(_peer_address(response)):
            client.public = True
        client.status = response.status_code
        client.problem = "" if response.status_code < 300 else f"it answered {response.status_code}"
        if own and response.status_code == 404 and request.method == "POST" and _SESSION in request.headers:
            await response.aclose()
            return _unsent_answer(request, client.problem, code=SESSION_ENDED)
        if 300 <= response.status_code < 400:
            client.problem += ": redirects are not followed, so use the URL of its target"
            # The SDK follows those within an origin.
            response.headers.pop("Location", None)
        kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if own and kind in {"application/json", "text/event-stream"}:
            response.stream = _Answer(response.stream, request_id(request.content), events=kind != "application/json")
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


async def _answer(parts: AsyncIterator[bytes], request: RequestId | None, *, events: bool) -> AsyncIterator[bytes]:
    """Yield the answer to a request, with an error in place of a message that has too many parts, and of what is too
    large. `events`: it is a stream of events, one message each; otherwise one message."""
    rest, form = bytearray(), b"data: %s\n\n" if events else b"%s"
    try:
        async for part in parts:
            rest += part
            # A line end may be split.
            while events and (end := _EVENT_END.search(rest, max(0, len(rest) - len(part) - 3))):
                event, rest = bytes(rest[: end.end()]), rest[end.end() :]
                yield await _message_or_error(event, request, form)
        if rest:
            yield await _message_or_error(bytes(rest), request, form)
    except TooLarge:
        if request is None:
            raise
        yield _error(request, f"it has more than {format_size(LARGEST_ANSWER)}", form)


async def _message_or_error(text: bytes, request: RequestId | None, form: bytes) -> bytes:
    what = await asyncio.to_thread(excess, text, MOST_VALUES) if len(text) > OFF_THE_LOOP else excess(text, MOST_VALUES)
    return text if what is None else _error(request, what, form)


def _error(request: RequestId | None, what: str, form: bytes) -> bytes:
    return form % unreadable(request, what).model_dump_json().encode()


class _Answer(httpx2.AsyncByteStream):
    """The answer to a request, with an error in place of messages that have too many parts."""

    def __init__(self, inner: Any, request: RequestId | None, *, events: bool) -> None:
        self._inner = inner
        self._request = request
        self._events = events

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in _answer(self._inner, self._request, events=self._events):
            yield part

    async def aclose(self) -> None:
        await self._inner.aclose()


def _unsent_answer(request: httpx2.Request, reason: str, code: int = AWAY) -> httpx2.Response:
    """Return an answer that says why a request has none, in the form that the SDK gives to its caller alone. An
    exception would end the connection, with all calls that other runs make. With a code of ours, nothing happened."""
    error = {"code": code, "message": reason if code == -32000 else f"{AWAY_TEXT}: {reason}"}
    body = json.dumps({"jsonrpc": "2.0", "id": 0, "error": error}).encode()
    return httpx2.Response(503, headers={"Content-Type": "application/json"}, content=body, request=request)


def _peer_address(response: httpx2.Response) -> str:
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
