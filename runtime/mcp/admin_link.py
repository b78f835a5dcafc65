"""One request to the process that owns the root, over its admin socket. HTTP/1.0, so that the end of the connection
ends the answer.

`http.client` cannot be cancelled, and aiohttp takes as long to load as a whole `symbi mcp` may take to answer.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from runtime.api.admin.protocol import (
    ABANDON_HEADER,
    CLIENT_HEADER,
    LINES,
    MISDIRECTED,
    ROOT_HEADER,
    OperationOutcome,
    read_line,
    read_whole,
)
from runtime.mcp.backend import BackendFailure, Progress

_CHUNK: Final = 256 * 1024
_NO_OWNER_ERRORS: Final = (FileNotFoundError, ConnectionRefusedError, ConnectionResetError, BrokenPipeError)


class OwnerGone(Exception):  # noqa: N818 - it says what is the case
    """The root's owner does not respond. `was_sent`: the operation may have started."""

    def __init__(self, *, was_sent: bool) -> None:
        super().__init__("the process that owns the root does not answer")
        self.was_sent = was_sent


async def ask(
    address: str, root: str, name: str, parameters: Mapping[str, Any], progress: Progress | None = None
) -> Any:
    """Return the answer of the operation `name` of the socket at `address`, for the root with the identity `root`.

    Raises OwnerGone, and BackendFailure if the operation failed. Cancelling this cancels the operation.
    """
    try:
        reader, writer = await asyncio.open_unix_connection(address)
    except (*_NO_OWNER_ERRORS, BlockingIOError):
        raise OwnerGone(was_sent=False) from None
    except OSError as error:
        message = f"the admin socket {address} cannot be used: {error.strerror or error}"
        raise BackendFailure({"code": "provider_unavailable", "message": message}) from None
    try:
        body = json.dumps({"parameters": dict(parameters)}).encode()
        head = (
            f"POST /v1/{name} HTTP/1.0\r\nHost: symbiont\r\nContent-Type: application/json\r\nAccept: {LINES}\r\n"
            f"{ABANDON_HEADER}: yes\r\n{CLIENT_HEADER}: mcp\r\n{ROOT_HEADER}: {root}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        writer.write(head.encode() + body)
        await writer.drain()
        return await _answer(reader, root, progress)
    except (*_NO_OWNER_ERRORS, asyncio.IncompleteReadError, ValueError):
        raise OwnerGone(was_sent=True) from None
    finally:
        writer.close()


async def _answer(reader: asyncio.StreamReader, root: str, progress: Progress | None) -> Any:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    status = int(head.split(" ", 2)[1])
    if f"\r\n{ROOT_HEADER.lower()}: {root}\r\n" not in head or status == MISDIRECTED:
        raise OwnerGone(was_sent=False)
    outcome = await _outcome(reader, progress) if LINES in head else read_whole(status, await reader.read(-1) or b"{}")
    if outcome is None:
        raise OwnerGone(was_sent=True)
    if outcome.failed:
        raise _failure_of(outcome.content)
    return outcome.content


async def _outcome(reader: asyncio.StreamReader, progress: Progress | None) -> OperationOutcome | None:
    """Return the outcome in the last line; None if the connection ended before it."""
    async for line in _lines(reader):
        outcome = read_line(line, progress)
        if outcome is not None:
            return outcome
    return None


async def _lines(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Yield lines of any length: `StreamReader.readline` has a limit."""
    parts: list[bytes] = []
    while chunk := await reader.read(_CHUNK):
        *ended, rest = chunk.split(b"\n")
        for end in ended:
            yield b"".join([*parts, end])
            parts.clear()
        if rest:
            parts.append(rest)


def _failure_of(error: Mapping[str, Any]) -> BackendFailure:
    """Return the failure of an operation's error; errors of the admin socket itself have no code."""
    code = "invalid_params" if error.get("exit_code") == 2 else "provider_unavailable"
    known = {"code": code, "message": error.get("message", "it failed")}
    hint = {"hint": error["hint"]} if error.get("hint") else {}
    return BackendFailure(error.get("failure") or known | hint)
