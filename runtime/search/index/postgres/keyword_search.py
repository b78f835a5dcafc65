"""Keyword search with the same BM25 as in the embedded index: PostgreSQL returns the occurrences of stems, the
scores are computed here."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from runtime.search.dependence import dependence
from runtime.search.entry import EntryFilter
from runtime.search.index.embedded.bm25 import ABOUT, CONTEXT, TEXT, Sums
from runtime.search.index.embedded.matrix import best
from runtime.search.index.embedded.schema import EPOCH, about
from runtime.search.index.embedded.tokenizer import Phrase, Tokenizer
from runtime.search.index.index import Matched
from runtime.search.index.postgres.filters import Where
from runtime.search.index.postgres.stemming import Stems, from_postgres, query, spelled

if TYPE_CHECKING:
    from numpy.typing import NDArray

_TOTALS = "SELECT coalesce(sum(entries), 0)::bigint, coalesce(sum(size), 0)::bigint FROM totals p WHERE "
# Columns are joined to bytes in PostgreSQL and parsed by numpy: several times faster than one row per key in Python.
_SINGLE = """
SELECT string_agg(int8send(q.number), ''), string_agg(int8send(w.key), ''), string_agg(int8send(p.before), ''),
    string_agg(int8send(p.after), ''), string_agg(int8send(coalesce((w.often ->> q.stem)::bigint, 4294967296)), '')
FROM unnest($1::text[], $2::text[]::tsquery[]) WITH ORDINALITY AS q (stem, query, number)
JOIN words w ON w.words @@ q.query JOIN places p USING (key) WHERE """
_TOGETHER = """
SELECT w.key, p.before, p.after, e.text, p.author, p.time FROM words w JOIN entries e USING (key)
JOIN places p USING (key) WHERE w.words @@ $1::text::tsquery AND """
_MEASURED = """
SELECT string_agg(int8send(p.key), ''), string_agg(int8send(p.size), ''), string_agg(int8send(p.text_size), ''),
    string_agg(boolsend(coalesce({scope}, false)), ''), string_agg(boolsend(coalesce({wanted}, false)), '')
