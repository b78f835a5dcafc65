"""Progress of a long call as server-sent events."""

from __future__ import annotations

import asyncio
import gc
import json
from typing import Any

import pytest

from runtime.api.rest.event_stream import HEARTBEAT, accepts_events, progress_events
from runtime.errors import UsageError
from runtime.memory.indexing.progress import Progress


def events(chunks: list[bytes]) -> list[tuple[str, Any]]:
    """Return the name and data of each event, without comments."""
    texts = [text.splitlines() for text in b"".join(chunks).decode().split("\n\n")]
    fields = [dict(line.split(": ", 1) for line in lines if not line.startswith(":")) for lines in texts]
    return [(each["event"], json.loads(each["data"])) for each in fields if each]


async def test_the_newest_progress_is_sent_and_then_the_result() -> None:
    first = asyncio.Event()

    async def call(progress: Progress) -> Any:
        for number in range(50):
            progress("reading", number, 50)
        await first.wait()
        progress("embedding", 1, 2)
        return {"done": "ä\n"}

    stream = progress_events(call)
    chunks = [await anext(stream), await anext(stream)]
    first.set()
    chunks += [chunk async for chunk in stream]
    assert chunks[0] == HEARTBEAT
    assert events(chunks) == [
        ("progress", {"what": "reading", "done": 49, "total": 50}),
        ("progress", {"what": "embedding", "done": 1, "total": 2}),
        ("result", {"done": "ä\n"}),
    ]


async def test_a_call_without_progress_is_its_result() -> None:
    async def call(_progress: Progress) -> Any:
        return 1

    assert [chunk async for chunk in progress_events(call)] == [HEARTBEAT, b"event: result\ndata: 1\n\n"]


async def test_a_call_that_fails_at_once_raises_before_anything_is_sent() -> None:
    async def call(_progress: Progress) -> Any:
        await asyncio.sleep(0)
        raise UsageError("no")

    with pytest.raises(UsageError):
        await anext(progress_events(call))


async def test_a_call_that_fails_later_raises_behind_its_progress() -> None:
    first = asyncio.Event()

    async def call(progress: Progress) -> Any:
        progress("reading", 1, 2)
        await first.wait()
        raise UsageError("no")

    stream = progress_events(call)
    assert events([await anext(stream), await anext(stream)]) == [
        ("progress", {"what": "reading", "done": 1, "total": 2})
    ]
    first.set()
    with pytest.raises(UsageError):
        await anext(stream)


async def test_closing_it_cancels_the_call_and_waits_for_its_end() -> None:
    ended = []

    async def call(progress: Progress) -> Any:
        progress("reading", 1, 2)
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.05)
            ended.append(True)

    stream = progress_events(call)
    await anext(stream)
    await stream.aclose()
    assert ended == [True]


async def test_a_call_that_fails_after_its_cancellation_is_not_logged_as_unhandled() -> None:
    unhandled: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, about: unhandled.append(about))

    async def call(progress: Progress) -> Any:
        progress("reading", 1, 2)
        try:
            await asyncio.Event().wait()
        finally:
            raise UsageError("the rollback failed")

    stream = progress_events(call)
    await anext(stream)
    await stream.aclose()
    del stream
    await asyncio.sleep(0)
    gc.collect()
    assert unhandled == []


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (None, False),
        ("", False),
        ("*/*", False),
        ("application/json", False),
        ("text/event-stream", True),
        ("application/json;q=0.5, Text/Event-Stream; q=1", True),
        ("application/json, text/event-stream", True),
        ("text/event-stream;q=0.001", True),
        ("text/event-stream;q=0", False),
        ("text/event-stream; Q=0.000, application/json", False),
        ("application/json, text/event-stream;q=0.9", False),
        ("text/event-stream;q=0.9, */*", False),
        ("text/event-stream;q=0.9, */*;q=0.1", True),
        ("application/json;q=0, text/event-stream;q=0.5, */*", True),
    ],
)
def test_events_are_sent_to_clients_that_name_their_type_and_do_not_prefer_json(
    accept: str | None, expected: bool
) -> None:
    assert accepts_events(accept) is expected
