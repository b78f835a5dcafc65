"""Texts as PostgreSQL stores them, and their words as a `tsvector`: the same words as in the embedded index."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Sequence

_LONGEST_WORD = 200
"""Maximum characters of a word in the index; PostgreSQL accepts up to 2046 bytes."""
_LAST_POSITION = 16_383
_POSITIONS = 256
"""Limits of PostgreSQL's `tsvector` (postgresql.org/docs/current/textsearch-limitations.html)."""
_ROOM = 1_000_000
"""Maximum bytes of one entry's words with their positions; PostgreSQL accepts up to 1 MiB. Words after that are not
searched."""


def to_postgres(text: str) -> str:
    """Return a text as PostgreSQL can store it, without U+0000."""
    if "\0" not in text and "\x1a" not in text:
        return text
    return text.replace("\x1a", "\x1a1").replace("\0", "\x1a0")


def from_postgres(text: str) -> str:
    """Reverse `to_postgres`."""
    return text.replace("\x1a0", "\0").replace("\x1a1", "\x1a") if "\x1a" in text else text


def to_postgres_or_none(value: str | None) -> str | None:
    """Return `to_postgres` of a text; None stays None."""
    return None if value is None else to_postgres(value)


def tsvector(text: Sequence[str], about: Sequence[str]) -> str:
    """Return the words of a text and of its metadata with their positions, as a literal."""
    positions: dict[str, list[int]] = defaultdict(list)
    room = _ROOM
    # The gap keeps phrases from reaching from one to the other.
    for first, words in ((1, text), (len(text) + 2, about)):
        for position, word in enumerate(words, first):
            cut = word[:_LONGEST_WORD]
            room -= 2 if cut in positions else len(cut.encode()) + 6
            if room < 0:
                break
            if len(positions[cut]) < _POSITIONS:
                positions[cut].append(min(position, _LAST_POSITION))
    return " ".join(f"{_quoted_word(word)}:{','.join(map(str, places))}" for word, places in positions.items())


def tsquery(phrase: Iterable[str]) -> str:
    """Return a query for these words one after another, as a literal."""
    return " <-> ".join(map(_quoted_word, phrase))


def _quoted_word(word: str) -> str:
    return "'" + word[:_LONGEST_WORD].replace("\\", "\\\\").replace("'", "''") + "'"


def quoted(name: str) -> str:
    """Return a quoted SQL name."""
    return '"' + name.replace('"', '""') + '"'


def hash_of(text: str) -> int:
    """Return a 64-bit hash of a text, the same in every process; collisions are improbable."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big", signed=True)
