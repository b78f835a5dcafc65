"""From a question to hits: by meaning and by words at once, weighed, with what stands around each entry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from runtime.search.embedding.embedder import Embedder
from runtime.search.entry import Entry
from runtime.search.index.index import Index
from runtime.search.question import Question


@dataclass(frozen=True, slots=True)
class Hit:
    """An entry that was found. `parts` says what each part (`vector`, `keyword`, `neighbours`, `author`, `date`) added:
    they add up to `score`. A part that added nothing is not named."""

    entry: Entry
    score: float
    parts: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Answer:
    """Hits, best first, and one line for each thing that the caller should know about how they were found."""

    hits: tuple[Hit, ...]
    notes: tuple[str, ...] = ()


async def search(index: Index, embedder: Embedder | None, question: Question) -> Answer:
    """The best `question.limit` entries of the index, best first.

    Without an embedder, or with one that does not answer, the search is by keyword alone and a note says so. Raises
    IndexFailed.
    """
    raise NotImplementedError
