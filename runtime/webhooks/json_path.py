"""JSONPath (RFC 9535), compiled once: usual paths to a closure, the others by python-jsonpath in its strict mode."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Final

from runtime.webhooks.refusal import Refused
from runtime.webhooks.selection import STEPS, Test, read_selection

if TYPE_CHECKING:
    from jsonpath import JSONPathEnvironment

Nodes = Callable[[object], list[Any]]
"""Takes a decoded JSON value, returns the nodes found, none included. Raises `Refused` `too_deep` or `too_complex`, and
nothing else."""

MOST_NODES: Final = 200_000
"""Nodes that general paths may look at in one payload, all filters of a webhook together: some half a second of work.
`$..*` looks at each node once, `$..*..*` at each as often as it is deep, and a filter selector may be quadratic."""

_left: ContextVar[list[int] | None] = ContextVar("nodes left", default=None)


@contextmanager
def bounded() -> Iterator[None]:
    """Let the general paths that are followed inside look at `MOST_NODES` together."""
    token = _left.set([MOST_NODES])
    try:
        yield
    finally:
        _left.reset(token)


_RUN = re.compile(STEPS)
_STEP = re.compile(r"""\.([A-Za-z0-9_]+)|\[(-?[0-9]+)\]|\[['"]([^'"]*)['"]\]""")
_EVERY = re.compile(r"\.\*|\[\*\]")


@lru_cache(maxsize=1024)
def compile_path(path: str) -> Nodes:
    """The nodes that `path` finds. Raises ValueError, saying where, when it is not a JSONPath."""
    steps = plain_steps(path)
    if steps is None:
        return _usual(path)
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
    return _steps(path[1:]) if path.startswith("$") and _RUN.fullmatch(path, 1) else None


def _steps(run: str) -> tuple[str | int, ...]:
    return tuple(int(index) if index else name or quoted for name, index, quoted in _STEP.findall(run))


def _child(value: Any, step: Any) -> Any:
    """A name selects in an object and an index in an array (RFC 9535 section 2.3); anything else finds nothing."""
    if isinstance(value, dict if isinstance(step, str) else list):
        return value[step]
    raise KeyError(step)


def _usual(path: str) -> Nodes:
    """The closure for a path of usual form, else what the library makes of it. Raises ValueError for what is none."""
    if path.startswith("$") and "[?" not in path:
        return _walk(path) or _general(path)
    by_library = _general(path)  # it says whether it is one
    return _walk(path) or by_library


def is_general(path: str) -> bool:
    """Whether the library follows this path, which is known to be one."""
    return plain_steps(path) is None and _walk(path) is None


def _walk(path: str) -> Nodes | None:
    """A path of plain steps, `[*]`, `.*` and usual filter selectors; None for any other.

    A wildcard selects every child of an object or array (RFC 9535 section 2.3.2), a filter those that pass it.
    """
    first = _RUN.match(path, 1)
    assert first is not None  # it may be empty
    begin, at = _steps(first[0]), first.end()
    runs: list[tuple[Test | None, tuple[str | int, ...]]] = []
    while at < len(path):
        if path.startswith("[?", at):
            read = read_selection(path, at + 2, _value)
            if read is None:
                return None
            test, at = read
        elif (every := _EVERY.match(path, at)) is not None:
            test, at = None, every.end()
        else:
            return None
        run = _RUN.match(path, at)
        assert run is not None
        runs.append((test, _steps(run[0])))
        at = run.end()

    def find(value: Any) -> list[Any]:
        nodes = _down([value], begin)
        for test, steps in runs:
            holders = (each.values() if isinstance(each, dict) else each for each in nodes if type(each) in _HOLDERS)
            children = [child for some in holders for child in some]
            nodes = _down(children if test is None else list(filter(test, children)), steps)
        return nodes

    return find


_HOLDERS = (dict, list)


def _value(path: str) -> Callable[[Any], Any]:
    """What a plain path from `@` finds; raises KeyError or IndexError."""
    steps = _steps(path[1:])
    if len(steps) == 1:
        [step] = steps
        return lambda value: _child(value, step)

    def find(value: Any) -> Any:
        for each in steps:
            value = _child(value, each)
        return value

    return find


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
        if _left.get() is None:
            with bounded():
                return find(value)
        try:
            return compiled.findall(value)
        except (JSONPathError, RecursionError):
            raise Refused("too_deep") from None

    return find


@cache
def _environment() -> JSONPathEnvironment:
    """RFC 9535 with `match` and `search` on google-re2: a pattern can't take more than linear time."""
    import jsonpath.path
    from jsonpath import JSONPathEnvironment, JSONPathMatch
    from jsonpath.function_extensions import ExpressionType, FilterFunction

    class Counted(JSONPathMatch):
        """A node that a path looks at: the library makes one for each, and its children are of the same class."""

        __slots__ = ()

        def __init__(self, **given: Any) -> None:
            left = _left.get()
            if left is not None:
                left[0] -= 1
                if left[0] < 0:
                    raise Refused("too_complex")
            super().__init__(**given)

    # `match_class` of an environment is for this, but only the asynchronous half of the library asks for it.
    jsonpath.path.JSONPathMatch = Counted  # type: ignore[attr-defined]

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

        def _lt(self, left: object, right: object) -> bool:
            # In Python a truth value is a number; here it has no order (RFC 9535 section 2.3.5.2.2).
            return not isinstance(left, bool) and not isinstance(right, bool) and super()._lt(left, right)

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
