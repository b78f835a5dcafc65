"""python-jsonpath in strict mode, for JSONPaths of any form.

Patterns are matched with google-re2, in linear time, and the nodes that a path visits are counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

import re2
from jsonpath import JSONPath, JSONPathEnvironment, JSONPathError, JSONPathMatch
from jsonpath.filter import BaseExpression, FilterQuery, RelativeFilterQuery, RootFilterQuery
from jsonpath.function_extensions import ExpressionType, FilterFunction
from jsonpath.lex import Lexer
from jsonpath.match import NodeList
from jsonpath.parse import Parser
from jsonpath.selectors import FilterContext
from jsonpath.stream import TokenStream

from dslc.blocks.values.json_path import NAME_PATTERN
from runtime.webhooks.request.json_path_limit import count_node, node_limit
from runtime.webhooks.request.refusal import RefusedRequest


def compile_with_library(path: str) -> Callable[[object], list[Any]]:
    """Compile `path`, see `json_path.Nodes`. Raises ValueError, in one line, if it is not a JSONPath."""
    if not path.startswith("$"):
        raise ValueError("not a JSONPath: it starts with `$`")
    try:
        compiled = _ENVIRONMENT.compile(path)
    except (JSONPathError, RecursionError, ValueError) as error:
        line, _, _ = str(error).partition("\n")
        raise ValueError(f"not a JSONPath: {line}") from None
    assert isinstance(compiled, JSONPath)  # strict mode returns no other type

    def find(value: Any) -> list[Any]:
        try:
            with node_limit():
                return [match.obj for match in _follow(compiled, value)]
        except (JSONPathError, RecursionError):
            raise RefusedRequest("too_deep") from None

    return find


class _CountedNode(JSONPathMatch):
    """A node that a path visits: the library creates one for each, and its children have the same class."""

    __slots__ = ()

    def __init__(self, **given: Any) -> None:
        count_node()
        super().__init__(**given)


def _follow(path: JSONPath, value: object) -> Iterable[JSONPathMatch]:
    # Not `finditer`: it does not count, and would parse text as JSON.
    if path.segments and not isinstance(value, dict | list):
        return ()  # a scalar has no children
    root = _CountedNode(filter_context={}, obj=value, parent=None, path="$", parts=(), root=value)
    nodes: Iterable[JSONPathMatch] = [root]
    for segment in path.segments:
        nodes = segment.resolve(nodes)
    return nodes


class _Relative(RelativeFilterQuery):
    """A path from `@`. Without a comparison it tests if a node exists, whatever its value (section 2.3.5.1)."""

    def evaluate(self, context: FilterContext) -> object:
        return NodeList(_follow(self.path, context.current))


class _Absolute(RootFilterQuery):
    """A path from `$` in a filter."""

    def evaluate(self, context: FilterContext) -> object:
        return NodeList(_follow(self.path, context.root))


class _Names(Lexer):
    key_pattern = NAME_PATTERN


class _Queries(Parser):
    def parse_relative_query(self, stream: TokenStream) -> BaseExpression:
        query = super().parse_relative_query(stream)
        return _Relative(query.path) if isinstance(query, FilterQuery) else query

    def parse_absolute_query(self, stream: TokenStream) -> BaseExpression:
        query = super().parse_absolute_query(stream)
        return _Absolute(query.path) if isinstance(query, FilterQuery) else query


class _Regex(FilterFunction):
    arg_types = [ExpressionType.VALUE, ExpressionType.VALUE]  # noqa: RUF012 - as the library declares it
    return_type = ExpressionType.LOGICAL

    def __init__(self, *, whole: bool) -> None:
        self.whole = whole

    def __call__(self, value: object, pattern: object) -> bool:
        compiled = _regex(pattern) if isinstance(value, str) and isinstance(pattern, str) else None
        return compiled is not None and (compiled.fullmatch if self.whole else compiled.search)(value) is not None


class _Environment(JSONPathEnvironment):
    lexer_class = _Names
    parser_class = _Queries

    def setup_function_extensions(self) -> None:
        super().setup_function_extensions()
        self.function_extensions["match"] = _Regex(whole=True)
        self.function_extensions["search"] = _Regex(whole=False)

    def _lt(self, left: object, right: object) -> bool:
        # A Python bool is a number; here it has no order (RFC 9535 section 2.3.5.2.2).
        return not isinstance(left, bool) and not isinstance(right, bool) and super()._lt(left, right)


_ENVIRONMENT = _Environment(strict=True)


@lru_cache(maxsize=256)
def _regex(pattern: str) -> Any:
    """Return a compiled I-Regexp (RFC 9485), or None if the pattern is not one: such a filter matches nothing (RFC 9535
    section 2.4.6)."""
    options = re2.Options()
    options.log_errors = False
    try:
        # `.` outside a class is any character except a line end (RFC 9485 section 5.3).
        return re2.compile(_DOT.sub(lambda found: r"[^\n\r]" if found[0] == "." else found[0], pattern), options)
    except re2.error:
        return None


_DOT = re.compile(r"\\.|\[(?:\\.|[^\]\\])*|\.", re.DOTALL)
"""An escaped character, a class up to its end, or a dot."""
