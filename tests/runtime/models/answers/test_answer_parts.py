"""The parts of an answer: events, lines of JSON, or one document."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from runtime.models.answers.answer_parts import END, answer_parts

A, B = {"a": 1}, {"b": 2}


async def parts_of(text: bytes) -> list[Any]:
    async def lines() -> AsyncIterator[bytes]:
        for line in text.split(b"\n"):
            yield line.removesuffix(b"\r")

    return [part async for part in answer_parts(lines())]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (b'data: {"a":1}\n\ndata: {"b":2}\n\n', [A, B]),
        (b'data:{"a":1}\n\ndata:  {"b":2}\n\n', [A, B]),
        (b'data: {\ndata: "a":1}\n\n', [A]),
        (b'data: {"a":1}\ndata: {"b":2}\ndata: [DONE]\n', [A, B, END]),
        (b': ping\n\nevent: message\nid: 7\nretry: 10\nfoo-bar: 5\ndata: {"a":1}\n\n', [A]),
        (b"event: ping\n\ndata:\n\ndata\n\n", []),
        (b'data: {"a":1}\n\ndata: {"b":2}', [A, B]),
        (b'\xef\xbb\xbfdata: {"a":1}\r\n\r\ndata: [DONE]\r\n\r\n', [A, END]),
        (b'data: {"a":1}\r\rdata: {"b":2}\r\r', [A, B]),
        (b'data: {"a":1}\n\ndata: [DONE]\n\ndata: {"b":2}\n\n<html>', [A, END]),
        (b'{"a":1}', [A]),
        (b'\n   \n \n  {\n "a": [\n {"b":\n 2}\n],\r\n "c": null}\n', [{"a": [B], "c": None}]),
        (b'\xef\xbb\xbf{"a":1}\n{"b":2}\n', [A, B]),
        (b'data: {"a":1}\n\n{"b":2}\n', [A, B]),
        (b"", []),
    ],
)
async def test_the_parts_of_an_answer_are_found_in_each_of_its_forms(text: bytes, parts: list[Any]) -> None:
    assert await parts_of(text) == parts


@pytest.mark.parametrize(
    "text",
    [b"<html>", b"Internal Server Error", b"data: {\n\n", b'{"a": 5', b"data: NaN\n\n", b'{"a": NaN}', b'"text"'],
)
async def test_what_is_no_part_is_an_error(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        await parts_of(text)
