"""How a filter compares one value that it found: a node of a JSON body, or a header's text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dslc.blocks.filter import Condition
from dslc.blocks.values.pattern import compile_pattern

Test = Callable[[Any], bool]
"""Takes a value out of a decoded payload, or a header's text."""

Scalar = str | int | float | bool


def compile_tests(rule: Condition) -> list[Test]:
    """What one and the same value must pass; nothing for a rule that only asks whether something exists.

    Raises ValueError for a pattern that RE2 does not take.
    """
    tests: list[Test] = []
    if rule.equals is not None:
        tests.append(_among((rule.equals,)))
    if rule.one_of:
        tests.append(_among(rule.one_of))
    if rule.contains is not None:
        tests.append(_contains(rule.contains))
    if rule.matches is not None:
        tests.append(_matches(rule.matches))
    return tests


def as_texts(rule: Condition) -> Condition:
    """The rule for a header, whose value is always text: numbers and truth values as JSON writes them."""
    one_of = tuple(map(_text, rule.one_of))
    equals = None if rule.equals is None else _text(rule.equals)
    return rule.model_copy(update={"equals": equals, "one_of": one_of})


def _text(value: Scalar) -> str:
    return value if isinstance(value, str) else written(value)


def written(value: bool | float) -> str:
    """A truth value or a number as JSON writes it: `true`, `1`, `1.5`."""
    return ("true" if value else "false") if isinstance(value, bool) else repr(value)


def _among(wanted: Sequence[Scalar]) -> Test:
    """JSON numbers and truth values compare as written.

    Text equals a JSON string of the same characters, and a number or truth value that is written so: `"42"` finds 42
    and `"true"` finds true. A number equals numbers of its exact value (1, 1.0 and 1e0 are one, -0 is 0, whole numbers
    of any length keep every digit), and nothing else; `true` equals true alone. null, objects and arrays equal nothing.
    """
    texts = frozenset(each for each in wanted if isinstance(each, str))
    truths = frozenset(each for each in wanted if isinstance(each, bool))
    # Python compares whole numbers and fractions by their exact values, and hashes equal ones alike.
    numbers = frozenset(each for each in wanted if not isinstance(each, str | bool))

    def test(node: Any) -> bool:
        if isinstance(node, str):
            return node in texts
        if isinstance(node, bool):
            return node in truths or (bool(texts) and written(node) in texts)
        if isinstance(node, int | float):
            return node in numbers or (bool(texts) and written(node) in texts)
        return False

    return test


def _contains(wanted: str) -> Test:
    """A string with this text in it, or an array with a member that equals it."""
    member = _among((wanted,))

    def test(node: Any) -> bool:
        if isinstance(node, str):
            return wanted in node
        return isinstance(node, list) and any(map(member, node))

    return test


def _matches(pattern: str) -> Test:
    """A string in which the pattern is found; linear in its length (RE2)."""
    search = compile_pattern(pattern).search

    def test(node: Any) -> bool:
        try:
            # Of bytes, which need no offsets translated into characters: a third of the time.
            return isinstance(node, str) and search(node.encode()) is not None
        except UnicodeEncodeError:  # a header may hold bytes that are no text
            return False

    return test
