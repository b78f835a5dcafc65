"""Server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Final

_FIELDS: Final = frozenset({b"data", b"event", b"id", b"retry", b""})


async def event_data(lines: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """Yield the data of each event, given the lines of a stream without their ends.

    The types of events are not used. An event at the end of the stream counts also without the empty line after it,
    which some services do not send. Raises ValueError for a line that is no field of an event.
    """
    data: list[bytes] = []
    async for line in lines:
        if line:
            field, _, value = line.partition(b":")
            if field not in _FIELDS:
                raise ValueError("not a stream of events")
            if field == b"data":
                data.append(value.removeprefix(b" "))
        elif data:
            yield b"\n".join(data)
            data = []
    if data:
        yield b"\n".join(data)
