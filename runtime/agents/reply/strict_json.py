"""Reads valid JSON (RFC 8259), with the limits and the marks of the relaxed reader."""

from __future__ import annotations

import json
from typing import Any, Final

from runtime.agents.reply.relaxed_json import MAX_DEPTH, BrokenJson, Reader, number

MAX_MARKS: Final = 200_000
"""Maximum number of braces, brackets and commas, those in strings included: they bound the time."""


def read_strictly(text: str) -> tuple[Any, Reader]:
    """Return the value of a text, which is nothing else, and what was assumed. Raises BrokenJson.

    Of JSON's extensions in Python none is accepted; numbers are as in the relaxed reader.
    """
    reader = Reader(text)

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) == len(pairs):
            return found
        found = {}
        for key, value in pairs:
            reader.add(found, key, value)
        return found

    if sum(map(text.count, "{[,")) > MAX_MARKS:
        raise BrokenJson(0)
    decode = json.JSONDecoder(object_pairs_hook=members, parse_int=number, parse_float=number, parse_constant=_refuse)
    try:
        value = decode.decode(text)
    except json.JSONDecodeError as error:
        raise BrokenJson(error.pos) from None
    except RecursionError:
        raise BrokenJson(0) from None
    if _deeper_than(value, MAX_DEPTH):
        raise BrokenJson(0)
    return value, reader


def _refuse(name: str) -> Any:
    raise BrokenJson(0)


def _deeper_than(value: Any, depth: int) -> bool:
    level = [value]
    for _ in range(depth + 1):
        level = [
            each
            for container in level
            if isinstance(container, dict | list)
            for each in (container.values() if isinstance(container, dict) else container)
        ]
        if not level:
            return False
    return True
