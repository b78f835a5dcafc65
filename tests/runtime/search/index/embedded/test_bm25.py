"""Scores equal those of FTS5 over a table with text, author and date, and context."""

from __future__ import annotations

import contextlib
import sqlite3
from datetime import timedelta
from math import log1p

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.search.dependence import SHORT
from runtime.search.entry import EntryFilter, IndexEntry
from runtime.search.index import open_index
from runtime.search.index.embedded.bm25 import ABOUT, CONTEXT, TEXT
from runtime.search.index.embedded.schema import TOKENIZE, about
from tests.lanes import examples
from tests.runtime.search.index.entries import EVERYTHING, WHEN, entry
from tests.runtime.search.index.model import WORDS

texts = st.lists(st.sampled_from((*WORDS, "running", "runs", "May", "e-mail", "e", "Zoë's")), min_size=0, max_size=9)


def by_fts5(entries: list[IndexEntry], words: list[str]) -> dict[str, float]:
    """Return FTS5's scores of entries, in this order, of which those with a group are one."""
    sql = f"CREATE VIRTUAL TABLE t USING fts5 (text, about, context, tokenize = '{TOKENIZE}')"
    query = " OR ".join(f'"{word}"' for word in words)
    said = ["", *(one.text for one in entries), ""]
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(sql)
        for at, one in enumerate(entries):
            context = f"{said[at]}\n{said[at + 2]}" if one.group else ""
            row = (at, one.text, about(one.author, one.time), context)
            connection.execute("INSERT INTO t (rowid, text, about, context) VALUES (?, ?, ?, ?)", row)
        scores = f"SELECT rowid, -bm25(t, {TEXT}, {ABOUT}, {CONTEXT}) FROM t WHERE t MATCH ?"
        return {entries[at].id: score for at, score in connection.execute(scores, (query,))}


@settings(max_examples=examples(60))
@given(
    before=st.lists(texts, max_size=9),
    said=st.lists(texts, min_size=1, max_size=9),
    words=st.lists(
        st.sampled_from((*WORDS, "run", "may", "2023", "Monday", "zoe", "e-mail", "nowhere")),
        min_size=1,
        max_size=4,
        unique=True,
    ),
)
async def test_scores_are_those_of_fts5_also_after_a_change(
    before: list[list[str]], said: list[list[str]], words: list[str]
) -> None:
    earlier, entries = (
        [
            entry(f"{n}", " ".join(text), group="g", time=WHEN + timedelta(minutes=n), author="Zoë" if n % 2 else None)
            for n, text in enumerate(version)
        ]
        for version in (before, said)
    )
    index = await open_index(None, None, {})
    try:
        await index.put("other", "other", "1", [entry(f"x{n}", "alpha beta", agent="other") for n in range(3)])
        # What was read before a change is corrected, not read again.
        await index.put("log", "reviewer", "1", earlier)
        await index.keyword(words, EntryFilter(agent="reviewer"), 100)
        await index.put("log", "reviewer", "2", entries)
        found = await index.keyword(words, EntryFilter(agent="reviewer"), 100)
        ids = await index.entries(found.keys.tolist())
        scores = {ids[key].id: score for key, score in zip(found.keys.tolist(), found.scores.tolist(), strict=True)}
        assert scores == pytest.approx(by_fts5(entries, words), rel=1e-4)
    finally:
        await index.close()


async def test_a_text_of_more_words_than_a_byte_counts_weighs_as_fts5_says() -> None:
    entries = [
        entry(f"{n}", "alpha " + "beta " * n, group="", order=n, author="word " * (n // 20) or None)
        for n in (0, 1, 120, 127, 128, 300, 20_000, 3)
    ]
    entries.sort(key=lambda one: one.order)
    index = await open_index(None, None, {})
    try:
        await index.put("log", "reviewer", "1", entries)
        found = await index.keyword(["alpha", "word"], EVERYTHING, 100)
        ids = await index.entries(found.keys.tolist())
        scores = {ids[key].id: score for key, score in zip(found.keys.tolist(), found.scores.tolist(), strict=True)}
        assert scores == pytest.approx(by_fts5(entries, ["alpha", "word"]), rel=1e-3)
    finally:
        await index.close()


async def test_words_of_a_neighbour_count_less_the_longer_both_texts_are() -> None:
    scores = [await score_beside(own, other) for own, other in ((1, 1), (100, 1), (1, 100), (100, 100))]
    assert scores[0] > scores[1] > scores[3] > 0
    assert scores[0] > scores[2] > scores[3]
    assert await score_beside(2 * SHORT, 1) == await score_beside(1, 2 * SHORT) == 0


async def score_beside(own: int, other: int) -> float:
    """Return the score of a text of so many words for a word of the one beside it, of so many words."""
    index = await open_index(None, None, {})
    try:
        said = ("alpha " + "beta " * (other - 1), "gamma " * own)
        entries = [entry(f"{n}", text, group="g", order=n) for n, text in enumerate(said)]
        others = [entry(f"other {n}", "gamma", group="") for n in range(9)]
        await index.put("log", "reviewer", "1", [*entries, *others])
        found = await index.keyword(["alpha"], EVERYTHING, 100)
        ids = await index.entries(found.keys.tolist())
        scores = {ids[key].id: score for key, score in zip(found.keys.tolist(), found.scores.tolist(), strict=True)}
        return float(scores.get("1", 0))
    finally:
        await index.close()


async def test_a_word_weighs_as_rare_as_it_is_among_the_entries_of_whom_it_is_searched_for() -> None:
    index = await open_index(None, None, {})
    try:
        said = [entry(f"{n}", "alpha beta" if n == 0 else "beta", group="") for n in range(9)]
        others = [entry(f"other {n}", "alpha", group="", user="bob") for n in range(9)]
        await index.put("log", "reviewer", "1", [*said, *others])
        found = await index.keyword(["alpha", "Beta", "nowhere"], EntryFilter(user="owner"), 100)
        expected = {"alpha": log1p(8.5 / 1.5), "Beta": log1p(0.5 / 9.5), "nowhere": log1p(9.5 / 0.5)}
        assert found.weights == pytest.approx(expected)
    finally:
        await index.close()
