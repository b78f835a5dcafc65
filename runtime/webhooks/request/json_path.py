"""JSONPath (RFC 9535), compiled once: common paths to a closure, others with python-jsonpath in strict mode."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Final

import msgspec

Nodes = Callable[[object], list[Any]]
"""Takes a decoded JSON value, returns the nodes found, possibly none. Raises only `RefusedRequest` `too_deep` or
`too_complex`."""

_Test = Callable[[Any], bool]
_Part = tuple[str | int, ...] | _Test | None
"""Part of a common path: names and indexes, a test that selects children, or None, which selects all children."""

_TEXT = r"""'[^'"\\\x00-\x1f]*'|"[^'"\\\x00-\x1f]*\""""
_STEP = rf"\.[A-Za-z_][A-Za-z0-9_]*|\[(?:0|-?[1-9][0-9]{{0,8}}|{_TEXT})\]"
_RUN = re.compile(rf"(?:{_STEP})+")
_EVERY = re.compile(r"\.\*|\[\*\]")
_NUMBER = r"-?(?:0|[1-9][0-9]{0,18})(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,2})?"
_S = r"[ \t\n\r]*"
_TEST = re.compile(
    rf"{_S}@(?P<path>(?:{_STEP})*){_S}"
    rf"(?:(?P<sign>[=!]=|[<>]=?(?!{_S}[tfn])){_S}(?P<literal>{_NUMBER}|{_TEXT}|true|false|null){_S})?"
    r"(?P<next>&&|\])"
)
_COMPARE = {"<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge}


@lru_cache(maxsize=1024)
def compile_path(path: str) -> Nodes:
    """Compile a common path to a closure, any other with the library. Raises ValueError, with the position, if `path`
    is not a JSONPath."""
    parts, steps = _parts(path), plain_steps(path)
    if parts is None:
        return _compile_general(path)
    if steps is None:
        return lambda value: _follow(value, parts)

    def find(value: Any) -> list[Any]:
        found = _descendant(value, steps)
        return [] if found is _NOTHING else [found]

    return find


_NOTHING: Final = object()


def _descendant(value: Any, steps: Iterable[Any]) -> Any:
    """Return the node that the steps lead to, or `_NOTHING`: a name selects in an object, an index in an array (RFC
    9535 section 2.3)."""
    try:
        for step in steps:
            if type(value) is not (dict if type(step) is str else list):
                return _NOTHING
            value = value[step]
    except (KeyError, IndexError):
        return _NOTHING
    return value


def _follow(value: Any, parts: Iterable[_Part]) -> list[Any]:
    nodes = [value]
    for part in parts:
        if isinstance(part, tuple):
            found = [_descendant(node, part) for node in nodes]
            nodes = [node for node in found if node is not _NOTHING]
        else:
            holders = [node.values() if type(node) is dict else node for node in nodes if type(node) in _HOLDERS]
            children = [child for some in holders for child in some]
            nodes = children if part is None else list(filter(part, children))
    return nodes


_HOLDERS = (dict, list)


def plain_steps(path: str) -> tuple[str | int, ...] | None:
    """Return the names and indexes of a path that consists only of them, such as `$.a['b c'][0]`; None for any other
    text."""
    match _parts(path):
        case []:
            return ()
        case [tuple() as steps]:
            return steps
    return None


def is_general(path: str) -> bool:
    """Return True if the library is used for this valid path."""
    return _parts(path) is None


def _parts(path: str) -> list[_Part] | None:
    """Return the parts of a path of names, indexes, wildcards and common filter selectors; None for any other text."""
    if not path.startswith("$"):
        return None
    parts: list[_Part] = []
    at = 1
    while at < len(path):
        if (found := _RUN.match(path, at)) is not None:
            parts.append(_steps(found[0]))
        elif (found := _EVERY.match(path, at)) is not None:
            parts.append(None)
        elif path.startswith("[?", at) and (selector := _selector(path, at + 2)) is not None:
            part, at = selector
            parts.append(part)
            continue
        else:
            return None
        at = found.end()
    return parts


def _steps(run: str) -> tuple[str | int, ...]:
    found = re.findall(_STEP, run)
    return tuple(step[1:] if step[0] == "." else step[2:-2] if step[1] in "'\"" else int(step[1:-1]) for step in found)


def _selector(path: str, at: int) -> tuple[_Test, int] | None:
    """Parse the filter selector at `at`; return it and its end. Supported: existence, and comparisons of a path from
    `@` with a literal, joined by `&&`. None for other forms, which take the library some forty times as long."""
    tests: list[_Test] = []
    while (found := _TEST.match(path, at)) is not None:
        at = found.end()
        tests.append(_test(_steps(found["path"]), found["sign"], found["literal"]))
        if found["next"] == "]":
            return tests[0] if len(tests) == 1 else lambda child: all(test(child) for test in tests), at
    return None


def _test(steps: tuple[str | int, ...], sign: str | None, literal: str) -> _Test:
    """Return a test of the child's descendant. Only numbers and texts are ordered, and true is not a number; an absent
    value equals nothing (RFC 9535 section 2.3.5.2.2)."""
    if sign is None:
        return lambda child: _descendant(child, steps) is not _NOTHING
    wanted = literal[1:-1] if literal[0] in "'\"" else msgspec.json.decode(literal)
    kinds = (int, float) if type(wanted) in {int, float} else (type(wanted),)
    compare, otherwise = _COMPARE.get(sign, operator.eq), sign == "!="

    def test(child: Any) -> bool:
        found = _descendant(child, steps)
        return (type(found) in kinds and compare(found, wanted)) != otherwise

    return test


def _compile_general(path: str) -> Nodes:
    from runtime.webhooks.request.json_path_library import compile_with_library

    return compile_with_library(path)
