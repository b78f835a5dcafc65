"""The tables of an embedded index, and the rows of its entries."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from runtime.search.entry import IndexEntry

VERSION = 8
"""Stored as `user_version`: a file of another version is created again."""

TOKENIZE = "porter unicode61"
"""The tokenizer of FTS5: Unicode letters and digits, case folded, diacritics removed, English endings cut
off."""

TABLES = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value ANY) WITHOUT ROWID;
CREATE TABLE parts (key INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, agent TEXT NOT NULL, revision TEXT NOT NULL);
CREATE INDEX parts_of_agent ON parts (agent);
CREATE TABLE entries (
    key INTEGER PRIMARY KEY, id TEXT NOT NULL, hash TEXT NOT NULL, about TEXT NOT NULL, text TEXT NOT NULL,
    content BLOB NOT NULL, part INTEGER NOT NULL, position BLOB NOT NULL
);
CREATE TABLE tags (tag TEXT NOT NULL, key INTEGER NOT NULL, PRIMARY KEY (tag, key)) WITHOUT ROWID;
CREATE TABLE other_sources (source TEXT NOT NULL, key INTEGER NOT NULL, PRIMARY KEY (source, key)) WITHOUT ROWID;
CREATE TABLE vectors (key INTEGER PRIMARY KEY, vector BLOB NOT NULL);
CREATE TABLE tokens (key INTEGER PRIMARY KEY, bits BLOB NOT NULL);
CREATE INDEX tokenized ON tokens (key);
CREATE VIRTUAL TABLE words USING fts5 (
    text, about, content = 'entries', content_rowid = 'key', tokenize = 'TOKENIZE'
);
CREATE VIRTUAL TABLE occurrences USING fts5vocab ('words', 'instance')
""".replace("TOKENIZE", TOKENIZE)
"""`tokens` has the token bits of entries, empty for a text without tokens; the index `tokenized` lists the keys without
reading the bits, which are much larger.

`words` indexes the texts in `entries` without a copy of them; a key is a row of the matrix and never 0.

There is no column for an entry's context, the texts before and after it: the occurrences of a word in it follow from
those in these texts (see `bm25`), so nothing is stored three times or becomes stale. There is no index of ids: they are
known in memory, and an index costs a tenth of an insertion.
"""

NAMES = frozenset(
    {
        "meta",
        "parts",
        "entries",
        "tags",
        "other_sources",
        "vectors",
        "tokens",
        "tokenized",
        "words",
        "words_data",
        "words_docsize",
        "occurrences",
    }
)
"""The tables of every file, and the index of one."""

COLUMNS = ("id", "hash", "about", "text", "content", "part", "position")
CONTENT_COLUMNS = 5
"""The number of columns with the entry's content. The others may change while the content stays."""

_WORDS_AT_ONCE = 8 * 1024 * 1024
"""Bytes of words that a transaction gathers before it writes them. FTS5's own 1 MiB divides a large transaction into
many small segments that it must merge."""
_WORDS_OF_A_PAGE = 8050
"""Bytes of words that are stored together, as many as fit into a page of the file."""

StoredRow = tuple[Any, ...]
"""The values of COLUMNS."""
ID, HASH, ABOUT, TEXT, CONTENT, PART, POSITION = range(len(COLUMNS))


class Content(NamedTuple):
    """The content of an entry besides its text, with its time in microseconds: one column, in MessagePack. Filters work
    in memory, and a column of its own costs more to write than its content."""

    agent: str
    user: str
    project: str | None
    type: str
    time: int
    source: str | None
    author: str | None
    group: str
    other_sources: tuple[str, ...]
    tags: tuple[str, ...]
    subject: str | None
    replaces: str | None
    retracts: str | None


Position = tuple[int | None, int, str]
"""Its line, its order and the rest, as one column, too."""

pack = msgspec.msgpack.Encoder().encode
decode_content = msgspec.msgpack.Decoder(Content).decode
"""Decode the column `content`. Raises msgspec.DecodeError."""
decode_position = msgspec.msgpack.Decoder(Position).decode
"""Decode the column `position`. Raises msgspec.DecodeError."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November"),
    "December",
)


def microseconds(time: datetime) -> int:
    """Return an aware time as microseconds since 1970 in UTC, exactly."""
    return (time - EPOCH) // _MICROSECOND


def content_of(entry: IndexEntry) -> Content:
    """Return the content of an entry besides its text."""
    time = microseconds(entry.time)
    return Content(
        *(entry.agent, entry.user, entry.project, entry.type, time, entry.source, entry.author, entry.group),
        *(entry.other_sources, entry.tags, entry.subject, entry.replaces, entry.retracts),
    )


def row_of(entry: IndexEntry, content: Content, part: int) -> StoredRow:
    """Return the row of an entry in the part with that key."""
    position = pack((entry.line, entry.order, entry.rest))
    return entry.id, entry.hash, about(entry.author, entry.time), entry.text, pack(content), part, position


def entry_of(row: Sequence[Any], part: str) -> IndexEntry:
    """Return the entry of a row, in the part with that name."""
    content = decode_content(row[CONTENT])
    line, order, rest = decode_position(row[POSITION])
    fields: dict[str, Any] = content._asdict() | {"time": EPOCH + timedelta(microseconds=content.time)}
    return IndexEntry(
        id=row[ID], text=row[TEXT], hash=row[HASH], part=part, line=line, order=order, rest=rest, **fields
    )


def about(author: str | None, time: datetime) -> str:
    """Return the words by which an entry is found besides its text: its author and its date."""
    return _about(author, (time if time.tzinfo is UTC else time.astimezone(UTC)).date())


@lru_cache(maxsize=4096)
def _about(author: str | None, day: date) -> str:
    name = f"{author} " if author else ""
    return f"{name}{_DAYS[day.weekday()]} {day.day} {_MONTHS[day.month - 1]} {day.year}"


UNSCRUBBED = "SELECT EXISTS (SELECT 1 FROM meta WHERE name = 'unscrubbed')"
"""True if something was deleted or changed since the words were last scrubbed; stored in the file, because a process
may be killed before."""


def mark_unscrubbed(connection: sqlite3.Connection) -> None:
    """Note a deletion or change, in the open transaction."""
    connection.execute("INSERT OR IGNORE INTO meta (name, value) VALUES ('unscrubbed', 1)")


def merge_words(connection: sqlite3.Connection) -> None:
    """Merge all words into one segment, which contains none of deleted entries."""
    connection.execute("INSERT INTO words (words) VALUES ('optimize')")


def mark_scrubbed(connection: sqlite3.Connection) -> None:
    """Note that no deleted content is left in the file."""
    connection.execute("DELETE FROM meta WHERE name = 'unscrubbed'")


def make(connection: sqlite3.Connection) -> None:
    """Create the tables in an empty file, in the open transaction."""
    for statement in TABLES.split(";"):
        connection.execute(statement)
    settings = (("hashsize", _WORDS_AT_ONCE), ("pgsz", _WORDS_OF_A_PAGE))
    connection.executemany("INSERT INTO words (words, rank) VALUES (?, ?)", settings)
    connection.execute(f"PRAGMA user_version = {VERSION}")
