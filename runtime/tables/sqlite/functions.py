"""Functions that SQLite lacks, or has for ASCII only: lower, upper and LIKE know the letters of Unicode."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, NamedTuple

import apsw

_MOST_PATTERN: Final = 500
"""Maximum bytes of the pattern of LIKE."""
_KEPT_PATTERNS: Final = 100


class _Letters(dict[int, str]):
    """The letter without case for each letter, of the same length: `_` in a pattern stands for one."""

    def __missing__(self, code: int) -> str:
        letter = chr(code)
        folded = next(each for each in (letter.casefold(), letter.lower(), letter) if len(each) == 1)
        self[code] = folded
        return folded


_LETTERS: Final = _Letters()
_NOTHING: Final = re.compile(r"(?!)")


class _Pattern(NamedTuple):
    """A pattern of LIKE. `parts`: what is between `%`, each found from left to right, so that no pattern takes longer
    than the text is long. `first` and `last`: at the beginning and at the end; a pattern without `%` is `first`."""

    first: re.Pattern[str]
    parts: tuple[re.Pattern[str], ...]
    last: re.Pattern[str] | None
    last_length: int

    def matches(self, text: str) -> bool:
        """True if the text, without case, is like the pattern."""
        if self.last is None:
            return self.first.fullmatch(text) is not None
        found = self.first.match(text)
        for part in self.parts:
            found = found and part.search(text, found.end())
        start = len(text) - self.last_length
        return found is not None and start >= found.end() and self.last.match(text, start) is not None


def add_functions(connection: apsw.Connection, check_time: Callable[[], None]) -> None:
    """Add `lower`, `upper`, LIKE, and `encode(blob, 'base64'|'hex')` and `decode(text, 'base64'|'hex')`. `check_time`
    is called before each comparison, and raises an exception when the time of the statement is over: SQLite does not
    look at the clock meanwhile."""

    def like(*values: Any) -> bool | None:
        check_time()
        if None in values:
            return None
        pattern, text, *escape = map(_text, values)
        return _pattern(pattern, *escape).matches(_folded(text))

    for name, function, numbers in (
        ("lower", _lower, (1,)),
        ("upper", _upper, (1,)),
        ("like", like, (2, 3)),
        ("encode", _encode, (2,)),
        ("decode", _decode, (2,)),
    ):
        for number in numbers:
            # Indexes, checks and generated columns take only what is innocuous.
            connection.create_scalar_function(name, function, number, deterministic=True, flags=apsw.SQLITE_INNOCUOUS)


@lru_cache(_KEPT_PATTERNS)
def _pattern(pattern: str, escape: str | None = None) -> _Pattern:
    """Read a pattern. Raises ValueError."""
    if len(pattern.encode()) > _MOST_PATTERN:
        raise ValueError("LIKE or GLOB pattern too complex")
    if escape is not None and len(escape) != 1:
        raise ValueError("ESCAPE expression must be a single character")
    parts = [""]
    lengths = [0]
    letters = iter(pattern)
    for letter in letters:
        if letter == "%" != escape:
            parts.append("")
            lengths.append(0)
            continue
        if letter == escape:
            escaped = next(letters, None)
            if escaped is None:
                return _Pattern(_NOTHING, (), None, 0)
            parts[-1] += re.escape(_folded(escaped))
        else:
            parts[-1] += "." if letter == "_" else re.escape(_folded(letter))
        lengths[-1] += 1
    compiled = [re.compile(part, re.DOTALL) for part in parts]
    if len(compiled) == 1:
        return _Pattern(compiled[0], (), None, 0)
    middle = tuple(each for each, length in zip(compiled[1:-1], lengths[1:-1], strict=True) if length)
    return _Pattern(compiled[0], middle, compiled[-1], lengths[-1])


def _folded(text: str) -> str:
    folded = text.casefold()
    # No letter gets shorter, so each has become one other.
    return folded if len(folded) == len(text) else text.translate(_LETTERS)


def _text(value: Any) -> str:
    """Return a value as SQLite casts it to TEXT."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if not isinstance(value, float):
        return str(value)
    if value in (float("inf"), float("-inf")):
        return "Inf" if value > 0 else "-Inf"
    mantissa, e, exponent = repr(value).partition("e")
    return f"{mantissa}.0{e}{exponent}" if mantissa.lstrip("-").isdigit() else f"{mantissa}{e}{exponent}"


def _lower(*values: Any) -> str | None:
    return None if values[0] is None else _text(values[0]).lower()


def _upper(*values: Any) -> str | None:
    return None if values[0] is None else _text(values[0]).upper()


def _encode(*values: Any) -> str | None:
    value, coding = values
    if value is None:
        return None
    content = value if isinstance(value, bytes) else str(value).encode()
    return base64.b64encode(content).decode() if _is_base64(coding) else content.hex()


def _decode(*values: Any) -> bytes | None:
    value, coding = values
    if value is None:
        return None
    return base64.b64decode(str(value)) if _is_base64(coding) else bytes.fromhex(str(value))


def _is_base64(coding: object) -> bool:
    if coding not in ("base64", "hex"):
        raise ValueError("encode() and decode() take 'base64' or 'hex'")
    return coding == "base64"
