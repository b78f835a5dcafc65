"""The tables of an embedded index, and how an entry becomes a row of them."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Any

import msgspec

from runtime.search.entry import Entry

VERSION = 1
"""Kept in the file as `user_version`: a file of another one is made anew."""

TOKENIZE = "porter unicode61"
"""How texts become words: Unicode letters and digits, case folded, diacritics removed, English endings cut off."""

TABLES = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value ANY) WITHOUT ROWID;
CREATE TABLE parts (key INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, agent TEXT NOT NULL, revision TEXT NOT NULL);
CREATE INDEX parts_of_agent ON parts (agent);
CREATE TABLE entries (
    key INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, part INTEGER NOT NULL, agent TEXT NOT NULL, user TEXT NOT NULL,
    project TEXT, type TEXT NOT NULL, time INTEGER NOT NULL, source TEXT, author TEXT, grp TEXT NOT NULL,
    ord INTEGER NOT NULL, line INTEGER, tags TEXT NOT NULL, hash TEXT NOT NULL, about TEXT NOT NULL, text TEXT NOT NULL,
    rest TEXT NOT NULL
);
CREATE INDEX entries_of_part ON entries (part);
CREATE TABLE tags (tag TEXT NOT NULL, key INTEGER NOT NULL, PRIMARY KEY (tag, key)) WITHOUT ROWID;
CREATE TABLE vectors (key INTEGER PRIMARY KEY, vector BLOB NOT NULL);
CREATE VIRTUAL TABLE words USING fts5 (
    text, about, content = 'entries', content_rowid = 'key', tokenize = 'TOKENIZE'
);
CREATE VIRTUAL TABLE occurrences USING fts5vocab ('words', 'instance')
""".replace("TOKENIZE", TOKENIZE)
"""`words` indexes what stands in `entries` and keeps no copy of it; a key is a row of the matrix and never 0.

There is no column for an entry's context, the texts before and after it: where a word stands in it follows from where
it stands in those texts (see `bm25`), so nothing is written three times and nothing goes stale.
"""

NAMES = frozenset(
    {"meta", "parts", "entries", "tags", "vectors", "words", "words_data", "words_docsize", "occurrences"}
)
"""Tables that every file of this version has."""

SAID = (
    *("id", "agent", "user", "project", "type", "time", "source", "author", "grp", "tags", "hash", "about"),
    "text",
)
"""What an entry says: when all of it is as it was, the entry is."""
PLACE = ("part", "line", "ord", "rest")
"""What may change while an entry stays."""
COLUMNS = (*SAID, *PLACE)

Row = tuple[Any, ...]
"""The values of COLUMNS."""

ID, AGENT, USER, PROJECT, TYPE, TIME, SOURCE, AUTHOR, GROUP, TAGS, HASH, ABOUT, TEXT, PART, LINE, ORDER, REST = range(
    len(COLUMNS)
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November"),
    "December",
)


def microseconds(time: datetime) -> int:
    """An aware time as microseconds since 1970 in UTC, exactly."""
    return (time - EPOCH) // _MICROSECOND


def row_of(entry: Entry, part: int) -> Row:
    """The row of an entry in the part of that key."""
    return (
        entry.id,
        entry.agent,
        entry.user,
        entry.project,
        entry.type,
        microseconds(entry.time),
        entry.source,
        entry.author,
        entry.group,
        msgspec.json.encode(entry.tags).decode() if entry.tags else "",
        entry.hash,
        about(entry.author, entry.time),
        entry.text,
        part,
        entry.line,
        entry.order,
        entry.rest,
    )


def entry_of(row: Sequence[Any], part: str) -> Entry:
    """The entry that a row is, in the part of that name."""
    return Entry(
        id=row[ID],
        agent=row[AGENT],
        user=row[USER],
        project=row[PROJECT],
        type=row[TYPE],
        time=EPOCH + timedelta(microseconds=row[TIME]),
        source=row[SOURCE],
        tags=tags_of(row[TAGS]),
        text=row[TEXT],
        hash=row[HASH],
        author=row[AUTHOR],
        group=row[GROUP],
        order=row[ORDER],
        part=part,
        line=row[LINE],
        rest=row[REST],
    )


def tags_of(column: str) -> tuple[str, ...]:
    """The tags that the column `tags` says."""
    return msgspec.json.decode(column, type=tuple[str, ...]) if column else ()


def about(author: str | None, time: datetime) -> str:
    """The words under which an entry is found besides its text: who said it, and when."""
    return _about(author, (time if time.tzinfo is UTC else time.astimezone(UTC)).date())


@lru_cache(maxsize=4096)
def _about(author: str | None, day: date) -> str:
    said = f"{author} " if author else ""
    return f"{said}{_DAYS[day.weekday()]} {day.day} {_MONTHS[day.month - 1]} {day.year}"


def make(connection: sqlite3.Connection) -> None:
    """Make the tables in an empty file, in the transaction that is open."""
    for statement in TABLES.split(";"):
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {VERSION}")
