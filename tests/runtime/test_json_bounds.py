"""The size of a JSON text before it is parsed."""

from __future__ import annotations

import json

from runtime.json_bounds import MOST_DEPTH, MOST_DIGITS, MOST_VALUES, excess
from tests.cases import each_case


@each_case(
    "value",
    [
        {"text": '[{,\\"' * MOST_VALUES},
        {"text": "\\" * 1_000_001, "more": ["a,b", "]"]},
        [0] * (MOST_VALUES - 1),
        {str(number): [] for number in range(MOST_VALUES // 2 - 1)},
        json.loads("[" * MOST_DEPTH + "]" * MOST_DEPTH),
        [[[]]] * 1000,
        ["1" * MOST_DIGITS, "1" * 300_000, '[,"1' * 100_000, 10 ** (MOST_DIGITS - 1)],
        "",
        7,
    ],
)
def test_a_text_with_few_parts_can_be_parsed(value: object) -> None:
    assert excess(json.dumps(value, separators=(",", ":")).encode()) is None


@each_case(
    ("text", "what"),
    [
        (b"[" + b"0," * MOST_VALUES + b"0]", f"it has more than {MOST_VALUES:,} values"),
        (b"[" + b"[]," * (MOST_VALUES // 2) + b"0]", f"it has more than {MOST_VALUES:,} values"),
        (b"[" + b'"a,",' * MOST_VALUES + b"0]", f"it has more than {MOST_VALUES:,} values"),
        (b'{"a":' * (MOST_DEPTH + 1) + b"1", "it is nested more than 500 deep"),
        (b"[" * 1_000_000, "it is nested more than 500 deep"),
        (b'["\\"[",' + b"[" * MOST_DEPTH, "it is nested more than 500 deep"),
        (b'["1' + b" " * 300_000 + b'",' + b"1" * (MOST_DIGITS + 1), "it has a number of more than 640 digits"),
    ],
)
def test_a_text_with_too_many_parts_is_found(text: bytes, what: str) -> None:
    assert excess(text) == what


@each_case(
    "text",
    [
        b'"' + b'\\"' * 1_000_000,
        b'["' * 1_000_000,
        b"\\" * 1_000_000,
        b'"\\' + b"[" * 999,
        b"1" * 640 + b" 1" * 1_000_000,
    ],
)
def test_a_text_that_is_not_json_ends(text: bytes) -> None:
    excess(text)
