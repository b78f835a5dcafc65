"""Filter selectors of JSONPath (RFC 9535 section 2.3.5) in their usual forms, compiled to closures.

Existence, and comparisons of a path with a literal, joined by `&&` and `||`: `[?@.price > 100 && @.name]`. Whatever
else a selector may say is left to the library, which is right too and takes some ten times as long.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Any

Test = Callable[[Any], bool]
"""Says of a child whether it is selected."""

Value = Callable[[Any], Any]
"""What a path from `@` finds in a child; raises KeyError or IndexError where it finds nothing."""

STEPS = r"""(?:\.[A-Za-z_][A-Za-z0-9_]*|\[(?:0|-?[1-9][0-9]{0,8})\]|\['[^'"\\\x00-\x1f]*'\]|\["[^'"\\\x00-\x1f]*"\])*"""
"""Plain steps of a path, any number: names and indexes."""

_PATH = "@" + STEPS
_LITERAL = (
    r"""-?(?:0|[1-9][0-9]{0,18})(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,2})?|true|false|null"""
    r"""|'[^'"\\\x00-\x1f]*'|"[^'"\\\x00-\x1f]*\""""
)
_OPERATOR = r"==|!=|<=|>=|<|>"
_S = r"[ \t\n\r]*"
_BASIC = re.compile(
    rf"{_S}(?:(?P<path>{_PATH}){_S}(?P<operator>{_OPERATOR}){_S}(?P<literal>{_LITERAL})"
    rf"|(?P<left>{_LITERAL}){_S}(?P<turned>{_OPERATOR}){_S}(?P<right>{_PATH})"
    rf"|(?P<no>!?){_S}(?P<there>{_PATH})){_S}(?P<next>&&|\|\||\])"
)
_TURNED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
_ORDER = {"<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge}


def read_selection(text: str, at: int, value: Callable[[str], Value]) -> tuple[Test, int] | None:
    """The selector whose expression begins at `at`, behind `[?`, and where its `]` ends; None for other forms.

    `text` is a JSONPath, known to be one. `value` compiles a path that begins with `@`.
    """
    ways: list[list[Test]] = [[]]
    while True:
        basic = _BASIC.match(text, at)
        if basic is None:
            return None
        ways[-1].append(_test(basic, value))
        at = basic.end()
        if basic["next"] == "]":
            return _either([_both(tests) for tests in ways]), at
        if basic["next"] == "||":
            ways.append([])


def _test(basic: re.Match[str], value: Callable[[str], Value]) -> Test:
    if basic["there"] is not None:
        return _exists(value(basic["there"]), there=not basic["no"])
    if basic["path"] is not None:
        return _compared(value(basic["path"]), basic["operator"], _literal(basic["literal"]))
    turned = basic["turned"]
    return _compared(value(basic["right"]), _TURNED.get(turned, turned), _literal(basic["left"]))


def _literal(text: str) -> object:
    if text[0] in "'\"":
        return text[1:-1]
    if text in _NAMES:
        return _NAMES[text]
    return int(text) if text.lstrip("-").isdigit() else float(text)


_NAMES = {"true": True, "false": False, "null": None}


def _exists(value: Value, *, there: bool) -> Test:
    def test(child: Any) -> bool:
        try:
            value(child)
        except (KeyError, IndexError):
            return not there
        return there

    return test


def _compared(value: Value, sign: str, literal: object) -> Test:
    """Only numbers and texts have an order; what is not there equals nothing (section 2.3.5.2.2)."""
    kinds: tuple[type, ...] = (int, float) if type(literal) in {int, float} else (type(literal),)
    ordered, otherwise = type(literal) in {int, float, str}, sign == "!="
    if sign in {"<", ">"} and not ordered:
        return lambda child: False
    # Of truth values and null, `<=` and `>=` say only that they are the same.
    compare: Callable[[Any, Any], Any] = _ORDER.get(sign, operator.eq) if ordered else operator.eq

    def test(child: Any) -> bool:
        try:
            found = value(child)
        except (KeyError, IndexError):
            return otherwise
        # Not isinstance: in Python a truth value is a number.
        return (type(found) in kinds and compare(found, literal)) != otherwise

    return test


def _both(tests: list[Test]) -> Test:
    return tests[0] if len(tests) == 1 else lambda child: all(test(child) for test in tests)


def _either(tests: list[Test]) -> Test:
    return tests[0] if len(tests) == 1 else lambda child: any(test(child) for test in tests)
