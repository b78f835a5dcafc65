"""Index files as the version 6 of the schema had them, without token bits."""

from __future__ import annotations

import contextlib
from pathlib import Path

from runtime.search.index.embedded.sqlcipher import connect

TABLES = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value ANY) WITHOUT ROWID;
CREATE TABLE parts (key INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, agent TEXT NOT NULL, revision TEXT NOT NULL);
CREATE INDEX parts_of_agent ON parts (agent);
CREATE TABLE entries (
    key INTEGER PRIMARY KEY, id TEXT NOT NULL, hash TEXT NOT NULL, about TEXT NOT NULL, text TEXT NOT NULL,
    said BLOB NOT NULL, part INTEGER NOT NULL, place BLOB NOT NULL
);
CREATE TABLE tags (tag TEXT NOT NULL, key INTEGER NOT NULL, PRIMARY KEY (tag, key)) WITHOUT ROWID;
CREATE TABLE other_sources (source TEXT NOT NULL, key INTEGER NOT NULL, PRIMARY KEY (source, key)) WITHOUT ROWID;
CREATE TABLE vectors (key INTEGER PRIMARY KEY, vector BLOB NOT NULL);
CREATE VIRTUAL TABLE words USING fts5 (
    text, about, content = 'entries', content_rowid = 'key', tokenize = 'porter unicode61'
);
CREATE VIRTUAL TABLE occurrences USING fts5vocab ('words', 'instance')
"""
FILLED = ("parts", "entries", "tags", "other_sources", "vectors")


def make_version_6(path: Path, key: bytes | None = None) -> None:
    """Replace a closed index file, sealed with `key` if given, with one of version 6 that has the same entries and
    vectors."""
    before = path.with_suffix(".before")
    path.rename(before)
    for suffix in ("-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
    with contextlib.closing(connect(before, key, 10)) as old, contextlib.closing(connect(path, key, 10)) as new:
        new.execute("PRAGMA journal_mode = WAL").fetchall()
        new.execute("BEGIN IMMEDIATE")
        for statement in TABLES.split(";"):
            new.execute(statement)
        for table in FILLED:
            rows = old.execute(f"SELECT * FROM {table}").fetchall()
            if rows:
                new.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows[0]))})", rows)
        meta = old.execute("SELECT name, value FROM meta WHERE name <> 'token_bits'")
        new.executemany("INSERT INTO meta (name, value) VALUES (?, ?)", meta.fetchall())
        new.execute("INSERT INTO words (rowid, text, about) SELECT key, text, about FROM entries")
        new.execute("PRAGMA user_version = 6")
        new.execute("COMMIT")
    before.unlink()
