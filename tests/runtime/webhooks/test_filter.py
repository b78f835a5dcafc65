from __future__ import annotations

from typing import Any

import pytest

from dslc.blocks import Filter
from runtime.webhooks import compile_filters

BODY: Any = {
    "action": "opened",
    "number": 42,
    "ratio": 1.5,
    "one": 1.0,
    "draft": False,
    "merged": True,
    "none": None,
    "text": "42",
    "word": "true",
    "labels": ["bug", "help wanted", 7],
    "items": [{"name": "a", "n": 1}, {"name": "b", "n": 2}],
    "object": {"bug": 1},
}


def wanted(path: str, **says: Any) -> bool:
    compiled = compile_filters([Filter(json_path=path, **says)])
    assert compiled is not None
    return compiled(BODY)


@pytest.mark.parametrize(
    ("path", "equals"),
    [
        ("$.action", "opened"),
        ("$.number", 42),
        ("$.number", 42.0),
        ("$.one", 1),
        ("$.ratio", 1.5),
        ("$.draft", False),
        ("$.merged", True),
        # Numbers and truth values compare as written.
        ("$.number", "42"),
        ("$.ratio", "1.5"),
        ("$.merged", "true"),
        ("$.draft", "false"),
        ("$.text", "42"),
        ("$.word", "true"),
        ("$.items[*].name", "b"),
        ("$..n", 2),
        ("$.labels[-1]", 7),
    ],
)
def test_equals_finds_its_value(path: str, equals: object) -> None:
    assert wanted(path, equals=equals)


@pytest.mark.parametrize(
    ("path", "equals"),
    [
        ("$.action", "Opened"),
        ("$.action", "opened "),
        ("$.action", "open"),
        ("$.number", "42.0"),
        ("$.number", 43),
        ("$.text", 42),
        ("$.word", True),
        ("$.merged", 1),
        ("$.merged", "True"),
        ("$.merged", "1"),
        ("$.one", True),
        ("$.draft", 0),
        ("$.draft", ""),
        ("$.none", "null"),
        ("$.none", ""),
        ("$.labels", "bug"),
        ("$.object", "bug"),
        ("$.missing", ""),
        ("$.items[*].name", "c"),
    ],
)
def test_equals_finds_nothing_else(path: str, equals: object) -> None:
    assert not wanted(path, equals=equals)


@pytest.mark.parametrize(
    ("path", "contains"),
    [("$.action", "pen"), ("$.labels", "bug"), ("$.labels", "7"), ("$.labels[*]", "wanted"), ("$.items[*].name", "a")],
)
def test_contains_finds_a_part_of_a_text_or_a_member_of_a_list(path: str, contains: str) -> None:
    assert wanted(path, contains=contains)


@pytest.mark.parametrize(
    ("path", "contains"),
    [
        ("$.labels", "help"),
        ("$.number", "4"),
        ("$.object", "bug"),
        ("$.none", ""),
        ("$.missing", ""),
        ("$.action", "x"),
    ],
)
def test_contains_finds_nothing_else(path: str, contains: str) -> None:
    assert not wanted(path, contains=contains)


def test_one_node_must_pass_both_tests_of_a_filter() -> None:
    assert wanted("$.items[*].name", equals="a", contains="a")
    assert not wanted("$.items[*].name", equals="a", contains="b")


def test_every_filter_must_match() -> None:
    opened, merged, closed = (
        Filter(json_path="$.action", equals="opened"),
        Filter(json_path="$.merged", equals=True),
        Filter(json_path="$.action", equals="closed"),
    )
    both, neither = compile_filters([opened, merged]), compile_filters([opened, closed])
    assert both is not None
    assert neither is not None
    assert both(BODY)
    assert not neither(BODY)


def test_without_filters_there_is_nothing_to_ask() -> None:
    assert compile_filters([]) is None


@pytest.mark.parametrize("payload", [None, [], {}, "opened", 1, [{"action": "opened"}]])
def test_a_payload_of_another_shape_is_not_wanted(payload: object) -> None:
    compiled = compile_filters([Filter(json_path="$.action", equals="opened")])
    assert compiled is not None
    assert not compiled(payload)
