"""Checks that the tables of an index file agree: entries, words, tags, parts, vectors and token bits."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np

from runtime.search.index.embedded.schema import decode_content
from runtime.search.index.embedded.sqlcipher import connect
from tests.runtime.search.index.entries import bits, vector


def key_of(path: Path) -> bytes | None:
    """Return the key that seals the index, in tests that only use its name."""
    return b"k" * 32 if path.stem == "sealed" else None


def agree(path: Path) -> int:
    """Return the number of entries. Raises AssertionError with the difference. Vectors and token bits must be those of
    their texts."""
    with contextlib.closing(connect(path, key_of(path), timeout=10)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        # With rank 1 the words are compared with the texts of the entries.
        connection.execute("INSERT INTO words (words, rank) VALUES ('integrity-check', 1)")
        entries = {row[0]: row[1:] for row in connection.execute("SELECT key, part, content, text FROM entries")}
        assert connection.execute("SELECT id FROM entries GROUP BY id HAVING count(*) > 1").fetchall() == []
        assert {key for (key,) in connection.execute("SELECT id FROM words_docsize")} == entries.keys()
        parts = {key for (key,) in connection.execute("SELECT key FROM parts")}
        assert {part for part, _, _ in entries.values()} <= parts
        tags = {(tag, key) for key, (_, content, _) in entries.items() for tag in decode_content(content).tags}
        assert set(connection.execute("SELECT tag, key FROM tags")) == tags
        vectors = dict(connection.execute("SELECT key, vector FROM vectors"))
        assert vectors.keys() <= entries.keys()
        for key, kept in vectors.items():
            numbers = np.frombuffer(kept, np.float32)
            assert np.allclose(numbers, vector(entries[key][2], len(numbers)), atol=1e-6)
        meta = dict(connection.execute("SELECT name, value FROM meta"))
        assert not vectors or {4 * meta["dimension"]} == {len(kept) for kept in vectors.values()}
        tokens = dict(connection.execute("SELECT key, bits FROM tokens"))
        assert tokens == {key: bits(entries[key][2]) for key in tokens}
        assert not tokens or meta["token_bits"]
        return len(entries)
