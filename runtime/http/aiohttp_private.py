"""Everything of aiohttp's that its documentation does not promise: a new minor version may change it.

`pyproject.toml` pins the minor version for this reason. Before it is raised, read the changes of aiohttp's
`web_protocol.py`, `base_protocol.py` and `http_parser.py`, and run `tests/runtime/http`. No other file names these.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

from aiohttp import StreamReader, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http import HttpRequestParser, RawRequestMessage
from aiohttp.http_exceptions import HttpProcessingError, LineTooLong
from aiohttp.http_parser import HttpRequestParserPy
from aiohttp.web_protocol import MAX_MSG_QUEUE_SIZE

__all__ = ["MAX_MSG_QUEUE_SIZE", "HttpProcessingError", "LineTooLong", "RawRequestMessage"]

HANDLER: Final = (
    *("_loop", "_messages", "_parser", "_reading_paused", "_pause_transport_reading", "_resume_transport_reading"),
    *("data_received", "eof_received", "finish_response", "handle_error", "pause_writing", "resume_reading"),
    *("resume_writing", "writing_paused"),
)
"""Attributes of `web.RequestHandler` that are used or overridden."""
REQUEST: Final = ("_payload", "_payload_writer", "_protocol")
"""Attributes of `web.BaseRequest` that `BareRequest` sets."""
SERVER: Final = ("_loop", "_make_request")
"""Attributes of `web.Server` that are used."""
RUNNER: Final = ("_make_server",)
"""Methods of `web.AppRunner` that are overridden."""

QueuedRequest = tuple[RawRequestMessage, StreamReader]


def parses_strictly() -> bool:
    """True if aiohttp has its parser in C (llhttp): its fallback in Python parses differently, and is not the one
    tested."""
    return HttpRequestParser is not HttpRequestParserPy


class RequestHandler(web.RequestHandler):
    """aiohttp's connection, with names for what `Connection` needs of it."""

    __slots__ = ()

    def parse_with(self, read_at_once: int, *, line: int, head: int, fields: int) -> None:
        """Parse with these limits, in bytes, and one request at a time: otherwise requests that arrive together with
        invalid input would be lost with it."""
        self._parser = HttpRequestParser(
            self,
            self._loop,
            read_at_once,
            max_line_size=line,
            max_field_size=head,
            max_headers=fields,
            payload_exception=web.RequestPayloadError,
            auto_decompress=False,
            max_msg_queue_size=1,
        )

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop."""
        return self._loop

    @property
    def queued(self) -> Sequence[QueuedRequest]:
        """Requests that were parsed and not handled yet."""
        return cast("deque[QueuedRequest]", self._messages)

    @property
    def reading_paused(self) -> bool:
        """True if nothing is read for now."""
        return self._reading_paused

    def pause_transport(self) -> None:
        """Stop reading from the socket."""
        self._pause_transport_reading()

    def resume_transport(self) -> None:
        """Read from the socket again."""
        self._resume_transport_reading()


class Server(web.Server):
    """aiohttp's server."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop."""
        return self._loop

    @property
    def make_request(self) -> Callable[..., web.BaseRequest]:
        """Returns aiohttp's own request from its parser's output."""
        return self._make_request


class AppRunner(web.AppRunner):
    """aiohttp's runner of an application, with a server of another class."""

    def server_of(self, made: web.Server) -> web.Server:
        """Return the server in place of aiohttp's."""
        raise NotImplementedError

    async def _make_server(self) -> web.Server:
        return self.server_of(await super()._make_server())


class BareRequest(web.BaseRequest):
    """aiohttp's request without the parts that only applications need: creating those costs as much as all checks of
    the head."""

    def __init__(
        self,
        message: RawRequestMessage,
        body: StreamReader,
        connection: web.RequestHandler,
        writer: AbstractStreamWriter,
        *_: Any,
    ) -> None:
        self.parsed = message
        self.body = self._payload = body
        self._protocol = connection
        self._payload_writer = writer
