"""Server-sent events (WHATWG HTML, section 9.2), and the events of a call that reports progress."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, NamedTuple

from runtime.api.rest.problem import Problem
from runtime.memory.indexing.progress import Progress

CONTENT_TYPE: Final = "text/event-stream"
_JSON: Final = ("application/json", "application/*", "*/*")
"""The media ranges with JSON, the most specific first."""
_WEIGHT: Final = re.compile(r";\s*q=(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)\s*(?:;|$)", re.IGNORECASE)
HEARTBEAT: Final = b":\n\n"
"""A comment, which clients ignore."""
PROGRESS_SECONDS: Final = 0.1
"""Minimum time between two progress events; only the newest step is sent."""
BEGIN_SECONDS: Final = 1.0
"""Seconds during which a failed call is answered with its own status; the stream begins after that."""


class ServerSentEvent(NamedTuple):
    """One event. `data`: a JSON value. `id`: which a client that connects again names in `Last-Event-ID`."""

    name: str
    data: Any
    id: int | None = None

    def encode(self) -> bytes:
        """Return the event as it is sent. JSON in ASCII has no line breaks."""
        known = "" if self.id is None else f"id: {self.id}\n"
        return f"{known}event: {self.name}\ndata: {json.dumps(self.data)}\n\n".encode()


def accepts_events(accept: str | None) -> bool:
    """Return True if the header `Accept` names the type of event streams, and does not prefer JSON by its weights
    (RFC 9110, section 12.5.1)."""
    weights = dict(map(_media_weight, (accept or "").split(",")))
    json_weight = next((weights[each] for each in _JSON if each in weights), 0.0)
    return 0 < weights.get(CONTENT_TYPE, 0.0) >= json_weight


def _media_weight(media_range: str) -> tuple[str, float]:
    weight = _WEIGHT.search(media_range)
    return media_range.partition(";")[0].strip().lower(), 1.0 if weight is None else float(weight[1])


async def progress_events(call: Callable[[Progress], Awaitable[Any]]) -> AsyncGenerator[bytes]:
    """Run `call` in a task of its own, which returns a JSON value, and yield its progress as it is sent: a comment when
    it has begun, `progress` events, then one `result`.

    Raises what the call raises; before the comment if it fails at once. Closing the generator cancels the call and
    waits for its end.
    """
    step: tuple[str, int, int] | None = None
    changed = asyncio.Event()

    def note(what: str, done: int, total: int) -> None:
        nonlocal step
        step = (what, done, total)
        changed.set()

    task = asyncio.ensure_future(call(note))
    task.add_done_callback(lambda _: changed.set())
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(BEGIN_SECONDS):
                await changed.wait()
        if task.done():
            task.result()
        yield HEARTBEAT
        while not task.done() or step is not None:
            await changed.wait()
            changed.clear()
            if step is not None:
                (what, done, total), step = step, None
                yield ServerSentEvent("progress", {"what": what, "done": done, "total": total}).encode()
            if not task.done():
                await asyncio.wait([task], timeout=PROGRESS_SECONDS)
        yield ServerSentEvent("result", task.result()).encode()
    finally:
        # Its error is retrieved, so that it is not logged as unhandled.
        task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        if not task.done():
            task.cancel()
            await asyncio.wait([task])


def error_event(problem: Problem) -> bytes:
    """Return the last event of a stream that fails: the problem that would be the answer otherwise."""
    return ServerSentEvent("error", problem.json()).encode()


FAILED: Final = error_event(Problem("internal", "see the daemon's log"))
STOPPED: Final = error_event(Problem("provider_unavailable", "the daemon is stopping", hint="try again"))
