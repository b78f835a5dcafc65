"""Filters: which deliveries a webhook wants, decided on the decoded payload. Compiled once per webhook."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from runtime.webhooks.json_path import compile_path

Wanted = Callable[[object], bool]
"""Takes the decoded payload, says whether the delivery is wanted. Raises `Refused` `too_deep` and nothing else."""

_Test = Callable[[Any], bool]


class FilterRule(Protocol):
    """What a filter says: `dslc.blocks.Filter` is one."""

    @property
    def json_path(self) -> str: ...
    @property
    def equals(self) -> str | int | float | bool | None: ...
    @property
    def contains(self) -> str | None: ...


def compile_filters(rules: Iterable[FilterRule]) -> Wanted | None:
    """One predicate for all rules, which must all hold; None when there are none and no payload is needed.

    Raises ValueError when a path is not a JSONPath or a rule asks for nothing.
    """
    each = [compile_filter(rule) for rule in rules]
    if not each:
        return None
    return each[0] if len(each) == 1 else lambda payload: all(wanted(payload) for wanted in each)


def compile_filter(rule: FilterRule) -> Wanted:
    """Of the nodes that the path finds, one is enough; it passes `equals` and `contains` both, where both stand."""
    find = compile_path(rule.json_path)
    tests: list[_Test] = []
    if rule.equals is not None:
        tests.append(_equals(rule.equals))
    if rule.contains is not None:
        tests.append(_contains(rule.contains))
    if not tests:
        raise ValueError(f"the filter on {rule.json_path} needs `equals` or `contains`")
    if len(tests) == 1:
        test = tests[0]
        return lambda payload: any(map(test, find(payload)))
    return lambda payload: any(all(test(node) for test in tests) for node in find(payload))


def _equals(wanted: str | float | bool) -> _Test:
    """JSON numbers and truth values compare as written.

    Text equals a JSON string of the same characters, and a number or truth value that is written so: `"42"` finds 42
    and `"true"` finds true. A number equals numbers of its value (1 and 1.0 are one), and nothing else; `true` equals
    true alone. null, objects and arrays equal nothing.
    """
    if isinstance(wanted, bool):
        return lambda node: node is wanted
    if isinstance(wanted, str):
        return lambda node: node == wanted if isinstance(node, str) else _written(node) == wanted
    return lambda node: isinstance(node, int | float) and not isinstance(node, bool) and node == wanted


def _contains(wanted: str) -> _Test:
    """A string with this text in it, or an array with a member that equals it."""
    member = _equals(wanted)

    def test(node: Any) -> bool:
        if isinstance(node, str):
            return wanted in node
        return isinstance(node, list) and any(map(member, node))

    return test


def _written(node: object) -> str | None:
    """How JSON writes a number or a truth value: `true`, `1`, `1.5`; None for anything else."""
    return json.dumps(node) if isinstance(node, bool | int | float) else None
