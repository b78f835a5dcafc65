"""Scores of rankings: of each question, on average, by group, and the difference between two ways of searching."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log2
from typing import Final, NamedTuple

from bench.harness.dialogues import ADVERSARIAL, TOGETHER, Query

DRAWS: Final = 1_000
"""Samples of conversations from which a standard error is computed."""
_SEED: Final = 17


class Ranking(NamedTuple):
    """The ids of the turns that were found for a question about a conversation, best first."""

    conversation: str
    query: Query
    found: Sequence[str]


class Outcome(NamedTuple):
    """The scores of one question: the share of the evidence among the first 5 and 10 hits, and nDCG of the first 10."""

    conversation: str
    query: Query
    recall_5: float
    recall_10: float
    ndcg_10: float

    @property
    def usual(self) -> bool:
        """True if the question is of a category that is averaged together with others."""
        return self.query.cat in TOGETHER


@dataclass(frozen=True, slots=True)
class Score:
    """Average scores of some questions."""

    queries: int
    recall_5: float
    recall_10: float
    ndcg_10: float


class Difference(NamedTuple):
    """How much better a search is than the best of others, on average over all questions.

    `error`: its standard error, by bootstrap over conversations; None with only one.
    """

    best: str
    mean: float
    error: float | None


def outcomes(rankings: Iterable[Ranking]) -> list[Outcome]:
    """Return the scores of each question, in order. Questions without evidence are omitted."""
    return [
        Outcome(
            conversation,
            query,
            _recall(found[:5], set(query.evidence)),
            _recall(found[:10], set(query.evidence)),
            _ndcg(found[:10], set(query.evidence)),
        )
        for conversation, query, found in rankings
        if query.evidence
    ]


def average(rows: Sequence[Outcome]) -> Score:
    """Return the average of one or more questions."""
    recall_5, recall_10, ndcg_10 = (sum(column) / len(rows) for column in list(zip(*rows, strict=True))[2:])
    return Score(len(rows), recall_5, recall_10, ndcg_10)


def together(rows: Iterable[Outcome]) -> Score | None:
    """Return the average of the four usual categories; None if there is no such question."""
    usual = [row for row in rows if row.usual]
    return average(usual) if usual else None


def adversarial(rows: Iterable[Outcome]) -> Score | None:
    """Return the average of the adversarial questions; None if there are none."""
    return by_category(rows).get(ADVERSARIAL)


def by_category(rows: Iterable[Outcome]) -> Mapping[str, Score]:
    """Return the averages by category: the usual ones, then the others."""
    found = _grouped(rows, lambda row: row.query.cat)
    order = [*TOGETHER, *sorted(found.keys() - set(TOGETHER))]
    return {category: found[category] for category in order if category in found}


def by_kind(rows: Iterable[Outcome]) -> Mapping[str, Score]:
    """Return the averages by the source's own category, of questions of the four usual categories that name it."""
    return dict(sorted(_grouped((row for row in rows if row.usual), lambda row: row.query.kind).items()))


def by_conversation(rows: Iterable[Outcome]) -> Mapping[str, Score]:
    """Return the averages of the four usual categories by conversation, in order."""
    return _grouped((row for row in rows if row.usual), lambda row: row.conversation)


GROUPS: Final[Mapping[str, Callable[[Iterable[Outcome]], Mapping[str, Score]]]] = {
    "category": by_category,
    "kind": by_kind,
    "conversation": by_conversation,
}


def difference(search: Sequence[Outcome], others: Mapping[str, Sequence[Outcome]], measure: str) -> Difference:
    """Compare a search with the best of `others` by a field of `Outcome`, over the questions of the usual categories.

    All are of the same questions in the same order; at least one of them is of a usual category.
    """
    import numpy as np

    def values(rows: Sequence[Outcome]) -> list[float]:
        return [getattr(row, measure) for row in rows if row.usual]

    best = max(others, key=lambda name: sum(values(others[name])))
    apart = np.subtract(values(search), values(others[best]))
    _, place = np.unique([row.conversation for row in search if row.usual], return_inverse=True)
    sums, counts = np.bincount(place, apart), np.bincount(place)
    drawn = np.random.default_rng(_SEED).integers(0, len(sums), (DRAWS, len(sums)))
    means = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
    return Difference(best, float(apart.mean()), float(means.std(ddof=1)) if len(sums) > 1 else None)


def _grouped(rows: Iterable[Outcome], key: Callable[[Outcome], str | None]) -> dict[str, Score]:
    groups: dict[str, list[Outcome]] = {}
    for row in rows:
        name = key(row)
        if name is not None:
            groups.setdefault(name, []).append(row)
    return {name: average(those) for name, those in groups.items()}


def _recall(ranking: Sequence[str], evidence: set[str]) -> float:
    return len(evidence.intersection(ranking)) / len(evidence)


def _ndcg(ranking: Sequence[str], evidence: set[str]) -> float:
    gained = sum(1 / log2(place + 1) for place, turn in enumerate(ranking, 1) if turn in evidence)
    return gained / sum(1 / log2(place + 1) for place in range(1, min(len(evidence), 10) + 1))