FROM places p WHERE p.key = ANY($1::bigint[])"""


class Postings(NamedTuple):
    """The occurrences of a word: keys, those before and after them, and the counts in the text and in the metadata."""

    keys: NDArray[np.int64]
    before: NDArray[np.int64]
    after: NDArray[np.int64]
    text: NDArray[np.int64]
    about: NDArray[np.int64]


class _Measured(NamedTuple):
    """Entries by ascending key: their number of words with context, how much they depend on their neighbours, and if
    they are in the scope and wanted."""

    keys: NDArray[np.int64]
    size: NDArray[np.int64]
    depends: NDArray[np.float32]
    scope: NDArray[np.bool_]
    wanted: NDArray[np.bool_]


async def keyword(
    connection: Any, tokenizer: Tokenizer, stems: Stems, words: Sequence[str], wanted: EntryFilter, limit: int
) -> Matched:
    """See `Index.keyword`."""
    phrases = tokenizer.phrases(words)
    where = Where().scope(wanted.agent, wanted.user)
    entries, size = await connection.fetchrow(_TOTALS + where.sql, *where.values)
    if not phrases or not entries:
        nothing = np.zeros(0, np.float32)
        return Matched(np.zeros(0, np.int64), nothing, nothing, {})
    postings = await _postings(connection, stems, phrases, wanted.agent)
    measured = await _measured(connection, postings, wanted)
    sums = _sums(postings, measured, entries, size)
    chosen = (sums.scores > 0) & measured.wanted
    keys, scores = best(measured.keys[chosen], sums.scores[chosen], limit)
    shares = sums.shares[np.searchsorted(measured.keys, keys)]
    return Matched(keys, scores, shares, tokenizer.spread(sums.weights, words))


async def _postings(connection: Any, stems: Stems, phrases: Sequence[Phrase], agent: str | None) -> list[Postings]:
    """Return the postings of each phrase, in order. For one agent only its own: its groups are its own, too."""
    singles = [(at, spelled(phrase[0])) for at, phrase in enumerate(phrases) if len(phrase) == 1]
    found: dict[int, Postings] = {}
    if singles:
        terms = [term for _, term in singles]
        where = Where(terms, [query([term]) for term in terms]).scope(agent, None)
        row = await connection.fetchrow(_SINGLE + where.sql, *where.values)
        number, keys, before, after, counts = map(_numbers, row)
        for at, (place, _) in enumerate(singles, 1):
            its = number == at
            found[place] = Postings(keys[its], before[its], after[its], counts[its] >> 32, counts[its] & 0xFFFFFFFF)
    for at, phrase in enumerate(phrases):
        if len(phrase) > 1:
            found[at] = await _together(connection, stems, phrase, agent)
    return [found[at] for at in range(len(phrases))]


async def _together(connection: Any, stems: Stems, phrase: Phrase, agent: str | None) -> Postings:
    """Return where these words are consecutive: texts that contain them all are read again."""
    where = Where(query(dict.fromkeys(map(spelled, phrase)))).scope(agent, None)
    rows = await connection.fetch(_TOGETHER + where.sql, *where.values)
    texts = [
        (
            from_postgres(text),
            about(None if author is None else from_postgres(author), EPOCH + timedelta(microseconds=time)),
        )
        for _, _, _, text, author, time in rows
    ]
    read = await asyncio.to_thread(stems.read, texts)
    counts = np.array([[_count(column, phrase) for column in columns] for columns in read], np.int64).reshape(-1, 2)
    there = counts.any(axis=1)
    keys, before, after = (np.array([row[at] for row in rows], np.int64)[there] for at in range(3))
    return Postings(keys, before, after, counts[there, 0], counts[there, 1])


def _count(stems: Sequence[str], phrase: Phrase) -> int:
    size = len(phrase)
    return sum(tuple(stems[at : at + size]) == phrase for at in _places(stems, phrase[0]))


def _places(stems: Sequence[str], first: str) -> Iterator[int]:
    return (at for at, stem in enumerate(stems) if stem == first)


async def _measured(connection: Any, postings: Sequence[Postings], wanted: EntryFilter) -> _Measured:
    every = [column for word in postings for column in (word.keys, word.before, word.after)]
    keys = np.unique(np.concatenate(every))
    where = Where(keys[keys > 0].tolist())
    scope = where.scope(wanted.agent, wanted.user).sql
    where = Where(*where.values)
    wants = where.wanted(wanted).sql
    row = await connection.fetchrow(_MEASURED.format(scope=scope, wanted=wants), *where.values)
    found, size, words = map(_numbers, row[:3])
    order = np.argsort(found)
    in_scope, is_wanted = (np.frombuffer(column or b"", np.bool_)[order] for column in row[3:])
    depends = dependence(words[order]).astype(np.float32)
    return _Measured(found[order], size[order], depends, in_scope, is_wanted)


def _sums(postings: Sequence[Postings], measured: _Measured, entries: int, size: int) -> Sums:
    """Return scores and shares as `bm25.scores` does, for the measured entries only."""
    sums = Sums(len(measured.keys), entries, size)
    for word in postings:
        counts = _counts(word, measured)
        at = np.flatnonzero((counts > 0) & measured.scope)
        sums.add(at, counts[at], measured.size[at])
    return sums


def _counts(word: Postings, measured: _Measured) -> NDArray[np.float32]:
    """Return how often the word occurs in each entry, weighted by column; an entry is the neighbour of one on each
    side."""
    keys, depends = measured.keys, measured.depends
    counts = np.zeros(len(keys), np.float32)
    there = np.isin(word.keys, keys)
    own, text = np.searchsorted(keys, word.keys[there]), word.text[there].astype(np.float32)
    counts[own] += TEXT * text + ABOUT * word.about[there].astype(np.float32)
    context = CONTEXT * text * depends[own]
    for column in (word.before[there], word.after[there]):
        known = np.isin(column, keys)
        at = np.searchsorted(keys, column[known])
        counts[at] += context[known] * depends[at]
    return counts


def _numbers(joined: bytes | None) -> NDArray[np.int64]:
    """Return the numbers that PostgreSQL's `int8send` encoded; None: none."""
    return np.frombuffer(joined or b"", ">i8").astype(np.int64)
