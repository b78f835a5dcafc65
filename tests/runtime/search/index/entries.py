"""Entries for tests, and vectors and token bits computed from their texts."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runtime.search.entry import EntryFilter, IndexEntry
from runtime.search.index.index import AppendedEntries, Index, PendingEntry, ScoredEntries, WordMatches

WHEN = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
DIMENSION = 8
TOKEN_BITS = "bits-of-words"
EVERYTHING = EntryFilter()


async def append(
    index: Index, part: str, agent: str, before: str | None, after: str, entries: Sequence[IndexEntry]
) -> bool:
    """Append entries to one part."""
    (done,) = await index.append([AppendedEntries(part, agent, before, after, entries)])
    return done


def entry(identity: str, text: str, **fields: Any) -> IndexEntry:
    """Return an entry of the agent `reviewer`, without author and neighbours unless `fields` has them."""
    given: dict[str, Any] = {
        "id": identity,
        "agent": "reviewer",
        "user": "owner",
        "project": None,
        "type": "episodic",
        "time": WHEN,
        "source": None,
        "tags": (),
        "text": text,
        "hash": hashlib.sha256(text.encode(errors="replace")).hexdigest(),
        "author": None,
        "group": "",
        "order": 0,
        "part": "log",
        "line": None,
        "rest": "",
    }
    return IndexEntry(**(given | fields))


def talk(*texts: str, start: int = 0, **fields: Any) -> list[IndexEntry]:
    """Return entries `e0`, `e1` … of one group, a minute apart."""
    return [
        entry(f"e{n}", text, **({"group": "talk", "order": n, "time": WHEN + timedelta(minutes=n)} | fields))
        for n, text in enumerate(texts, start)
    ]


def vector(text: str, dimension: int = DIMENSION) -> NDArray[np.float32]:
    """Return a vector of length 1 that depends only on the text."""
    seed = int.from_bytes(hashlib.sha256(text.encode(errors="replace")).digest()[:8], "big")
    numbers = np.random.default_rng(seed).normal(size=dimension)
    return (numbers / np.linalg.norm(numbers)).astype(np.float32)


def vectors(
    pending: Sequence[PendingEntry], dimension: int = DIMENSION
) -> list[tuple[PendingEntry, NDArray[np.float32]]]:
    """Return the argument of `Index.embedded` for these."""
    return [(one, vector(one.text, dimension)) for one in pending]


async def embed(index: Index, limit: int = 1000) -> int:
    """Store the vector of every entry that waits for one; return their number."""
    return await index.embed(vectors(await index.pending(limit)))


def bits(text: str) -> bytes:
    """Return token bits that depend only on the text: DIMENSION of each word."""
    words = (hashlib.sha256(word.encode(errors="replace")).digest() for word in text.split())
    return b"".join(word[: DIMENSION // 8] for word in words)


async def embed_with_tokens(index: Index, limit: int = 1000) -> int:
    """Store the vector and the token bits of every entry that waits; return their number."""
    waiting = await index.pending(limit)
    return await index.embed(vectors(waiting), [bits(one.text) for one in waiting])


async def tokens(index: Index, *identities: str) -> list[bytes | None]:
    """Return the token bits of the entries with these ids, in this order."""
    found = await index.nearest(vector("anything"), EVERYTHING, 100_000)
    keys = {one.id: key for key, one in (await index.entries(found.keys.tolist())).items()}
    return list(await index.tokens(np.array([keys[name] for name in identities], np.int64)))


async def ids(index: Index, found: ScoredEntries | WordMatches) -> list[str]:
    """Return the ids of the hits, best first."""
    keys = found.keys.tolist()
    entries = await index.entries(keys)
    return [entries[key].id for key in keys]


async def said(index: Index, words: str, wanted: EntryFilter = EVERYTHING, limit: int = 100) -> list[str]:
    """Search for these words; return the ids, best first."""
    return await ids(index, await index.keyword(words.split(), wanted, limit))


async def near(index: Index, text: str, wanted: EntryFilter = EVERYTHING, limit: int = 100) -> list[str]:
    """Search for the vector of this text; return the ids, nearest first."""
    return await ids(index, await index.nearest(vector(text), wanted, limit))


async def everything(index: Index, wanted: EntryFilter = EVERYTHING) -> dict[str, IndexEntry]:
    """Return all entries that have a vector, by id."""
    found = await index.nearest(vector("anything"), wanted, 100_000)
    return {one.id: one for one in (await index.entries(found.keys.tolist())).values()}
