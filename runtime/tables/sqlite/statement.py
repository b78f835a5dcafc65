"""Reads as much of a statement as has to be known before SQLite compiles it: that it is one, what it begins with, and
its parameters."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from runtime.tables.sqlite.messages import Blob, Bound, Failure, Scalar

MOST_BYTES: Final = 20_000
"""Maximum bytes of a statement."""
MOST_PARAMETERS: Final = 1000
MOST_INTEGER: Final = 2**63 - 1
_MOST_DIGITS: Final = 19

_TOKEN: Final = re.compile(
    r"""
      (?P<space>[ \t\n\f\r]+|--[^\n]*|/\*.*?(?:\*/|\Z))
    | (?P<quoted>'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^\]]*\])
    | (?P<open>['"`\[])
    | (?P<end>;)
    | (?P<cast>::)
    | (?P<parameter>\?[0-9]*|[:@$][A-Za-z_\x80-\U0010ffff0-9$]+)
    | (?P<word>[A-Za-z_\x80-\U0010ffff][A-Za-z_\x80-\U0010ffff0-9$]*)
    | (?P<number>[0-9][A-Za-z0-9_.]*)
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_ALLOWED: Final = "SELECT, INSERT, UPDATE, DELETE, CREATE TABLE, CREATE INDEX, ALTER TABLE, DROP TABLE or DROP INDEX"
_READS: Final = frozenset({"SELECT", "VALUES"})
_CHANGES: Final = frozenset({"WITH", "INSERT", "REPLACE", "UPDATE", "DELETE"})
_DEFINES: Final = frozenset({"CREATE", "ALTER", "DROP"})
_LOOKED_AT: Final = 3
"""Words at the beginning that tell the kind of a statement."""
_MISTAKES: Final = {
    "open": (
        "the quote {} is never closed",
        'pass texts as parameters: INSERT INTO notes (text) VALUES (?) with params ["it\'s"]',
    ),
    "cast": ("SQLite has no casts with {}", "write CAST(value AS TEXT)"),
}
_ADVICE: Final[Mapping[str, str]] = {
    "EXPLAIN": "run the statement itself",
    "PRAGMA": "agent_memory_schema returns tables and columns",
    "BEGIN": "each statement is a transaction of its own",
    "COMMIT": "each statement is a transaction of its own",
    "END": "each statement is a transaction of its own",
    "ROLLBACK": "each statement is a transaction of its own",
    "SAVEPOINT": "each statement is a transaction of its own",
    "RELEASE": "each statement is a transaction of its own",
}


class Refusal(Exception):  # noqa: N818 - it is the answer to the statement
    """The statement is not run, or was rolled back."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def refusal(message: str, hint: str | None = None) -> Refusal:
    """Return the exception for a statement that the caller can correct."""
    return Refusal(Failure("statement", message, hint))


class Statement(NamedTuple):
    """One statement. `verb`: its first word. `positions`: of `?`, or the highest number of `?N`. `names`: of `:name`,
    with the sign before it."""

    text: str
    verb: str
    positions: int
    names: frozenset[str]

    @property
    def reads(self) -> bool:
        """True if it cannot change anything."""
        return self.verb in _READS

    @property
    def defines(self) -> bool:
        """True if it changes tables or indexes themselves."""
        return self.verb in _DEFINES

    def bound(self, parameters: Bound) -> list[object] | dict[str, object]:
        """Return the values as they are bound. Raises Refusal if they do not fit."""
        if self.names and self.positions:
            raise refusal("the statement has both ? and :name", "use one of them")
        if isinstance(parameters, dict):
            wanted = {name[1:] for name in self.names}
            if self.positions:
                raise refusal(
                    f"the statement has ?, but params is an object{_key_list(parameters)}", "make params a list"
                )
            if missing := sorted(wanted - set(parameters)):
                raise refusal(
                    f"params lacks a value for :{missing[0]}", "params is an object with a key for each :name"
                )
            if unknown := sorted(set(parameters) - wanted):
                raise refusal(f"the statement has no :{unknown[0]}, which params contains", _name_list(wanted))
            return {name: _bound(value) for name, value in parameters.items()}
        if self.names and parameters:
            raise refusal("the statement has :name, but params is a list", "make params an object with a key for each")
        if self.names:
            raise refusal(
                f"params lacks a value for {min(self.names)}", "params is an object with a key for each :name"
            )
        if len(parameters) != self.positions:
            given = f"{len(parameters)} value{'' if len(parameters) == 1 else 's'}"
            raise refusal(f"the statement has {self.positions} ?, but params has {given}")
        return [_bound(value) for value in parameters]


def _bound(value: Scalar) -> object:
    return value.content if isinstance(value, Blob) else value


def read(text: str) -> Statement:
    """Return the statement. Raises Refusal if it is none, several, or of a kind that is never allowed."""
    if len(text.encode()) > MOST_BYTES:
        raise refusal(
            f"the statement is longer than {MOST_BYTES:,} bytes", "pass long values as parameters: VALUES (?, ?)"
        )
    if "\x00" in text:
        raise refusal("the statement contains a NUL character")
    words: list[str] = []
    names: set[str] = set()
    positions = 0
    before = ""
    for kind, part in _parts(text):
        if kind == "number" and before != ".":
            _check_number(part, negative=before == "-")
        before = part
        if kind == "parameter" and part[0] == "?":
            positions = max(positions, int(part[1:7])) if part[1:] else positions + 1
        elif kind == "parameter":
            names.add(part)
        if len(words) < _LOOKED_AT:
            words.append(part.upper() if kind == "word" else "")
    if not words:
        raise refusal("the statement is empty", f"use {_ALLOWED}")
    if positions > MOST_PARAMETERS or len(names) > MOST_PARAMETERS:
        raise refusal(f"a statement may have at most {MOST_PARAMETERS:,} parameters")
    _refuse_kind(words)
    return Statement(text, words[0], positions, frozenset(names))


def _parts(text: str) -> Iterator[tuple[str, str]]:
    """Yield the kind and the text of each part of the one statement. Raises Refusal if there is another one."""
    ended = False
    for found in _TOKEN.finditer(text):
        kind = found.lastgroup or ""
        if kind == "space":
            continue
        if kind in _MISTAKES:
            message, hint = _MISTAKES[kind]
            raise refusal(message.format(found[0]), hint)
        if kind == "end":
            ended = True
        elif ended:
            raise refusal("only one statement may be given; there is another one after ;", "call once for each")
        else:
            yield kind, found[0]


def _check_number(text: str, *, negative: bool) -> None:
    """Refuse a whole number that SQLite would silently take for a float."""
    digits = text.replace("_", "").lstrip("0")
    if digits.isdigit() and (len(digits) > _MOST_DIGITS or int(digits) > MOST_INTEGER + negative):
        raise refusal(
            f"the integer {text[:30]} has more than 64 bits",
            "store it as text, or write .0 after it if it may be rounded",
        )


def _refuse_kind(words: list[str]) -> None:
    verb, rest = words[0], [*words[1:], "", ""]
    if verb not in _READS | _CHANGES | _DEFINES:
        raise refusal(f"{verb or 'this'} is not allowed", _ADVICE.get(verb, f"use {_ALLOWED}"))
    if verb not in _DEFINES:
        return
    what = rest[1] if rest[0] == "UNIQUE" else rest[0]
    if what not in ("TABLE", "INDEX") or (verb == "ALTER" and what != "TABLE"):
        raise refusal(f"{verb} {what}".rstrip() + " is not allowed", f"use {_ALLOWED}")


def _key_list(parameters: Mapping[str, object]) -> str:
    return f" with {', '.join(sorted(parameters)[:5])}" if parameters else ""


def _name_list(names: set[str]) -> str:
    return f"it has {', '.join(f':{name}' for name in sorted(names)[:10])}" if names else "it has no parameters"
