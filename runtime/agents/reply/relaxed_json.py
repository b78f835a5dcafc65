"""Reads JSON as models write it, and says what had to be assumed.

Accepted beyond RFC 8259, because it has one meaning only: line comments; missing, additional and trailing commas;
single and typographic quotes; keys without quotes; the literals and calls of Python; line ends in strings; brackets
that are missing or superfluous. A text that ends early is read as far as it goes. What is between quotes is never
changed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar

Result = TypeVar("Result")

MAX_DEPTH: Final = 64
"""Maximum depth of containers."""
MAX_TOKENS: Final = 20_000
"""Maximum number of strings, words and marks that one `Reader` reads, whatever it is asked: about 50 ms."""

_ANY_SPACE: Final = r"(?>(?:\s++|//[^\n]*+)*)"
_SPACE: Final = re.compile(_ANY_SPACE)
_COMMAS: Final = re.compile(rf"(?>(?:,{_ANY_SPACE})*)")
_WORD: Final = re.compile(r"[.+$-]?\w[\w.+$-]*+")
_NUMBER: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\Z", re.ASCII)
_COUNTED: Final = re.compile(r"-?(?:0|[1-9]\d*)\Z", re.ASCII)
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}(?:\\u[0-9a-fA-F]{4})*|x[0-9a-fA-F]{2}|U[0-9a-fA-F]{8}|.)", re.DOTALL)
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "/": "/", "\\": "\\", "\n": ""}
_LITERALS: Final = {"true": True, "True": True, "false": False, "False": False, "null": None, "None": None}

_CLOSED_BY: Final = {'"': '"', "'": "'", "“": "”"}
QUOTES: Final = "".join(_CLOSED_BY)
"""Characters that begin a string."""
_CLOSERS: Final = "".join(_CLOSED_BY.values())
_BODY: Final = {
    opener: re.compile(rf"[^\\{closer}]*+(?>(?:\\.[^\\{closer}]*+)*)", re.DOTALL)
    for opener, closer in _CLOSED_BY.items()
}

_SMALLEST: Final = -(2**63)
_LARGEST: Final = 2**63 - 1


class BrokenJson(ValueError):  # noqa: N818 - errors are named for what happened
    """The text is not JSON, however it is read. `position`: where it stops to be."""

    def __init__(self, position: int) -> None:
        super().__init__(f"not JSON at character {position}")
        self.position = position


class TooComplex(BrokenJson):
    """More tokens than are read."""


class Reader:
    """Reads values at positions of one text, and collects what it assumed, by the identity of containers."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.unclosed: list[object] = []
        """Containers that the end of the text closed."""
        self.implied: list[object] = []
        """Containers without a closing bracket, closed by that of an outer one."""
        self.guessed = False
        """True if a value is not what was written: cut off in its middle, or one of two for the same key."""
        self._open: list[str] = []
        self._tokens = 0

    def assumptions(self) -> tuple[int, int, bool]:
        """Return the state of what was assumed, for `restore`."""
        return len(self.unclosed), len(self.implied), self.guessed

    def restore(self, state: tuple[int, int, bool]) -> None:
        """Forget what was assumed since `state`."""
        del self.unclosed[state[0] :]
        del self.implied[state[1] :]
        self.guessed = state[2]

    def value(self, position: int) -> tuple[Any, int]:
        """Return the value at `position` and where it ends. Raises BrokenJson."""
        self._open = []
        return self._value(self.space(position))

    def space(self, position: int) -> int:
        """Return the position after white space and comments."""
        match = _SPACE.match(self.text, position)
        assert match is not None
        return match.end()

    def _commas(self, position: int) -> int:
        match = _COMMAS.match(self.text, position)
        assert match is not None
        return match.end()

    def _value(self, at: int) -> tuple[Any, int]:
        self._count(at)
        character = self.text[at : at + 1]
        if not character:
            raise BrokenJson(at)
        if character == "{":
            members: dict[str, Any] = {}
            return members, self._read_nested("{", at, lambda: self._object(at + 1, members))
        if character == "[":
            elements: list[Any] = []
            return elements, self._read_nested("[", at, lambda: self._array(at + 1, elements))
        if character in _CLOSED_BY:
            return self._string(at)
        return self._word_value(at)

    def _count(self, at: int) -> None:
        self._tokens += 1
        if self._tokens > MAX_TOKENS:
            raise TooComplex(at)

    def _read_nested(self, kind: str, at: int, read: Callable[[], Result]) -> Result:
        if len(self._open) >= MAX_DEPTH:
            raise BrokenJson(at)
        self._open.append(kind)
        result = read()
        self._open.pop()
        return result

    def _object(self, at: int, members: dict[str, Any]) -> int:
        while True:
            self._count(at)
            at = self._separator(at, members)
            mark = self.text[at : at + 1]
            if not mark:
                self.unclosed.append(members)
                return at
            if mark == "}":
                return at + 1
            if mark == "]":
                if "[" in self._open:
                    self.implied.append(members)
                    return at
                at += 1
                continue
            key, at = self._key(at)
            at = self.space(at)
            if at < len(self.text) and self.text[at] != ":":
                raise BrokenJson(at)
            at = self.space(at + 1)
            if at >= len(self.text):
                self.guessed = True
                self.unclosed.append(members)
                return len(self.text)
            value, at = self._value(at)
            self.add(members, key, value)

    def _array(self, at: int, elements: list[Any]) -> int:
        while True:
            self._count(at)
            at = self._separator(at, elements)
            mark = self.text[at : at + 1]
            if not mark:
                self.unclosed.append(elements)
                return at
            if mark == "]":
                return at + 1
            if mark == "}":
                if "{" in self._open:
                    self.implied.append(elements)
                    return at
                at += 1
                continue
            value, at = self._value(at)
            elements.append(value)

    def _separator(self, at: int, container: list[Any] | dict[str, Any]) -> int:
        """Return the position after white space and commas.

        A comma may be missing after a bracket, at a line end, and before a key: elsewhere a quote is more likely one
        inside a string, which should have been escaped.
        """
        before_comma = self.space(at)
        after = self._commas(before_comma)
        mark = self.text[after : after + 1]
        if not mark and self._ends_in_line_comment(at):
            # The comment may contain what follows.
            self.guessed = True
        if container and after == before_comma and mark and mark not in "}]":
            before = self.text[at - 1]
            apart = before in "}]" or "\n" in self.text[at:after]
            if isinstance(container, list):
                allowed = apart and mark in "{[" + QUOTES
            else:
                allowed = apart or (before in _CLOSERS and mark in QUOTES)
            if not allowed:
                raise BrokenJson(after)
        return after

    def _ends_in_line_comment(self, at: int) -> bool:
        last = self.text[max(self.text.rfind("\n") + 1, at) :]
        return "//" in last

    def _key(self, at: int) -> tuple[str, int]:
        if self.text[at] in _CLOSED_BY:
            return self._string(at)
        word = _WORD.match(self.text, at)
        if word is None:
            raise BrokenJson(at)
        return word[0], word.end()

    def add(self, members: dict[str, Any], key: str, value: Any) -> None:
        """Add a member. Of two values with the same key the last one counts."""
        self.guessed = self.guessed or members.get(key, value) != value
        members[key] = value

    def _string(self, at: int) -> tuple[str, int]:
        text = self.text
        body = _BODY[text[at]].match(text, at + 1)
        assert body is not None
        if body.end() >= len(text):
            self.guessed = True
            return _unescaped(_whole_escapes(text[at + 1 :])), len(text)
        return _unescaped(body[0]), body.end() + 1

    def _word_value(self, at: int) -> tuple[Any, int]:
        match = _WORD.match(self.text, at)
        if match is None:
            raise BrokenJson(at)
        word, end = match[0], match.end()
        if self.text[end : end + 1] == "(":
            return self._python_call(word, end + 1)
        if word in _LITERALS:
            return _LITERALS[word], end
        if end == len(self.text):
            # More of the word may be missing.
            self.guessed = True
        elif not _NUMBER.match(word):
            raise BrokenJson(at)
        return (number(word) if _NUMBER.match(word) else word), end

    def _python_call(self, name: str, at: int) -> tuple[dict[str, Any], int]:
        """Read `name(key=value, …)` after its bracket as `{"name": name, "args": {…}}`."""
        arguments: dict[str, Any] = {}
        call = {"name": name, "args": arguments}
        while True:
            self._count(at)
            at = self._commas(self.space(at))
            if at == len(self.text):
                self.unclosed += [call, arguments]
                return call, at
            if self.text[at] == ")":
                return call, at + 1
            key = _WORD.match(self.text, at)
            if key is None:
                raise BrokenJson(at)
            at = self.space(key.end())
            if at < len(self.text) and self.text[at] not in "=:":
                raise BrokenJson(at)
            at = self.space(at + 1)
            if at >= len(self.text):
                self.guessed = True
                self.unclosed += [call, arguments]
                return call, len(self.text)
            value, at = self._read_nested("(", at, partial(self._value, at))
            self.add(arguments, key[0], value)


