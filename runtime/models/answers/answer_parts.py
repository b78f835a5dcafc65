"""The parts of an answer: a stream of events, lines of JSON, or one JSON document, whichever the service sends.

Events are those of https://html.spec.whatwg.org/multipage/server-sent-events.html. Some services answer a request for a
stream with a document, or the other way round.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, Final

from runtime.models.answers.characters import decoded

END: Final = object()
"""The mark by which OpenAI's API ends a stream."""

_END_MARK: Final = b"[DONE]"
_BOM: Final = b"\xef\xbb\xbf"
_TURN: Final = 10_000
"""Lines after which others have their turn: a part that has arrived may have a hundred thousand."""
_FIELD: Final = re.compile(rb"[\w-]*\Z")


async def answer_parts(lines: AsyncIterator[bytes]) -> AsyncGenerator[Any, None]:
    """Yield the decoded parts of an answer, given its lines without their ends; `END` for the mark of the end, after
    which nothing is read.

    The types of events and fields besides `data` are not used. An event at the end of the stream counts also without
    the empty line after it, which some services do not send. Raises ValueError and RecursionError for anything else
    than JSON and events.
    """
    data: list[bytes] = []
    document: list[bytes] = []
    async for line in _lines(lines):
        parts: list[Any] = []
        if document:
            document.append(line)
        elif not (text := line.strip()):
            parts, data = _event(data), []
        elif text.startswith((b"{", b"[")):
            try:
                parts = [_part_of(text)]
            except ValueError:
                document.append(line)
        elif (value := _data(line)) is not None:
            data.append(value)
        for part in parts:
            yield part
            if part is END:
                return
    for part in [_part_of(b"\n".join(document))] if document else _event(data):
        yield part


def _data(line: bytes) -> bytes | None:
    """Return the data in a line of an event; None for another field. Raises ValueError for a line that is no field."""
    field, _, value = line.partition(b":")
    if not _FIELD.match(field):
        raise ValueError("not a stream of events")
    return value if field == b"data" else None


def _event(data: list[bytes]) -> list[Any]:
    """Return the parts in the data of one event: some services leave out the empty lines between events."""
    given = [each for each in data if each.strip()]
    try:
        return [_part_of(b"\n".join(given))] if given else []
    except ValueError:
        if len(given) == 1:
            raise
        return [_part_of(each) for each in given]


async def _lines(lines: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """Yield the lines, of which a lone CR ends one too, without a mark of the byte order."""
    number = 0
    async for line in lines:
        whole = line if number else line.removeprefix(_BOM)
        for each in whole.split(b"\r") if b"\r" in whole else (whole,):
            yield each
            number += 1
            if number % _TURN == 0:
                await asyncio.sleep(0)


def _part_of(text: bytes) -> Any:
    text = text.strip()
    return END if text == _END_MARK else decoded(text)
