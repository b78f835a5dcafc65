"""A connection to a server, by the SDK's client: its tools, and calls of them, bounded and without the SDK's errors."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any, Final, NamedTuple

import mcp_types as types
from mcp.client.client import Client
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp.shared.exceptions import MCPError
from pydantic import TypeAdapter, ValidationError

from runtime.outbound.bounded_client import TooLarge
from runtime.tool_servers import stdio
from runtime.tool_servers.child import Child
from runtime.tool_servers.definition import InvalidTool, ToolDefinition, defined, visible
from runtime.tool_servers.errors import CallUncertain, ServerAway, ToolFailed
from runtime.tool_servers.http import AWAY, AWAY_TEXT, ServerClient
from runtime.tool_servers.login import reason_of
from runtime.tool_servers.place import Place

MOST_TOOLS: Final = 256
"""Maximum tools of a server; others are not offered."""
MOST_PAGES: Final = 32
"""Maximum pages in which a server lists its tools."""
LONGEST_TEXT: Final = 1_000_000
"""Maximum characters of the texts of a result together; the rest is left out."""
LONGEST_ERROR: Final = 2000
"""Maximum characters of the error of a call."""

_CLOSED: Final = -32000
_Result: Final = TypeAdapter[Any](types.CallToolResult | types.InputRequiredResult)

# The SDK logs what a server sends.
for _name in ("client", "mcp.client"):
    logging.getLogger(_name).setLevel(logging.CRITICAL)


class Listed(NamedTuple):
    """The tools of a server. `refused`: why others are not offered, a line each."""

    tools: tuple[ToolDefinition, ...]
    refused: tuple[str, ...]


class CallResult(NamedTuple):
    """What a call returned: the texts, and what is structured, if it is not the same in text."""

    text: str
    structured: Any = None


class Session:
    """An open connection. `on_end` was called when the server ended it."""

    def __init__(self, place: Place, client: Client, http: ServerClient | None) -> None:
        self._place = place
        self._client = client
        self._http = http

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        place: Place,
        *,
        seconds: float,
        auth: Any = None,
        on_end: Callable[[str], None],
        on_change: Callable[[], None],
        on_line: Callable[[str], None],
    ) -> AsyncIterator[Session]:
        """Connect to the server within `seconds`, while inside. `auth`: for an address, see
        `runtime.tool_servers.login`.

        `on_end` is called with the reason when the server ends the connection, `on_change` when it has other tools,
        `on_line` with lines of its error output. Raises ServerAway. What is raised inside, and what breaks the
        connection, leaves this in an ExceptionGroup, because of the SDK's tasks.
        """

        async def heard(message: Any) -> None:
            if isinstance(message, types.ToolListChangedNotification):
                on_change()

        async with AsyncExitStack() as stack:
            http, ended = None, _Ended(on_end)
            try:
                # Not anyio's: what is entered inside stays open after it.
                async with asyncio.timeout(seconds):
                    if place.command is not None:
                        child = await Child.start(place.command, place.env, place.folder, on_line, place.masked)
                        transport: AbstractAsyncContextManager[Any] = stdio.connected(child, ended.because)
                    else:
                        assert place.url is not None
                        http = ServerClient(place.url, place.headers, auth)
                        await stack.enter_async_context(http.http)
                        transport = http.streams()
                    client = await stack.enter_async_context(
                        Client(
                            transport,
                            message_handler=heard,
                            client_info=types.Implementation(name="symbiont", version="1"),
                            cache=None,
                        )
                    )
            except TimeoutError:
                late = f"it did not answer within {seconds:g} seconds after its start"
                raise ServerAway(ended.reason or (http.problem if http is not None else "") or late) from None
            except (MCPError, ValidationError, RuntimeError, BaseExceptionGroup) as error:
                raise _away(place, http, error, ended.reason) from None
            listening = asyncio.create_task(_listen(client, on_change), name=f"changes of mcp server {place.name}")
            try:
                yield cls(place, client, http)
            finally:
                listening.cancel()
                await asyncio.gather(listening, return_exceptions=True)

    async def tools(self) -> Listed:
        """Return the tools that the server has now. Raises ServerAway."""
        found: dict[str, ToolDefinition] = {}
        refused: list[str] = []
        cursor: str | None = None
        for _ in range(MOST_PAGES):
            try:
                page = await self._client.session.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
            except (MCPError, ValidationError, RuntimeError, RecursionError) as error:
                raise _away(self._place, self._http, error) from None
            for tool in page.tools:
                _take(tool, self._place, found, refused)
            cursor = page.next_cursor
            if cursor is None:
                break
        else:
            refused.append(f"it lists its tools in more than {MOST_PAGES} parts")
        return Listed(tuple(found.values()), tuple(refused[:20]))

    async def call(self, name: str, arguments: Mapping[str, Any], seconds: float) -> CallResult:
        """Call a tool, within `seconds`. Raises ServerAway if nothing was sent, CallUncertain, and ToolFailed."""
        request = types.CallToolRequest(params=types.CallToolRequestParams(name=name, arguments=dict(arguments)))
        server = self._place.name
        try:
            async with asyncio.timeout(seconds):
                # Not `call_tool`, which runs the server's schema over its result: a pattern may take for ever.
                result = await self._client.session.send_request(request, _Result)
        except TimeoutError:
            raise CallUncertain(f"{server} did not answer within {seconds:.3g} seconds") from None
        except MCPError as error:
            message = self._place.masked(visible(error.message))[:LONGEST_ERROR]
            if error.code == AWAY and error.message.startswith(AWAY_TEXT):
                raise ServerAway(f"{server} is away: {message.removeprefix(f'{AWAY_TEXT}: ')}") from None
            if error.code in (_CLOSED, types.REQUEST_TIMEOUT):
                raise CallUncertain(f"the connection to {server} ended before the answer") from None
            if self._http is not None and self._http.problem:
                # An answer without a message of the protocol: a proxy's, or a session that is gone.
                raise CallUncertain(f"{server} gave no result: {self._http.problem}") from None
            raise ToolFailed(f"{server}: {message}") from None
        except (ValidationError, RecursionError):
            raise CallUncertain(f"{server} sent a result that is not valid") from None
        if not isinstance(result, types.CallToolResult):
            raise ToolFailed(f"{server} asks a person for input, which nobody gives here")
        found = _result(result, self._place)
        if result.is_error:
            raise ToolFailed(found.text[:LONGEST_ERROR] or f"{server} says that the call failed")
        return found

    @property
    def shown(self) -> str:
        """The name and version that the server gives itself; empty if it gives none."""
        info = self._client.server_info
        if info is None:
            return ""
        name, version = (self._place.masked(visible(text)) for text in (info.name, info.version))
        return f"{name[:64]} {version[:32]}".strip()


class _Ended:
    """Keeps the first reason why a connection ended."""

    def __init__(self, on_end: Callable[[str], None]) -> None:
        self._on_end = on_end
        self.reason = ""

    def because(self, reason: str) -> None:
        if not self.reason:
            self.reason = reason
            self._on_end(reason)


async def _listen(client: Client, on_change: Callable[[], None]) -> None:
    """Call `on_change` when a server of the protocol from 2026 on has other tools; older ones say so unasked."""
    try:
        async with client.listen(tools_list_changed=True) as changes:
            async for _ in changes:
                on_change()
    except (ListenNotSupportedError, SubscriptionLost, MCPError, TimeoutError, RuntimeError):
        # It is asked now and then anyway.
        return


def _away(place: Place, http: ServerClient | None, error: BaseException, reason: str = "") -> ServerAway:
    """Return the error for a server that cannot be asked. `reason`: why it ended, if it did."""
    error = _first(error)
    if http is not None and http.problem and isinstance(error, MCPError):
        # The SDK's own text does not have the status.
        if http.status == 401:
            return ServerAway("it wants a login, or another token", hint=f"symbi mcp-server login {place.name}")
        return ServerAway(http.problem)
    return ServerAway(reason or broken(place, error), hint=getattr(error, "hint", None))


def _first(error: BaseException) -> BaseException:
    """Return the first error of a group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def broken(place: Place, error: BaseException) -> str:
    """Return in one line why a connection broke."""
    error = _first(error)
    if isinstance(error, TooLarge):
        return "it sent an answer that is too large"
    if isinstance(error, MCPError | RuntimeError):
        return f"it refuses to be connected: {place.masked(visible(reason_of(error)))}"
    return place.masked(visible(reason_of(error)))


