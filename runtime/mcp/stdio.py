"""The protocol on standard input and output: one JSON-RPC message a line (MCP, transports, stdio)."""

from __future__ import annotations

import fcntl
import json
import os
import re
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.lowlevel import Server
from mcp.shared.message import SessionMessage
from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)

from runtime.mcp.side_thread import SideThread
from runtime.memory.item import well_formed

LONGEST_LINE: Final = 64 * 1024 * 1024
"""Maximum bytes of one message; longer ones are skipped and refused."""

ANSWER_SECONDS: Final = 30.0
"""Seconds in which requests sent before the end of input are answered."""

_CHUNK: Final = 256 * 1024
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")

Incoming = MemoryObjectSendStream[SessionMessage | Exception]
Outgoing = MemoryObjectReceiveStream[SessionMessage]


async def serve_stdio(server: Server[Any]) -> None:
    """Serve the client on standard input and output until it closes the input and has the answers to its earlier
    requests, or no longer reads.

    The SDK's own transport ignores lines that are not messages, reads lines of any length, and cannot be stopped while
    it waits for a line.
    """
    with _reserve_stdio() as (source, sink):
        to_server, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outgoing, to_client = anyio.create_memory_object_stream[SessionMessage](0)
        async with anyio.create_task_group() as tasks:
            refused, open_requests = outgoing.clone(), _OpenRequests()
            tasks.start_soon(_write, to_client, sink, open_requests, tasks.cancel_scope.cancel)
            tasks.start_soon(_read, source, to_server, refused, open_requests)
            await server.run(incoming, outgoing, server.create_initialization_options())
            tasks.cancel_scope.cancel()


class _OpenRequests:
    """The requests that have not been answered yet."""

    def __init__(self) -> None:
        self._open: set[str | int] = set()
        self._none = anyio.Event()

    def add_request(self, message: JSONRPCMessage) -> None:
        """Handle a message of the client: a request, or a cancellation."""
        if isinstance(message, JSONRPCRequest):
            self._open.add(message.id)
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            self._close((message.params or {}).get("requestId"))

    def close_answered(self, message: JSONRPCMessage) -> None:
        """Handle a message to the client."""
        if isinstance(message, (JSONRPCResponse, JSONRPCError)):
            self._close(message.id)

    def _close(self, request_id: Any) -> None:
        if isinstance(request_id, (str, int)):
            self._open.discard(request_id)
        if not self._open:
            self._none.set()

    async def wait(self) -> None:
        """Wait until every request is answered, `ANSWER_SECONDS` at most; no more requests arrive meanwhile."""
        if self._open:
            self._none = anyio.Event()
            with anyio.move_on_after(ANSWER_SECONDS):
                await self._none.wait()


async def _read(
    source: int, to_server: Incoming, refused: MemoryObjectSendStream[SessionMessage], open_requests: _OpenRequests
) -> None:
    async with to_server, refused:
        async for read in _lines(source):
            line = None if read is None else _well_formed(read)
            try:
                if line is None:
                    raise ValueError(f"a message can have at most {LONGEST_LINE:,} bytes")
                message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                # The SDK takes a request for a notification if its id is neither text nor a whole number.
                if isinstance(message, JSONRPCNotification) and "id" in json.loads(line):
                    raise ValueError("an id is text or a whole number")
            except ValueError as error:
                await refused.send(SessionMessage(_error_answer(line, error)))
                continue
            with suppress(anyio.BrokenResourceError):
                open_requests.add_request(message)
                await to_server.send(SessionMessage(message))
        await open_requests.wait()


def _error_answer(line: bytes | None, error: ValueError) -> JSONRPCError:
    """Return the answer to a line that is not a message: to the request that it probably was (JSON-RPC 2.0, 5), since
    its client waits for an answer."""
    code, said, request_id = PARSE_ERROR, str(error), None
    if line is not None:
        try:
            read = json.loads(line)
        except (ValueError, RecursionError):
            said = "the line is not JSON"
        else:
            code, said = INVALID_REQUEST, "the line is JSON, but not a JSON-RPC 2.0 message"
            request_id = _request_id(read)
    return JSONRPCError(jsonrpc="2.0", id=request_id, error=ErrorData(code=code, message=said))


def _request_id(read: Any) -> str | int | None:
    """Return the id of a message that may have been meant as a request."""
    request_id = read.get("id") if isinstance(read, dict) and "method" in read else None
    if isinstance(request_id, str):
        return well_formed(request_id)
    return request_id if isinstance(request_id, int) and not isinstance(request_id, bool) else None


def _well_formed(line: bytes) -> bytes:
    """Return the line with U+FFFD for each lone surrogate: a text cut inside an emoji ends in one, which is invalid
    Unicode."""
    if not _SURROGATE.search(line):
        return line
    try:
        return well_formed(json.dumps(json.loads(line), ensure_ascii=False)).encode()
    except (ValueError, RecursionError):
        return line


async def _lines(source: int) -> AsyncIterator[bytes | None]:
    """Yield the lines that are not empty; None for one that is too long."""
    parts: list[bytes] = []
    size = 0
    reading = SideThread("standard input")
    while chunk := await reading.call(os.read, source, _CHUNK):
        *ended, rest = chunk.split(b"\n")
        for end in ended:
            size += len(end)
            line = None if size > LONGEST_LINE else b"".join([*parts, end])
            parts.clear()
            size = 0
            if line is None or line.strip():
                yield line
        size += len(rest)
        if size > LONGEST_LINE:
            parts.clear()
        elif rest:
            parts.append(rest)
    if size:
        yield None if size > LONGEST_LINE else b"".join(parts)


async def _write(to_client: Outgoing, sink: int, open_requests: _OpenRequests, end: Callable[[], None]) -> None:
    writing = SideThread("standard output")
    async with to_client:
        async for each in to_client:
            line = each.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
            try:
                await writing.call(_write_all, sink, line)
            except OSError:
                # The client has disconnected.
                end()
            open_requests.close_answered(each.message)


def _write_all(sink: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(sink, view) :]


@contextmanager
def _reserve_stdio() -> Iterator[tuple[int, int]]:
    """Reserve standard input and output for the protocol: other writes to standard output go to the log."""
    sys.stdout.flush()
    source = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3)
    sink = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 3)
    for each in (source, sink):
        os.set_blocking(each, True)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    # Left open: a thread may still be reading, and the process ends with them.
    yield source, sink
