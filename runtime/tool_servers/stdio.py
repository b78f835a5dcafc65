"""The protocol over the standard input and output of a child process: lines of JSON, bounded in size and in rate."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import (
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    RequestId,
    jsonrpc_message_adapter,
)

from dslc.blocks.values.quantity import format_size
from runtime.json_bounds import OFF_THE_LOOP, excess
from runtime.memory.item import well_formed
from runtime.tool_servers.child import Child

LARGEST_MESSAGE: Final = 8 * 1024 * 1024
"""Maximum bytes of a message of a server; a larger one ends the connection."""
LINES_PER_SECOND: Final = 100
"""Lines a second that a server may send, on average, and at once five times as many. Beyond that it is read slower."""
_BURST: Final = 5 * LINES_PER_SECOND
MOST_VALUES: Final = 50_000
"""Maximum values of a message: the SDK makes a model of each part of a result."""
_ID: Final = rb'"id"\s*:\s*(\d{1,15}|"[^"\\]{1,100}")\s*'
_HEAD: Final = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?' + _ID + rb",")
_TAIL: Final = re.compile(rb",\s*" + _ID + rb'(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*\Z')
_TAIL_BYTES: Final = 200
_PASSED: Final = frozenset({"notifications/tools/list_changed", "notifications/cancelled"})
_LISTENING: Final = "notifications/subscriptions/"

Streams = tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]


class TooLarge(Exception):  # noqa: N818 - named for what happened
    """A server sent a message that is larger than `LARGEST_MESSAGE`."""


@asynccontextmanager
async def open_streams(child: Child, on_end: Callable[[str], None]) -> AsyncIterator[Streams]:
    """Yield the streams of a connection to a child process, which is stopped at the end. `on_end` is called with the
    reason when the server ends the connection."""
    to_session, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    from_session, to_server = anyio.create_memory_object_stream[SessionMessage](0)

    async def reading() -> None:
        reason = ""
        async with to_session:
            try:
                async for message in _messages(child.output):
                    await to_session.send(SessionMessage(message))
            except TooLarge:
                reason = f"it sent a message of more than {format_size(LARGEST_MESSAGE)}"
            except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                return
            # While the session is told that the connection has ended.
            on_end(reason or await child.end_reason())

    async def writing() -> None:
        async with to_server:
            async for each in to_server:
                text = each.message.model_dump_json(by_alias=True, exclude_unset=True)
                try:
                    child.input.write(text.encode() + b"\n")
                    await child.input.drain()
                except (OSError, RuntimeError):
                    # Before the session is told that the connection has ended.
                    on_end(await child.end_reason())
                    await to_session.aclose()
                    return

    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(reading)
            tasks.start_soon(writing)
            try:
                yield from_server, from_session
            finally:
                tasks.cancel_scope.cancel()
    finally:
        for stream in (to_session, from_server, from_session, to_server):
            stream.close()
        with anyio.CancelScope(shield=True):
            await child.stop()


async def _messages(output: asyncio.StreamReader) -> AsyncIterator[JSONRPCMessage]:
    """Yield the messages of a server's output that concern a client of tools. Lines that are no messages are left out:
    some programs greet there."""
    slow = _Rate(LINES_PER_SECOND, _BURST, asyncio.sleep)
    async for line in _lines(output):
        # Answers too: those that were not asked for look alike.
        await slow.one()
        message = await _message(line)
        if message is None:
            continue
        if isinstance(message, JSONRPCNotification) and not _is_passed(message.method):
            continue
        yield message


def _is_passed(method: str) -> bool:
    return method in _PASSED or method.startswith(_LISTENING)


async def _lines(output: asyncio.StreamReader) -> AsyncIterator[bytes]:
    rest = bytearray()
    while part := await output.read(1 << 16):
        *lines, last = part.split(b"\n")
        for line in lines:
            rest += line
            if len(rest) > LARGEST_MESSAGE:
                raise TooLarge
            yield bytes(rest)
            rest = bytearray()
        rest += last
        if len(rest) > LARGEST_MESSAGE:
            raise TooLarge


class _Rate:
    """Waits as long as events come faster than `per_second`, after `burst` at once."""

    def __init__(self, per_second: float, burst: float, sleep: Callable[[float], Awaitable[object]]) -> None:
        self._per_second = per_second
        self._burst = burst
        self._sleep = sleep
        self._left = burst
        self._at = asyncio.get_running_loop().time()

    async def one(self) -> None:
        now = asyncio.get_running_loop().time()
        self._left = min(self._burst, self._left + (now - self._at) * self._per_second) - 1
        self._at = now
        if self._left < 0:
            await self._sleep(-self._left / self._per_second)


def request_id(text: bytes) -> RequestId | None:
    """Return the id at the beginning or the end of a message; None if there is none."""
    found = _HEAD.match(text) or _TAIL.search(text, max(0, len(text) - _TAIL_BYTES))
    read: RequestId | None = None if found is None else json.loads(found[1])
    return read


def unreadable(request: RequestId | None, what: str) -> JSONRPCError:
    """Return the error in place of a message that cannot be read, so that its call ends at once."""
    return JSONRPCError(jsonrpc="2.0", id=request, error=ErrorData(code=PARSE_ERROR, message=what))


async def _message(text: bytes) -> JSONRPCMessage | None:
    """Return a message; a large one is read in a thread. One that cannot be read is an error of the request that it
    answers; None if it names none."""
    return await asyncio.to_thread(_parse, text) if len(text) > OFF_THE_LOOP else _parse(text)


def _parse(text: bytes) -> JSONRPCMessage | None:
    what = excess(text, MOST_VALUES)
    if what is None:
        what = "it is not valid"
        # Invalid bytes become U+FFFD, and so do halves of characters: the answer may be readable apart from them.
        decoded = text.decode("utf-8", "replace")
        for prepare in (str, _without_surrogates):
            try:
                return jsonrpc_message_adapter.validate_json(prepare(decoded), by_name=False)
            except (ValueError, RecursionError):
                continue
    answered = request_id(text)
    return None if answered is None else unreadable(answered, what)


def _without_surrogates(text: str) -> str:
    return well_formed(json.dumps(json.loads(text), ensure_ascii=False))
