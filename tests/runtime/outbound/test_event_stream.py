"""Server-sent events: the data of each, from the lines of a stream."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from runtime.outbound.event_stream import event_data


async def data_of(text: bytes) -> list[bytes]:
    async def lines() -> AsyncIterator[bytes]:
        for line in text.split(b"\n"):
            yield line

    return [data async for data in event_data(lines())]


@pytest.mark.parametrize(
    ("text", "data"),
    [
        (b"data: a\n\ndata: b\n\n", [b"a", b"b"]),
        (b"data:a\n\ndata:  b\n\n", [b"a", b" b"]),
        (b"data: a\ndata: b\n\n", [b"a\nb"]),
        (b": ping\n\nevent: message\nid: 7\nretry: 10\ndata: a\n\n", [b"a"]),
        (b"event: ping\n\n", []),
        (b"data\n\n", [b""]),
        (b"data: a\n\ndata: b", [b"a", b"b"]),
        (b"", []),
    ],
)
async def test_the_data_of_each_event_is_found(text: bytes, data: list[bytes]) -> None:
    assert await data_of(text) == data


@pytest.mark.parametrize("text", [b"<html>", b'{"a": 5}', b"data: a\n\nother: b\n\n"])
async def test_what_is_no_event_is_an_error(text: bytes) -> None:
    with pytest.raises(ValueError, match="not a stream of events"):
        await data_of(text)
