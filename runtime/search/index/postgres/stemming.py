"""Texts as PostgreSQL stores them, and their words: the same stems as in the embedded index."""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from runtime.search.index.embedded.schema import TOKENIZE

_LONGEST = 200
"""Maximum bytes of a stem that is stored unchanged; PostgreSQL accepts up to 2046."""
_ROOM = 700_000
"""Maximum bytes of one entry's different stems; PostgreSQL accepts up to 1 MiB. Of a longer text the rarest are
omitted."""

Spelled = dict[str, tuple[int, int]]


class Counted(NamedTuple):
    """The counts of each stem in an entry's text and in its metadata, and the number of words in both."""

    stems: Spelled
    text: int
    about: int


class Stems:
    """SQLite's tokenizer in a table of its own. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._connection.execute(
            f"CREATE VIRTUAL TABLE words USING fts5 (text, about, content='', tokenize='{TOKENIZE}')"
        )
        self._connection.execute("CREATE VIRTUAL TABLE occurrences USING fts5vocab ('words', 'instance')")

    def counted(self, texts: Sequence[tuple[str, str]]) -> list[Counted]:
        """Return the stems of these pairs of text and metadata. Raises UnicodeEncodeError for invalid Unicode."""
        found: list[dict[str, list[int]]] = [defaultdict(lambda: [0, 0]) for _ in texts]
        for doc, term, column in self._occurrences(texts, "doc, term, col"):
            found[doc - 1][term][column == "about"] += 1
        return [_counted(stems) for stems in found]

    def read(self, texts: Sequence[tuple[str, str]]) -> list[tuple[list[str], list[str]]]:
        """Return the stems of these texts in order."""
        found: list[tuple[list[str], list[str]]] = [([], []) for _ in texts]
        for doc, term, column in self._occurrences(texts, "doc, term, col", "ORDER BY doc, col, offset"):
            found[doc - 1][column == "about"].append(term)
        return found

    def _occurrences(
        self, texts: Sequence[tuple[str, str]], columns: str, order: str = ""
    ) -> list[tuple[int, str, str]]:
        for pair in texts:
            for text in pair:
                text.encode()
        rows = ((number, *pair) for number, pair in enumerate(texts, 1))
        with self._lock:
            self._connection.execute("BEGIN")
            try:
                self._connection.executemany("INSERT INTO words (rowid, text, about) VALUES (?, ?, ?)", rows)
                return self._connection.execute(f"SELECT {columns} FROM occurrences {order}").fetchall()  # noqa: S608
            finally:
                self._connection.execute("ROLLBACK")

    def close(self) -> None:
        """Close the table."""
        with self._lock:
            self._connection.close()


def _counted(stems: dict[str, list[int]]) -> Counted:
    text, about = (sum(counts[column] for counts in stems.values()) for column in (0, 1))
    kept: Spelled = {spelled(term): (counts[0], counts[1]) for term, counts in stems.items()}
    if sum(map(_bytes, kept)) > _ROOM:
        kept = _most_frequent(kept)
    return Counted(kept, text, about)


def _most_frequent(stems: Spelled) -> Spelled:
    room, kept = _ROOM, {}
    for term in sorted(stems, key=lambda term: (-sum(stems[term]), term)):
        room -= _bytes(term)
        if room < 0:
            break
        kept[term] = stems[term]
    return kept


def _bytes(term: str) -> int:
    return len(term) if term.isascii() else len(term.encode())


def spelled(term: str) -> str:
    """Return a stem as it is stored: a very long one as its beginning and a hash."""
    if len(term) * 4 <= _LONGEST or _bytes(term) <= _LONGEST:
        return term
    return f"{term[:20]}{hashlib.sha256(term.encode()).hexdigest()}"


def to_postgres(text: str) -> str:
    """Return a text as PostgreSQL can store it, without U+0000."""
    if "\0" not in text and "\x1a" not in text:
        return text
    return text.replace("\x1a", "\x1a1").replace("\0", "\x1a0")


def from_postgres(text: str) -> str:
    """Reverse `to_postgres`."""
    return text.replace("\x1a0", "\0").replace("\x1a1", "\x1a") if "\x1a" in text else text


def array(texts: Iterable[str]) -> str:
    """Return a list of texts in PostgreSQL's notation."""
    return "{" + ",".join('"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"' for text in texts) + "}"


def query(terms: Iterable[str]) -> str:
    """Return a tsquery for all these stems."""
    return " & ".join("'" + term.replace("\\", "\\\\").replace("'", "''") + "'" for term in terms)


def code(text: str) -> int:
    """Return a 64-bit hash of a text, the same in every process; collisions are improbable."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big", signed=True)
