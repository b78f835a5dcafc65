"""A connection to a server, by the SDK's client: its tools, and calls of them, bounded and without the SDK's errors."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeVar

import mcp_types as types
from mcp.client.client import Client
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp.shared.exceptions import MCPError
from pydantic import TypeAdapter, ValidationError

from dslc.blocks.values.quantity import format_duration
from runtime.outbound.bounded_client import TooLarge
from runtime.tool_servers import stdio
from runtime.tool_servers.answers import SCHEMA, valid_answers
from runtime.tool_servers.child import Child
from runtime.tool_servers.definition import InvalidTool, ToolDefinition, definition_of, visible
from runtime.tool_servers.errors import CallUncertain, ServerAway, ToolFailed
from runtime.tool_servers.http import AWAY, AWAY_TEXT, SESSION_ENDED, ServerClient
from runtime.tool_servers.login import reason_of
from runtime.tool_servers.server_address import ServerAddress

MOST_TOOLS: Final = 256
"""Maximum tools of a server; others are not offered."""
MOST_PAGES: Final = 32
"""Maximum pages in which a server lists its tools."""
LONGEST_TEXT: Final = 1_000_000
"""Maximum characters of the texts of a result together; the rest is left out."""
LONGEST_ERROR: Final = 2000
"""Maximum characters of the error of a call."""
RENEWAL_SECONDS: Final = 15.0
"""Seconds in which a server begins a new session."""

_CLOSED: Final = -32000
_CLIENT: Final = types.Implementation(name="symbiont", version="1")
_Result: Final = TypeAdapter[Any](types.CallToolResult | types.InputRequiredResult)

Answer = TypeVar("Answer")

# The SDK logs what a server sends.
for _name in ("client", "mcp.client"):
    logging.getLogger(_name).setLevel(logging.CRITICAL)


class ToolListing(NamedTuple):
    """The tools of a server. `refused`: why others are not offered, a line each."""

    tools: tuple[ToolDefinition, ...]
    refused: tuple[str, ...]


class CallResult(NamedTuple):
    """The result of a call: its texts, and its structured part, if that is not the same in text."""

    text: str
    structured: Any = None


class _SessionEnded(ServerAway):
    """The server knows the session no more. Nothing happened."""


class Session:
    """An open connection. `on_end` was called when the server ended it."""

    def __init__(
        self, address: ServerAddress, client: Client, http: ServerClient | None, on_change: Callable[[], None]
    ) -> None:
        self._address = address
        self._client = client
        self._http = http
        self._on_change = on_change
        self._renewing = asyncio.Lock()
        self._renewals = 0

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        address: ServerAddress,
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

        async def on_message(message: Any) -> None:
            if isinstance(message, types.ToolListChangedNotification):
                on_change()

        async with AsyncExitStack() as stack:
            http, ended = None, _EndReason(on_end)
            try:
                # Not anyio's: what is entered inside stays open after it.
                async with asyncio.timeout(seconds):
                    if address.command is not None:
                        child = await Child.start(address.command, address.env, address.folder, on_line, address.masked)
                        transport: AbstractAsyncContextManager[Any] = stdio.open_streams(child, ended.end)
                    else:
                        assert address.url is not None
                        http = ServerClient(address.url, address.headers, auth)
                        await stack.enter_async_context(http.http)
                        transport = http.streams()
                    client = await stack.enter_async_context(
                        Client(valid_answers(transport), message_handler=on_message, client_info=_CLIENT, cache=None)
                    )
            except TimeoutError:
                late = f"it did not answer within {format_duration(seconds)} after its start"
                raise ServerAway(ended.reason or (http.problem if http is not None else "") or late) from None
            except (MCPError, ValidationError, RuntimeError, BaseExceptionGroup) as error:
                raise _away(address, http, error, ended.reason) from None
            listening = asyncio.create_task(_listen(client, on_change), name=f"changes of mcp server {address.name}")
            try:
                yield cls(address, client, http, on_change)
            finally:
                listening.cancel()
                await asyncio.gather(listening, return_exceptions=True)

    async def tools(self) -> ToolListing:
        """Return the tools that the server has now. Raises ServerAway."""
        found: dict[str, ToolDefinition] = {}
        refused: list[str] = []
        cursors: list[str] = []
        for _ in range(MOST_PAGES):
            page = await self._page(cursors[-1] if cursors else None)
            for tool in page.tools:
                _add_tool(tool, self._address, found, refused)
            if not page.next_cursor:
                break
            if page.next_cursor in cursors:
                refused.insert(0, "its list of tools has no end: it names the same part again")
                break
            cursors.append(page.next_cursor)
        else:
            refused.insert(0, f"it lists its tools in more than {MOST_PAGES} parts")
        return ToolListing(tuple(found.values()), tuple(refused[:20]))

    async def _page(self, cursor: str | None) -> types.ListToolsResult:
        async def ask() -> types.ListToolsResult:
            try:
                return await self._client.session.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
            except MCPError as error:
                raise _ended_session(error) or _away(self._address, self._http, error) from None
            except (ValidationError, RuntimeError, RecursionError) as error:
                raise _away(self._address, self._http, error) from None

        return await self._in_session(ask, RENEWAL_SECONDS)

    async def call(self, name: str, arguments: Mapping[str, Any], seconds: float) -> CallResult:
        """Call a tool, within `seconds`. Raises ServerAway if nothing happened, CallUncertain, and ToolFailed."""
        until = time.monotonic() + seconds

        async def ask() -> CallResult:
            return await self._call(name, arguments, max(until - time.monotonic(), 0.0))

        return await self._in_session(ask, min(seconds, RENEWAL_SECONDS))

    async def _in_session(self, ask: Callable[[], Awaitable[Answer]], seconds: float) -> Answer:
        """Return the answer; if the server knows the session no more, ask once again in a new one, which begins within
        `seconds`."""
        renewals = self._renewals
        try:
            return await ask()
        except _SessionEnded:
            await self._renew(renewals, seconds)
        return await ask()

    async def _renew(self, renewals: int, seconds: float) -> None:
        """Begin a new session, unless another call has done so since there were `renewals`. Calls without an answer go
        on. Raises ServerAway."""
        session, http = self._client.session, self._http
        assert http is not None
        request = types.InitializeRequest(
            params=types.InitializeRequestParams(
                protocol_version=session.protocol_version or "",
                capabilities=types.ClientCapabilities(),
                client_info=_CLIENT,
            )
        )
        try:
            async with asyncio.timeout(seconds), self._renewing:
                if self._renewals != renewals:
                    return
                with http.new_session():
                    # Not `initialize`, which remembers its first answer.
                    begun = await session.send_request(request, types.InitializeResult)
                await session.send_notification(types.InitializedNotification())
                self._renewals += 1
        except TimeoutError:
            raise ServerAway(f"it did not begin a new session within {format_duration(seconds)}") from None
        except (MCPError, ValidationError, RuntimeError) as error:
            raise _away(self._address, http, error) from None
        if begun.protocol_version != session.protocol_version:
            raise ServerAway("it speaks another version of the protocol since its session ended")
        # A session mostly ends because the server was started again, perhaps with other tools.
        self._on_change()

    async def _call(self, name: str, arguments: Mapping[str, Any], seconds: float) -> CallResult:
        request = types.CallToolRequest(params=types.CallToolRequestParams(name=name, arguments=dict(arguments)))
        server = self._address.name
        try:
            async with asyncio.timeout(seconds):
                # Not `call_tool`, which runs the server's schema over its result: a pattern may take for ever.
                result = await self._client.session.send_request(request, _Result)
        except TimeoutError:
            raise CallUncertain(f"{server} did not answer within {format_duration(seconds)}") from None
        except MCPError as error:
            raise self._failure(error) from None
        except (ValidationError, RecursionError):
            raise CallUncertain(f"{server} sent a result that is not valid") from None
        if not isinstance(result, types.CallToolResult):
            raise ToolFailed(f"{server} asks a person for input, which nobody gives here")
        # Masking takes some microseconds for each of its texts.
        found = await asyncio.to_thread(_result, result, self._address)
        if result.is_error:
            raise ToolFailed(found.text[:LONGEST_ERROR] or f"{server} says that the call failed")
        return found

    def _failure(self, error: MCPError) -> Exception:
        """Return the error of a call that the SDK has no result of."""
        server = self._address.name
        if ended := _ended_session(error):
            return ended
        message = self._address.masked(visible(error.message))[:LONGEST_ERROR]
        if error.code == AWAY and error.message.startswith(AWAY_TEXT):
            return ServerAway(message.removeprefix(f"{AWAY_TEXT}: "))
        if error.code in (_CLOSED, types.REQUEST_TIMEOUT):
            return CallUncertain(f"the connection to {server} ended before the answer")
        if error.code == types.PARSE_ERROR:
            # The SDK's own text has the answer in it.
            what = "" if self._http is not None and error.message.startswith("Failed") else f": {message}"
            return CallUncertain(f"{server} sent an answer that cannot be read{what}")
        if self._http is not None and self._http.problem:
            # An answer without a message of the protocol, such as a proxy's.
            return CallUncertain(f"{server} gave no result: {self._http.problem}")
        return ToolFailed(f"{server}: {message}")

    @property
    def server_label(self) -> str:
        """The name and version that the server gives itself; empty if it gives none."""
        info = self._client.server_info
        if info is None:
            return ""
        name, version = (self._address.masked(visible(text)) for text in (info.name, info.version))
        return f"{name[:64]} {version[:32]}".strip()


class _EndReason:
    """Keeps the first reason why a connection ended."""

    def __init__(self, on_end: Callable[[str], None]) -> None:
        self._on_end = on_end
        self.reason = ""

    def end(self, reason: str) -> None:
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


def _away(address: ServerAddress, http: ServerClient | None, error: BaseException, reason: str = "") -> ServerAway:
    """Return the error for a server that cannot be asked. `reason`: why it ended, if it did."""
    error = _first(error)
    if http is not None and http.problem and isinstance(error, MCPError):
        # The SDK's own text does not have the status.
        if http.status == 401:
            return ServerAway("it wants a login, or another token", hint=f"symbi mcp-server login {address.name}")
        return ServerAway(http.problem)
    return ServerAway(reason or failure_reason(address, error), hint=getattr(error, "hint", None))


def _ended_session(error: MCPError) -> _SessionEnded | None:
    """Return the error if the server knows the session no more."""
    ended = error.code == SESSION_ENDED and error.message.startswith(AWAY_TEXT)
    return _SessionEnded("it answered 404, as if its session had ended") if ended else None


def _first(error: BaseException) -> BaseException:
    """Return the first error of a group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def failure_reason(address: ServerAddress, error: BaseException) -> str:
    """Return in one line why a connection broke."""
    error = _first(error)
    if isinstance(error, TooLarge):
        return "it sent an answer that is too large"
    if isinstance(error, MCPError | RuntimeError):
        return f"it refuses to be connected: {address.masked(visible(reason_of(error)))}"
    return address.masked(visible(reason_of(error)))


