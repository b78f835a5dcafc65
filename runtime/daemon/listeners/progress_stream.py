"""Answers with progress, as lines of JSON, see `runtime.api.admin.protocol`. A line is sent every few seconds in any
case, so that the client knows that the daemon is working."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, Final

import structlog
from aiohttp import web

from runtime.api.admin.operations import error_json
from runtime.api.admin.protocol import ABANDON_HEADER, LINES
from runtime.api.admin.state import Event
from runtime.errors import SymbiontError
from runtime.http.stream import client_left
from runtime.memory.indexing.progress import Progress
from runtime.tools.tool import Tool

log = structlog.get_logger("symbiont.admin")

LOOK_SECONDS: Final = 0.1
BEAT_SECONDS: Final = 5.0

Operation = Callable[[Progress], Awaitable[dict[str, Any]]]


class Events:
    """Events of a running operation that wait to be sent."""

    def __init__(self) -> None:
        self.arrived = asyncio.Event()
        self._unsent: list[Event] = []

    def tell(self, event: Event) -> None:
        """Send an event soon. Returns at once."""
        self._unsent.append(event)
        self.arrived.set()

    def take(self) -> list[Event]:
        """Return the events since the last call."""
        taken, self._unsent = self._unsent, []
        self.arrived.clear()
        return taken


async def stream_answer(
    request: web.Request, operation: Operation, tool: Tool | None, events: Events | None = None
) -> web.StreamResponse:
    """Run the operation and send its answer. It is completed even if the client left, unless the request has the
    abandon header; a stop of the daemon ends it, and this waits for its end.

    `tool`: None if it is not a tool. `events`: what the operation tells; all are sent at once and in order, whereas of
    progress only the newest is.
    """
    response = web.StreamResponse(headers={"Content-Type": LINES})
    await response.prepare(request)
    news: list[tuple[str, int, int]] = []
    events = Events() if events is None else events
    task = asyncio.ensure_future(operation(lambda *step: news.append(step)))
    try:
        await _tell(
            response,
            task,
            news,
            events,
            (lambda: client_left(request)) if ABANDON_HEADER in request.headers else lambda: False,
        )
        last = {"result": await task}
    except asyncio.CancelledError:
        if not task.cancelled() or not client_left(request):
            raise
        last = {}
    except SymbiontError as error:
        last = {"error": error_json(error, tool)}
    except Exception:
        name = request.match_info["operation"]
        log.exception("operation_failed", operation=name)
        last = {"error": {"message": f"{name} failed; see the daemon's log", "hint": None, "exit_code": 1}}
    finally:
        # Its error is retrieved, so that it is not logged as unhandled.
        task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        if not task.done():
            task.cancel()
            await asyncio.wait([task])
    await _write(response, last)
    return response


async def _tell(
    response: web.StreamResponse,
    task: asyncio.Future[Any],
    news: list[tuple[str, int, int]],
    events: Events,
    has_left: Callable[[], bool],
) -> None:
    """Send events and the newest progress while the task runs; cancel the task when `has_left` is true."""
    loop = asyncio.get_running_loop()
    last = loop.time()
    cancelled = False
    while not await _wait_for_end(task, events):
        await _send(response, events)
        if news or loop.time() - last > BEAT_SECONDS:
            await _write(response, {"progress": news[-1]} if news else {})
            news.clear()
            last = loop.time()
        if not cancelled and has_left():
            # Cancelled only once, so that its cleanup, such as a rollback, is not interrupted.
            cancelled = task.cancel()
    await _send(response, events)
    if news:
        await _write(response, {"progress": news[-1]})


async def _wait_for_end(task: asyncio.Future[Any], events: Events) -> bool:
    """Wait for events or the end of the task, but not for long. True: the task has ended."""
    arrived = asyncio.ensure_future(events.arrived.wait())
    try:
        await asyncio.wait([task, arrived], timeout=LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
    finally:
        arrived.cancel()
    return task.done()


async def _send(response: web.StreamResponse, events: Events) -> None:
    for event in events.take():
        await _write(response, {"event": event})


async def _write(response: web.StreamResponse, line: dict[str, Any]) -> None:
    try:
        await response.write(json.dumps(line).encode() + b"\n")
    except ConnectionError:
        # The client left; the operation continues.
        return
