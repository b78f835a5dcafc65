"""Turns `?` and `:name` into the numbered parameters of PostgreSQL, by the tokens of its own scanner."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from pglast.parser import ParseError, scan

from runtime.tables.errors import StatementError
from runtime.tables.sql_database import LONGEST_STATEMENT, Parameters

COMMENTS: Final = frozenset({"SQL_COMMENT", "C_COMMENT"})
QUOTING_HINT: Final = (
    'put values into parameters instead of the text: INSERT INTO notes (body) VALUES (?) with params ["it\'s"], or'
    ' :body with params {"body": "..."}; otherwise write \'it\'\'s\', and "name" only for names of tables and columns'
)


class Token(NamedTuple):
    """A token: its text, and where it is in the statement."""

    name: str
    text: str
    start: int
    end: int


class NumberedStatement(NamedTuple):
    """A statement with numbered parameters. `names`: of the parameters in their order, if they have names; `number`: of
    parameters."""

    statement: str
    names: Sequence[str] | None
    number: int


@lru_cache(maxsize=4)
def tokens_of(statement: str) -> Sequence[Token]:
    """Return the tokens of a statement. Raises StatementError if it has no valid ones."""
    if "\0" in statement:
        raise StatementError("a statement contains no zero bytes")
    try:
        return [
            Token(each.name, statement[each.start : each.end + 1], each.start, each.end + 1) for each in scan(statement)
        ]
    except ParseError as error:
        raise StatementError(f"the statement cannot be read: {_message(error)}", hint=QUOTING_HINT) from None
    except UnicodeEncodeError:
        raise StatementError("the statement is not valid Unicode") from None


def numbered(statement: str, parameters: Parameters) -> NumberedStatement:
    """Number the parameters of a statement. Raises StatementError if it has others than those that are given."""
    if len(statement) > LONGEST_STATEMENT:
        raise StatementError(
            f"a statement has at most {LONGEST_STATEMENT:,} characters, this one {len(statement):,}",
            hint="put long values into parameters",
        )
    tokens = tokens_of(statement)
    named = isinstance(parameters, Mapping)
    pieces: list[str] = []
    names: list[str] = []
    asked = highest = at = 0
    for start, end, name in _placeholders(tokens):
        pieces.append(statement[at:start])
        if name is None:
            asked += 1
            pieces.append(f" ${asked} ")
        else:
            if name not in names:
                names.append(name)
            pieces.append(f" ${names.index(name) + 1} ")
        at = end
    pieces.append(statement[at:])
    for token in tokens:
        if token.name == "PARAM":
            highest = max(highest, int(token.text[1:]) if token.text[1:].isdigit() and len(token.text) < 7 else 10**6)
    _check_kind(named, asked, names, highest)
    if named:
        _check_names(names, parameters)  # type: ignore[arg-type]  # a mapping
        return NumberedStatement("".join(pieces), names, len(names))
    count = asked or highest
    if count != len(parameters):
        raise StatementError(
            f"the statement has {count} parameters, and params has {len(parameters)} values",
            hint="give one value for each ?",
        )
    return NumberedStatement("".join(pieces), None, count)


def _placeholders(tokens: Sequence[Token]) -> Iterator[tuple[int, int, str | None]]:
    """Yield where placeholders are, and their names. The scanner takes `=?` for an operator; no operator with a
    question mark is allowed."""
    for index, token in enumerate(tokens):
        if token.name == "Op":
            for offset, letter in enumerate(token.text):
                if letter == "?":
                    yield token.start + offset, token.start + offset + 1, None
        elif token.name == "ASCII_58" and index + 1 < len(tokens):
            follows = tokens[index + 1]
            if follows.start == token.end and (follows.text[0].isalpha() or follows.text[0] == "_"):
                yield token.start, follows.end, follows.text


def _check_kind(named: bool, asked: int, names: Sequence[str], highest: int) -> None:
    if sum(map(bool, (asked, names, highest))) > 1:
        raise StatementError("a statement has parameters of one form only", hint="write ? everywhere, or :name")
    if named and (asked or highest):
        raise StatementError("the statement has ? parameters, but params is an object", hint="give a list of values")
    if names and not named:
        raise StatementError(
            f"the statement has the parameter :{names[0]}, but params is a list",
            hint=f'give an object such as {{"{names[0]}": 1}}',
        )


def _check_names(names: Sequence[str], parameters: Mapping[str, Any]) -> None:
    missing = [name for name in names if name not in parameters]
    if missing:
        raise StatementError(f"params has no value for :{missing[0]}")
    unused = [str(name) for name in parameters if name not in names]
    if unused:
        raise StatementError(f"the statement has no parameter :{unused[0][:60]}")


def _message(error: ParseError) -> str:
    return str(error.args[0]) if error.args else "syntax error"