def read_whole(text: str) -> tuple[Any, bool]:
    """Return the value of a text that is JSON, and whether nothing was assumed that may lose something; the text itself
    if it is not JSON."""
    reader = Reader(text)
    try:
        value, end = reader.value(0)
    except BrokenJson:
        return text, False
    if reader.space(end) != len(text):
        return text, False
    return value, not (reader.guessed or reader.unclosed or reader.implied)


def number(text: str) -> int | float | str:
    """Return a number; its text if it has more digits than 64 bits hold."""
    if _COUNTED.match(text):
        exact = int(text) if len(text) < 24 else _LARGEST + 1
        return exact if _SMALLEST <= exact <= _LARGEST else text
    if text.lstrip("+-")[:2].isdigit() and text.lstrip("+-")[0] == "0":
        # With leading zeros it is a code or a telephone number.
        return text
    value = float(text)
    return value if abs(value) != float("inf") else text


def as_integer(value: float) -> int | float:
    """Return a number without a fraction as an integer if 64 bits hold it, else the number."""
    return int(value) if value.is_integer() and _SMALLEST <= value <= _LARGEST else value


def _whole_escapes(text: str) -> str:
    """Return a text without an escape that was cut off at its end."""
    return re.sub(r"(?<!\\)((?:\\\\)*)\\(?:u[0-9a-fA-F]{0,3}|u[dD][89abAB][0-9a-fA-F]{2})?\Z", r"\1", text)


def _unescaped(body: str) -> str:
    """Return a string's content. An escape that JSON and Python do not have stays as it is."""
    if "\\" not in body:
        return body
    try:
        return str(json.loads(f'"{body}"', strict=False))
    except ValueError:
        return _ESCAPE.sub(_escape_value, body)


def _escape_value(match: re.Match[str]) -> str:
    escape = match[1]
    if escape[0] == "u" and len(escape) > 1:
        return str(json.loads(f'"{match[0]}"'))
    if escape[0] in "xU" and len(escape) > 1:
        code = int(escape[1:], 16)
        return chr(code) if code < 0x110000 else match[0]
    if escape in _CLOSED_BY:
        return escape
    return _ESCAPED.get(escape, match[0])
