"""Search: converts a question to hits, by meaning and by words together, weighted, with the neighbours of each entry.

The score of an entry is `vector` + `keyword` (each scaled to 0 … 1 over the candidates, times its weight) +
`neighbours` (a share of its neighbours' scores) + `author` + `date`. `fusion` defines each of them. The best candidates
by cosine and words are compared again token by token (`late_interaction`) if the embedding offers tokens.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import compress
from typing import TYPE_CHECKING, Final, NamedTuple

from runtime.models.calls.call import BACKGROUND, CallOwner
from runtime.search.embedding.embedder import EmbeddedQuestion, Embedder
from runtime.search.entry import ALL_SUBJECTS, EntryFilter, IndexEntry
from runtime.search.errors import EmbeddingMismatch, EmbeddingUnavailable
from runtime.search.index.index import Index, IndexStats, Neighbours, ScoredEntries, WordMatches
from runtime.search.question import LONGEST, ParsedQuestion, Question, normalized_name, parse_question

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from runtime.search.late_interaction import QuestionTokens

CANDIDATES: Final = 500
"""Minimum number of entries from each side that are scored."""
COMPARED: Final = 40
"""Minimum number of them that are compared token by token, and their neighbours that are candidates, too."""

DIGITS: Final = 6
"""Decimals of the numbers of a hit: the precision of a float32."""
BY_KEYWORD: Final = "searched by keyword only"
"""The beginning of a note with the reason why there are no vectors."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A found entry. `parts`: what each part (`vector`, `keyword`, `neighbours`, `author`, `date`) added to `score`,
    without zeros.

    A score orders the hits of one search. `relevance`, 0 to 1, measures how well the entry itself fits and is
    comparable between searches. It is derived from `cosine`, -1 to 1 (None: no vector), and `keyword_share`, the share
    of the question's words in the entry, 0 to 1. All are rounded.
    """

    entry: IndexEntry
    score: float
    parts: Mapping[str, float]
    relevance: float
    cosine: float | None
    keyword_share: float


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    """Hits, best first, and notes for the caller about how they were found, one line each."""

    hits: tuple[Hit, ...]
    notes: tuple[str, ...] = ()


async def search(
    index: Index,
    embedder: Embedder | None,
    question: Question,
    *,
    without: str = "there is no embedding",
    owner: CallOwner = BACKGROUND,
) -> SearchAnswer:
    """Return the best `question.limit` entries of the index, best first. `owner`: for whom the question is embedded.

    Without an embedder (`without` says why), or if it does not answer, the search is by keyword only, and a note says
    so. Raises IndexFailed.
    """
    # Authors only help to read the question; finding them under the other criteria would read more entries.
    whose = question.wanted.subject
    among = replace(question.wanted, current=False, subject=ALL_SUBJECTS if whose is None else whose)
    parsed = parse_question(question, await index.authors(among))
    if not parsed.words:
        # An embedding returns a vector for any text; for punctuation alone it means nothing.
        return SearchAnswer((), ("the question has neither letters nor digits, so there are no words to look for",))
    found = await _search_results(index, embedder, question, parsed, without, owner)
    notes = tuple(_notes(parsed, found))
    keys = found.candidates()
    if not len(keys):
        return SearchAnswer((), notes)
    neighbours = await index.neighbours(keys)
    parts = _parts(keys, found, neighbours, parsed)
    compared = await _token_comparison(index, keys, found, parts, neighbours, question.limit)
    if compared is not None:
        keys = compared.keys
        parts = _parts(keys, found, compared.neighbours, parsed, compared.similar)
    fit = _fit(keys, found)
    hits = await _hits(index, keys, parts, fit, question)
    if len(hits) < min(question.limit, len(keys)) and question.threshold:
        notes = (*notes, f"hits below the threshold of {question.threshold:g} are omitted")
    return SearchAnswer(hits, notes)


@dataclass(frozen=True, slots=True)
class _SearchResults:
    """The results of both sides and their shares of the score; None: that side was not searched, see `reason`.
    `tokens`: of the question; None: candidates are not compared token by token."""

    keyword: WordMatches | None
    vector: ScoredEntries | None
    shares: tuple[float, float]
    stats: IndexStats | None = None
    reason: str | None = None
    tokens: QuestionTokens | None = None

    def candidates(self) -> NDArray[np.int64]:
        """Return every key that was found, ascending."""
        import numpy as np

        from runtime.search.fusion import union

        sides = [side.keys for side in (self.vector, self.keyword) if side is not None]
        return union(*sides) if sides else np.zeros(0, np.int64)


async def _search_results(
    index: Index, embedder: Embedder | None, question: Question, parsed: ParsedQuestion, without: str, owner: CallOwner
) -> _SearchResults:
    """Search by keyword while the question is embedded, then by vector."""
    by_vector, by_keyword = question.shares
    limit = max(CANDIDATES, question.limit)

    async def by_words() -> WordMatches:
        return await index.keyword(parsed.words, question.wanted, limit)

    if embedder is None or not by_vector:
        return _SearchResults(await by_words(), None, (0.0, 1.0), reason=without if by_vector else None)
    if by_keyword:
        keyword, embedded = await asyncio.gather(by_words(), _embed_question(embedder, parsed.meaning, owner))
    else:
        keyword, embedded = None, await _embed_question(embedder, parsed.meaning, owner)
    if isinstance(embedded, Exception):
        return _SearchResults(keyword or await by_words(), None, (0.0, 1.0), reason=str(embedded))
    also = None if keyword is None else keyword.keys
    try:
        stats, nearest = await asyncio.gather(
            index.stats(EntryFilter(agent=question.wanted.agent, user=question.wanted.user)),
            index.nearest(embedded.vector, question.wanted, limit, also),
        )
    except EmbeddingMismatch as error:
        return _SearchResults(keyword or await by_words(), None, (0.0, 1.0), reason=str(error))
    if not stats.embedded:
        return _SearchResults(keyword or await by_words(), None, (0.0, 1.0), stats)
    from runtime.search.late_interaction import question_tokens

    tokens = None
    # Similarities by tokens and by cosine cannot be compared, so all entries are compared in one way.
    if stats.tokenized >= stats.embedded:
        tokens = question_tokens(embedded, parsed.meaning, {} if keyword is None else keyword.weights)
    return _SearchResults(keyword, nearest, (by_vector, by_keyword), stats, tokens=tokens)


async def _embed_question(
    embedder: Embedder, text: str, owner: CallOwner
) -> EmbeddedQuestion | EmbeddingUnavailable | EmbeddingMismatch:
    """Return the embedded text, or why there is none."""
    try:
        return await embedder.embed_question_with_tokens(text, owner=owner)
    except (EmbeddingUnavailable, EmbeddingMismatch) as error:
        return error


def _notes(parsed: ParsedQuestion, found: _SearchResults) -> list[str]:
    notes = []
    if parsed.cut:
        notes.append(f"only the first {LONGEST} characters of the question were read")
    if parsed.only_stop_words:
        notes.append("the question has only stop words, so they were searched for")
    if found.reason is not None:
        notes.append(f"{BY_KEYWORD}: {found.reason}")
    stats = found.stats
    if stats is not None and stats.embedded < stats.entries:
        waiting = stats.entries - stats.embedded
        has = "has" if waiting == 1 else "have"
        notes.append(f"{waiting} of {stats.entries} items {has} no vector yet and can be found by keyword only")
    return notes


class _TokenComparison(NamedTuple):
    """Candidates that were compared token by token: their keys, ascending, their neighbours, and their similarities."""

    keys: NDArray[np.int64]
    neighbours: Neighbours
    similar: NDArray[np.float32]


async def _token_comparison(
    index: Index,
    keys: NDArray[np.int64],
    found: _SearchResults,
    parts: Mapping[str, NDArray[np.float32]],
    neighbours: Neighbours,
    limit: int,
) -> _TokenComparison | None:
    """Compare the best candidates token by token, and their neighbours as far as these are candidates, too. None: they
    cannot be compared, because the question or a text with a vector has no tokens."""
    if found.tokens is None or found.vector is None:
        return None
    import numpy as np

    from runtime.search import fusion
    from runtime.search.dependence import dependence
    from runtime.search.late_interaction import best_matches

    scores = np.sum(list(parts.values()), axis=0)
    best = np.lexsort((keys, -scores))[: max(COMPARED, limit)]
    beside = fusion.union(keys[best], neighbours.before[best], neighbours.after[best])
    chosen = fusion.places(keys, beside)
    chosen = chosen[chosen >= 0]
    keys, neighbours = keys[chosen], neighbours.at(chosen)
    bits = await index.tokens(keys)
    if any(each is None for each in compress(bits, np.isin(keys, found.vector.keys))):
        # Removed since they were counted, or of the version of another program that uses the same database.
        return None
    matches = best_matches(found.tokens, bits)
    before, after = fusion.places(keys, neighbours.before), fusion.places(keys, neighbours.after)
    matches = fusion.with_neighbours(matches, before, after, dependence(neighbours.words))
    return _TokenComparison(keys, neighbours, matches @ found.tokens.weights)


def _parts(
    keys: NDArray[np.int64],
    found: _SearchResults,
    neighbours: Neighbours,
    parsed: ParsedQuestion,
    similar: NDArray[np.float32] | None = None,
) -> Mapping[str, NDArray[np.float32]]:
    """Return the score of each candidate by part. `similar`: the similarity by tokens of each candidate."""
    import numpy as np

    from runtime.search import fusion
    from runtime.search.dependence import dependence

    by_vector, by_keyword = found.shares
    parts: dict[str, NDArray[np.float32]] = {}
    weighs = np.full(len(keys), by_keyword, np.float32)
    if found.vector is not None:
        embedded = np.isin(keys, found.vector.keys)
        near = fusion.scaled(fusion.aligned_scores(keys, *found.vector))
        if similar is not None:
            near = fusion.combined(near, fusion.scaled(np.where(embedded, similar, 0)))
        parts["vector"] = np.float32(by_vector) * near
        # Entries without a vector are weighted by their words alone, as all entries are without an embedding.
        weighs[~embedded] = 1.0
    if found.keyword is not None:
        parts["keyword"] = weighs * fusion.scaled(fusion.aligned_scores(keys, found.keyword.keys, found.keyword.scores))
    both: NDArray[np.float32] = np.sum(list(parts.values()), axis=0)
    before, after = fusion.places(keys, neighbours.before), fusion.places(keys, neighbours.after)
    depends = dependence(neighbours.words)
    parts["neighbours"] = fusion.from_neighbours(both, before, after, neighbours.asks, depends)
    if parsed.author is not None:
        theirs = [number for number, name in enumerate(neighbours.authors) if normalized_name(name) == parsed.author]
        parts["author"] = np.float32(fusion.AUTHOR) * np.isin(neighbours.author, theirs)
    if parsed.spans:
        parts["date"] = np.float32(fusion.DATE) * fusion.closeness(neighbours.time, parsed.spans)
    return parts


class _Fit(NamedTuple):
    """The fit of each candidate by itself: see `Hit`. A cosine is NaN if there is none."""

    relevance: NDArray[np.float64]
    cosine: NDArray[np.float64]
    keyword_share: NDArray[np.float64]


def _fit(keys: NDArray[np.int64], found: _SearchResults) -> _Fit:
    import numpy as np

    from runtime.search import fusion

    cosine, share = np.full(len(keys), np.nan), np.zeros(len(keys))
    if found.vector is not None:
        cosine[fusion.places(keys, found.vector.keys)] = found.vector.scores
    if found.keyword is not None:
        share[fusion.places(keys, found.keyword.keys)] = found.keyword.shares
    return _Fit(*(np.round(each, DIGITS) for each in (fusion.relevance(cosine, share), cosine, share)))


def _has_match(fit: _Fit, parts: Mapping[str, NDArray[np.float32]]) -> NDArray[np.bool_]:
    """Return True for candidates that have something in common with the question, or are next to such a one.

    The part `vector` does not show that: scaling gives a share to every cosine above the least, also below zero.
    """
    spoken: NDArray[np.bool_] = fit.relevance > 0
    for name, part in parts.items():
        if name != "vector":
            spoken |= part > 0
    return spoken


async def _hits(
    index: Index, keys: NDArray[np.int64], parts: Mapping[str, NDArray[np.float32]], fit: _Fit, question: Question
) -> tuple[Hit, ...]:
    import numpy as np

    scores = np.sum(list(parts.values()), axis=0)
    rounded = {name: np.round(part.astype(np.float64), DIGITS) for name, part in parts.items()}
    order = np.lexsort((keys, -scores))
    wanted = (fit.relevance >= question.threshold) & _has_match(fit, parts)
    order = order[wanted[order]][: question.limit]
    chosen = keys[order].tolist()
    entries = await index.entries(chosen)
    return tuple(
        Hit(
            entries[key],
            round(float(scores[at]), DIGITS),
            {name: float(part[at]) for name, part in rounded.items() if part[at]},
            float(fit.relevance[at]),
            None if np.isnan(fit.cosine[at]) else float(fit.cosine[at]),
            float(fit.keyword_share[at]),
        )
        for at, key in zip(order.tolist(), chosen, strict=True)
        if key in entries
    )
