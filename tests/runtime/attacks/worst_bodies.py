"""JSON texts that take the longest to read for their size, and parameters of tools made of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any, Final

from runtime.api.rest.endpoints import Endpoint
from runtime.json_bounds import MOST_VALUES
from runtime.tools.tool import Tool

Bodies = Iterator[tuple[str, bytes]]
"""What a text consists of, and the text."""

_PATHS: Final = ("0189c3f0-0000-7000-8000-000000000000", "notes", "reviewer", "1", f"msg_{'0' * 32}_0_0")
"""Values of parameters in paths: the first one that has the form of a parameter is used."""
_TEXTS: Final = ("x, y ", "é", "[")
_LONG: Final = 1024 * 1024
"""Maximum characters of a text."""


def worst_values(size: int, values: int = MOST_VALUES, *, few: bool = False) -> Bodies:
    """Yield JSON values of about `size` bytes, most of them with `values` values at most, so that they are read. `few`:
    only those of which the most is made."""

    def repeated(unit: bytes, head: bytes = b"[", tail: bytes = b"0]", most: int = values) -> bytes:
        return head + unit * min(most, (size - len(head) - len(tail)) // len(unit)) + tail

    def members(key: bytes) -> bytes:
        count = min(values - 1, size // (len(key % 0) + 12))
        return b"{" + b",".join(b'"%b":1' % (key % number) for number in range(count)) + b"}"

    def text(unit: bytes, most: int = size) -> bytes:
        return repeated(unit, b'"', b'"', most // len(unit))

    yield "empty lists", repeated(b"[],", most=values // 2)
    yield "members", members(b"k%d")
    yield "one member", repeated(b"k", b'{"', b'":1}', size)
    yield "text", text(b"x")
    yield "escapes", text(rb"\u00e9")
    if few:
        return
    yield "values", repeated(b"1,", most=size)
    yield "levels", b"[" * (size // 2) + b"]" * (size // 2)
    yield "deep lists", repeated(b"[" * 450 + b"]" * 450 + b",", most=values // 452)
    yield "floats", repeated(b"1.7976931348623157e308,")
    yield "floats after half a character", repeated(b"1.7976931348623157e308,", rb'["\ud800",', most=values - 1)
    yield "long integers", repeated(b"9" * 4300 + b",")
    yield "integers of 640 digits", repeated(b"9" * 640 + b",")
    yield "digits", b"1" * size
    yield "long members", members(b"k" * max(1, size // values - 30) + b"%d")
    yield "members with escaped colons", members(rb"\u003a%d")
    yield "members with halves of characters", members(rb"\ud800%d")
    yield "escaped colons", text(rb"\u003a")
    yield "halves of characters", text(rb"\ud800", size // 2)
    yield "raw halves of characters", text(b"\xed\xa0\x80", size // 8)
    yield "quotes", repeated(b'"",', most=size)
    yield "no JSON", repeated(b"{ ", b"", b"", size)


def path_of(endpoint: Endpoint) -> str:
    """Return a path that the endpoint matches."""
    for values in product(_PATHS, repeat=len(endpoint.in_path)):
        if (found := endpoint.match(values)) is not None:
            return endpoint.path.format(**found)
    raise AssertionError(f"{endpoint.path} needs another value in _PATHS")


def worst_queries(endpoint: Endpoint) -> Iterator[str]:
    """Yield queries as long as a request line may be."""
    yield "a=1&" * 1900
    for name in endpoint.others:
        for unit in ("x", "%25", "%c3%a9", ",", "9"):
            yield f"{name}=" + unit * (7800 // len(unit))
        yield f"{name}=a&" * (7800 // (len(name) + 3))


def worst_parameters(tool: Tool, given: Mapping[str, Any]) -> Bodies:
    """Yield objects of parameters as large as the tool takes them. `given`: correct ones."""
    names = tool.parameter_names
    room, values = tool.largest - 1000, MOST_VALUES // (len(names) or 1) - 10
    forms = {"lists": b"1,", "lists of texts": b'"a",', "lists of objects": b'{"text":"a","k":[]},'}
    for form, unit in forms.items():
        parts = values // 3 if unit.startswith(b"{") else values
        every = b"[" + unit * min(parts, room // (len(names) or 1) // len(unit) - 2) + unit.rstrip(b",") + b"]"
        yield form, _object(dict.fromkeys(names, every))
    count = min(values, room // (len(names) or 1) // 12)
    every = b"{" + b",".join(b'"k%d":1' % number for number in range(count)) + b"}"
    yield "objects", _object(dict.fromkeys(names, every))
    correct = {name: json.dumps(value).encode() for name, value in given.items()}
    for name in names:
        kinds = list(_kinds(tool.schema["properties"][name]))
        most = min(max((each.get("maxLength", _LONG) for each in kinds if each["type"] == "string"), default=0), room)
        if most * 8 < room and most < 1000:
            continue
        for piece in _TEXTS:
            text = piece * (min(most, room // len(piece.encode())) // len(piece))
            yield f"{name} of {piece!r}", _object({**correct, name: json.dumps(text, ensure_ascii=False).encode()})


def _object(members: Mapping[str, bytes]) -> bytes:
    return b"{" + b",".join(json.dumps(name).encode() + b":" + value for name, value in members.items()) + b"}"


def _kinds(part: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the forms that a value may have."""
    if "type" in part:
        yield part
    for each in part.get("anyOf", ()):
        yield from _kinds(each)