def _add_tool(tool: types.Tool, address: ServerAddress, found: dict[str, ToolDefinition], refused: list[str]) -> None:
    """Add the definition of a tool to `found`, or the reason why it is not offered to `refused`."""
    # A name with a secret in it is none any more.
    name, hints = address.masked(tool.name), tool.annotations or types.ToolAnnotations()
    shown = address.masked(visible(tool.name))[:128] or "(a tool without a name)"
    if name in found:
        refused.append(f"{shown}: a second tool of this name")
    elif len(found) >= MOST_TOOLS:
        refused.append(f"{shown}: it has more than {MOST_TOOLS} tools")
    else:
        try:
            one = definition_of(
                name,
                address.masked(visible(tool.description or "")),
                (tool.meta or {}).get(SCHEMA),
                read_only=hints.read_only_hint,
                destructive=hints.destructive_hint,
                idempotent=hints.idempotent_hint,
            )
        except (InvalidTool, RecursionError) as error:
            refused.append(f"{shown}: {error}")
        else:
            found[name] = replace(one, schema=_masked(one.schema, address, 0))


def _result(result: types.CallToolResult, address: ServerAddress) -> CallResult:
    texts = [part.text for part in result.content if isinstance(part, types.TextContent)]
    text = address.masked(visible("\n".join(texts)))[:LONGEST_TEXT]
    structured = result.structured_content
    # Servers repeat it as text, for clients that read only that.
    return CallResult(text) if structured is None or text else CallResult("", _masked(structured, address, 0))


def _masked(value: Any, address: ServerAddress, depth: int) -> Any:
    if depth > 64:
        return "…"
    if isinstance(value, str):
        return address.masked(visible(value))[:LONGEST_TEXT]
    if isinstance(value, Mapping):
        return {address.masked(visible(str(key))): _masked(each, address, depth + 1) for key, each in value.items()}
    if isinstance(value, Sequence):
        return [_masked(each, address, depth + 1) for each in value]
    return value