def _take(tool: types.Tool, place: Place, found: dict[str, ToolDefinition], refused: list[str]) -> None:
    """Add the definition of a tool to `found`, or the reason why it is not offered to `refused`."""
    # A name with a secret in it is none any more.
    name, hints = place.masked(tool.name), tool.annotations or types.ToolAnnotations()
    shown = place.masked(visible(tool.name))[:128]
    if name in found:
        refused.append(f"{shown}: a second tool of this name")
    elif len(found) >= MOST_TOOLS:
        refused.append(f"{shown}: it has more than {MOST_TOOLS} tools")
    else:
        try:
            one = defined(
                name,
                place.masked(visible(tool.description or "")),
                tool.input_schema,
                read_only=hints.read_only_hint,
                destructive=hints.destructive_hint,
                idempotent=hints.idempotent_hint,
            )
        except (InvalidTool, RecursionError) as error:
            refused.append(f"{shown}: {error}")
        else:
            found[name] = replace(one, schema=_masked(one.schema, place, 0))


def _result(result: types.CallToolResult, place: Place) -> CallResult:
    parts = [_text(part) for part in result.content]
    text = place.masked(visible("\n".join(filter(None, parts))))[:LONGEST_TEXT]
    structured = result.structured_content
    # Servers repeat it as text, for clients that read only that.
    return CallResult(text) if structured is None or text else CallResult("", _masked(structured, place, 0))


def _masked(value: Any, place: Place, depth: int) -> Any:
    if depth > 64:
        return "…"
    if isinstance(value, str):
        return place.masked(visible(value))[:LONGEST_TEXT]
    if isinstance(value, Mapping):
        return {place.masked(visible(str(key))): _masked(each, place, depth + 1) for key, each in value.items()}
    if isinstance(value, Sequence):
        return [_masked(each, place, depth + 1) for each in value]
    return value


def _text(part: Any) -> str:
    """Return a part of a result as text; what is no text is named."""
    match part:
        case types.TextContent():
            return part.text
        case types.ImageContent() | types.AudioContent():
            return f"[{part.type} {part.mime_type}, {len(part.data) * 3 // 4} bytes]"
        case types.ResourceLink():
            return f"[resource {part.uri}]"
        case types.EmbeddedResource(resource=types.TextResourceContents() as held):
            return held.text
        case types.EmbeddedResource(resource=types.BlobResourceContents() as held):
            return f"[resource {held.uri}, {len(held.blob) * 3 // 4} bytes]"
    return ""
