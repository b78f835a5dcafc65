"""Bounds what aggregates such as string_agg collect, while the statement runs: each gets a FILTER that counts the bytes
of all of them in a setting of the transaction, and fails beyond the limit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from runtime.tables.errors import StatementError
from runtime.tables.postgres.tokens import COMMENTS, Token, tokens_of

MOST_COLLECTED: Final = 1024 * 1024
"""Maximum bytes that all aggregates of a statement collect together, as text."""
TOO_MUCH: Final = "symbi.too_much"
"""Setting that does not exist: reading it fails with an error that contains its name."""
_ELEMENT: Final = 16
"""Bytes that a value takes besides its text."""
_COUNT: Final = (
    "CASE WHEN pg_catalog.set_config('symbi.collected', (coalesce(nullif(pg_catalog.current_setting('symbi.collected',"
    f" true), ''), '0')::pg_catalog.int8 + {_ELEMENT} + pg_catalog.octet_length(ROW({{}}\n)::pg_catalog.text))"
    f"::pg_catalog.text, true)::pg_catalog.int8 <= {MOST_COLLECTED} THEN true"
    f" ELSE pg_catalog.current_setting('{TOO_MUCH}') IS NULL END"
)


def add_limits(statement: str, calls: Sequence[Any]) -> str:
    """Return the statement with such a FILTER in these calls of aggregates, which contain none another."""
    tokens = [token for token in tokens_of(statement) if token.name not in COMMENTS]
    places = {token.start: at for at, token in enumerate(tokens)}
    for call in sorted(calls, key=lambda each: -each.location):
        opening = places[call.location] + 1
        closing = _closing(tokens, opening)
        count = _COUNT.format(_arguments(statement, tokens[opening + 1 : closing], tokens[closing].start))
        if call.agg_filter is None:
            end = tokens[closing].end
            statement = f"{statement[:end]} FILTER (WHERE {count}){statement[end:]}"
        else:  # FILTER ( WHERE condition )
            begin, end = tokens[closing + 3].end, tokens[_closing(tokens, closing + 2)].start
            statement = f"{statement[:begin]} ({statement[begin:end]}\n) AND {count}{statement[end:]}"
    return statement


def too_much() -> StatementError:
    """Return the error of a statement whose aggregates collect too much."""
    return StatementError(
        "aggregates such as string_agg collect at most 1 MB in a statement",
        hint="collect from a query with a LIMIT or WHERE, or shorter texts: string_agg(left(name, 100), ',')",
    )


def _closing(tokens: Sequence[Token], opening: int) -> int:
    """Return the place of the bracket that closes the one at `opening`."""
    depth = 0
    for at in range(opening, len(tokens)):
        depth += (tokens[at].text == "(") - (tokens[at].text == ")")
        if depth == 0:
            return at
    raise AssertionError("the statement has been parsed")


def _arguments(statement: str, tokens: Sequence[Token], end: int) -> str:
    """Return the arguments of a call, without DISTINCT and ORDER BY. `end`: where its closing bracket is."""
    depth = 0
    for token in tokens:
        if depth == 0 and token.name == "ORDER":
            end = token.start
            break
        depth += (token.text in "([") - (token.text in ")]")
    begin = tokens[0].end if tokens and tokens[0].name in ("DISTINCT", "ALL") else tokens[0].start if tokens else end
    return statement[begin:end]
