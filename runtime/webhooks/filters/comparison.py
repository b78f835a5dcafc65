"""Comparisons of a filter with one value: a node of a JSON body, or a header's text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dslc.blocks.filter import Condition
from dslc.blocks.values.pattern import compile_pattern

Test = Callable[[Any], bool]
"""Takes a value of a decoded payload, or a header's text."""

Scalar = str | int | float | bool


def compile_tests(rule: Condition) -> list[Test]:
    """Return the tests that one value must pass; none for a rule that only tests existence.

    Raises ValueError for a pattern that RE2 does not support.
    """
    tests: list[Test] = []
    if rule.equals is not None:
        tests.append(_equals((rule.equals,)))
    if rule.one_of:
        tests.append(_equals(rule.one_of))
    if rule.contains is not None:
        tests.append(_contains(rule.contains))
    if rule.matches is not None:
        tests.append(_matches(rule.matches))
    return tests


def as_texts(rule: Condition) -> Condition:
    """Return the rule for a header, whose value is always text: numbers and booleans as JSON writes them."""
    one_of = tuple(map(_text, rule.one_of))
    equals = None if rule.equals is None else _text(rule.equals)
    return rule.model_copy(update={"equals": equals, "one_of": one_of})


def _text(value: Scalar) -> str:
    return value if isinstance(value, str) else format_scalar(value)


def format_scalar(value: bool | float) -> str:
    """Format a boolean or a number as JSON: `true`, `1`, `1.5`."""
    return ("true" if value else "false") if isinstance(value, bool) else repr(value)


def _equals(wanted: Sequence[Scalar]) -> Test:
    """Return a test for equality; JSON numbers and booleans compare as written.

    Text equals a JSON string of the same characters, and a number or boolean written so: `"42"` matches 42 and `"true"`
    matches true. A number equals only numbers of its exact value (1, 1.0 and 1e0 are equal, -0 is 0, whole numbers of
    any length keep every digit); `true` equals only true. null, objects and arrays equal nothing.
    """
    texts = frozenset(each for each in wanted if isinstance(each, str))
    truths = frozenset(each for each in wanted if isinstance(each, bool))
    # Python compares int and float by exact value, and equal ones have the same hash.
    numbers = frozenset(each for each in wanted if not isinstance(each, str | bool))

    def test(node: Any) -> bool:
        if isinstance(node, str):
            return node in texts
        if isinstance(node, bool):
            return node in truths or (bool(texts) and format_scalar(node) in texts)
        if isinstance(node, int | float):
            return node in numbers or (bool(texts) and format_scalar(node) in texts)
        return False

    return test


def _contains(wanted: str) -> Test:
    """Return a test for a string that contains this text, or an array with an equal member."""
    member = _equals((wanted,))

    def test(node: Any) -> bool:
        if isinstance(node, str):
            return wanted in node
        return isinstance(node, list) and any(map(member, node))

    return test


def _matches(pattern: str) -> Test:
    """Return a test for a string that the pattern matches anywhere; linear in its length (RE2)."""
    search = compile_pattern(pattern).search

    def test(node: Any) -> bool:
        try:
            # On bytes, which need no translation of offsets into characters: a third of the time.
            return isinstance(node, str) and search(node.encode()) is not None
        except UnicodeEncodeError:  # a header may contain bytes that are not text
            return False

    return test
