"""JSONPath (RFC 9535), compiled once: plain paths to a closure, the others by python-jsonpath in its strict mode."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from runtime.webhooks.refusal import Refused

if TYPE_CHECKING:
    from jsonpath import JSONPathEnvironment

Nodes = Callable[[object], list[Any]]
"""Takes a decoded JSON value, returns the nodes found, none included. Raises `Refused` `too_deep` and nothing else."""

_PLAIN = re.compile(
    r"""\$(?:\.[A-Za-z_][A-Za-z0-9_]*|\[(?:0|-?[1-9][0-9]{0,8})\]|\['[^'"\\\x00-\x1f]*'\]|\["[^'"\\\x00-\x1f]*"\])*"""
)
_STEP = re.compile(r"""\.([A-Za-z0-9_]+)|\[(-?[0-9]+)\]|\[['"]([^'"]*)['"]\]""")
_EVERY = re.compile(r"\.\*|\[\*\]")


@lru_cache(maxsize=1024)
def compile_path(path: str) -> Nodes:
    """The nodes that `path` finds. Raises ValueError, saying where, when it is not a JSONPath."""
    steps = plain_steps(path)
    if steps is None:
        return _every(path) or _general(path)
    if not steps:
        return lambda value: [value]
    *before, last = steps

    def find(value: Any) -> list[Any]:
        try:
            for step in before:
                value = _child(value, step)
            return [_child(value, last)]
        except (KeyError, IndexError):
            return []

    return find


def plain_steps(path: str) -> tuple[str | int, ...] | None:
    """The names and indexes of a path made of nothing else, such as `$.a['b c'][0]`; None for any other text."""
    if _PLAIN.fullmatch(path) is None:
        return None
    return tuple(int(index) if index else name or quoted for name, index, quoted in _STEP.findall(path))


def _child(value: Any, step: Any) -> Any:
    """A name selects in an object and an index in an array (RFC 9535 section 2.3); anything else finds nothing."""
    if isinstance(value, dict if isinstance(step, str) else list):
        return value[step]
    raise KeyError(step)


def _every(path: str) -> Nodes | None:
    """A plain path with `[*]` or `.*` in it: every child of an object or array (RFC 9535 section 2.3.2); else None."""
    first, *rest = (plain_steps(part) for part in _parts(path))
    if first is None or not rest or None in rest:
        return None
    runs = [steps or () for steps in rest]

    def find(value: Any) -> list[Any]:
        nodes = _down([value], first)
        for steps in runs:
            children = (each.values() if isinstance(each, dict) else each for each in nodes if type(each) in _HOLDERS)
            nodes = _down([child for some in children for child in some], steps)
        return nodes

    return find


_HOLDERS = (dict, list)


def _parts(path: str) -> list[str]:
    """What stands between the `[*]` and `.*` of a path, each as a path of its own."""
    first, *rest = _EVERY.split(path)
    return [first, *(f"${part}" for part in rest)]


def _down(nodes: list[Any], steps: tuple[str | int, ...]) -> list[Any]:
    """Those of the nodes' descendants that lie where the steps lead."""
    for step in steps:
        if isinstance(step, str):
            nodes = [node[step] for node in nodes if isinstance(node, dict) and step in node]
        else:
            nodes = [node[step] for node in nodes if isinstance(node, list) and -len(node) <= step < len(node)]
    return nodes


def _general(path: str) -> Nodes:
    from jsonpath import JSONPathError

    if not path.startswith("$"):
        raise ValueError("not a JSONPath: it starts with `$`")
    try:
        compiled = _environment().compile(path)
    except (JSONPathError, RecursionError, ValueError) as error:
        line, _, _ = str(error).partition("\n")
        raise ValueError(f"not a JSONPath: {line}") from None

    def find(value: Any) -> list[Any]:
        if not isinstance(value, dict | list):
            return []  # a scalar has no children; and given text, the library would parse it as JSON
        try:
            return compiled.findall(value)
        except (JSONPathError, RecursionError):
            raise Refused("too_deep") from None

    return find


@cache
def _environment() -> JSONPathEnvironment:
    """RFC 9535 with `match` and `search` on google-re2: a pattern can't take more than linear time."""
    from jsonpath import JSONPathEnvironment
    from jsonpath.function_extensions import ExpressionType, FilterFunction

    class Regex(FilterFunction):
        arg_types = [ExpressionType.VALUE, ExpressionType.VALUE]  # noqa: RUF012 - as the library declares it
        return_type = ExpressionType.LOGICAL

        def __init__(self, *, whole: bool) -> None:
            self.whole = whole

        def __call__(self, value: object, pattern: object) -> bool:
            if not isinstance(value, str) or not isinstance(pattern, str):
                return False
            compiled = _regex(pattern)
            if compiled is None:
                return False
            return (compiled.fullmatch if self.whole else compiled.search)(value) is not None

    class Environment(JSONPathEnvironment):
        def setup_function_extensions(self) -> None:
            super().setup_function_extensions()
            self.function_extensions["match"] = Regex(whole=True)
            self.function_extensions["search"] = Regex(whole=False)

    return Environment(strict=True)


@lru_cache(maxsize=256)
def _regex(pattern: str) -> Any:
    """A compiled I-Regexp (RFC 9485), or None when it is not one: such a filter matches nothing (RFC 9535 2.4.6)."""
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(_without_line_ends(pattern), options)
    except re2.error:
        return None


def _without_line_ends(pattern: str) -> str:
    """The pattern with `.` outside a class as `[^\\n\\r]`: what I-Regexp means by it (RFC 9485 section 5.3)."""
    parts: list[str] = []
    escaped = bracketed = False
    for character in pattern:
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = True
        elif bracketed:
            bracketed = character != "]"
        elif character == "[":
            bracketed = True
        elif character == ".":
            parts.append(r"[^\n\r]")
            continue
        parts.append(character)
    return "".join(parts)
