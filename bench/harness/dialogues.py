"""Dialogues with questions whose answers are known, and scores of rankings.

A file has one conversation per line, as JSON: `conv`, `items` (`id`, `session`, `iso`, `speaker`, `text`, `caption`)
and `queries` (`q`, `cat`, `evidence`: the ids of the items that answer it). `speaker` and `caption` may be left out.
This is the form of the LoCoMo dialogues, which are not part of this project.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from math import log2
from pathlib import Path

from pydantic import BaseModel, ValidationError

from runtime.errors import UsageError

ORIGIN = "LoCoMo (Maharana et al., 2024, github.com/snap-research/locomo)"
LICENCE = "CC BY-NC 4.0"
ADVERSARIAL = "adversarial"
"""Questions that ask one speaker for something that the other one said."""
TOGETHER = ("single_hop", "multi_hop", "temporal", "open_domain")
"""The categories that are averaged together."""


class Turn(BaseModel):
    """A statement of a speaker, or a passage without one; `caption` describes a picture sent with it."""

    id: str
    session: int
    iso: datetime
    speaker: str = ""
    text: str
    caption: str | None = None

    @property
    def said(self) -> str:
        """The text to remember."""
        return f"{self.text} {self.caption}" if self.caption else self.text

    @property
    def script(self) -> str:
        """The text with its speaker, if it has one."""
        return f"{self.speaker}: {self.said}" if self.speaker else self.said

    @property
    def time(self) -> datetime:
        """The time, in UTC."""
        return self.iso.replace(tzinfo=UTC) if self.iso.tzinfo is None else self.iso.astimezone(UTC)


class Query(BaseModel):
    """A question and the ids of the turns that answer it."""

    q: str
    cat: str
    evidence: list[str]


class Conversation(BaseModel):
    """Turns in order, and questions about them."""

    conv: str
    items: list[Turn]
    queries: list[Query]

    @cached_property
    def now(self) -> datetime:
        """The time of the questions: a day after the last turn."""
        return max(turn.time for turn in self.items) + timedelta(days=1)


def read(file: Path) -> list[Conversation]:
    """Return the conversations of a file. Raises UsageError, naming the line, if it does not have the form above."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UsageError(
            f"{file} cannot be read: {reason}", hint="use --data FILE.jsonl with a file of dialogues"
        ) from None
    found = [_conversation(file, number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if not found:
        raise UsageError(f"{file} has no dialogues", hint="a file has one per line, as JSON")
    return found


def _conversation(file: Path, number: int, line: str) -> Conversation:
    try:
        conversation = Conversation.model_validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise UsageError(
            f"{file}:{number} is not a dialogue: {where}: {first['msg']}"
            if where
            else f"{file}:{number} is not a dialogue: {first['msg']}"
        ) from None
    if not conversation.items:
        raise UsageError(f"{file}:{number} is not a dialogue: it has no items")
    return conversation


@dataclass(frozen=True, slots=True)
class Score:
    """Average scores of some questions: the share of the evidence among the first 5 and 10 hits, and nDCG of the first
    10."""

    queries: int
    recall_5: float
    recall_10: float
    ndcg_10: float


def score(rankings: Iterable[tuple[Query, Sequence[str]]]) -> Mapping[str, Score]:
    """Return the scores of rankings (ids, best first) by category, and under `together` of the usual four.

    Questions without evidence are skipped.
    """
    found: dict[str, list[tuple[float, float, float]]] = {}
    for query, ranking in rankings:
        evidence = set(query.evidence)
        if evidence:
            found.setdefault(query.cat, []).append(
                (_recall(ranking[:5], evidence), _recall(ranking[:10], evidence), _ndcg(ranking[:10], evidence))
            )
    scores = {category: _average(rows) for category, rows in sorted(found.items())}
    together = [row for category in TOGETHER for row in found.get(category, ())]
    return scores | ({"together": _average(together)} if together else {})


def _average(rows: Sequence[tuple[float, float, float]]) -> Score:
    recall_5, recall_10, ndcg_10 = (sum(column) / len(rows) for column in zip(*rows, strict=True))
    return Score(len(rows), recall_5, recall_10, ndcg_10)


def _recall(ranking: Sequence[str], evidence: set[str]) -> float:
    return len(evidence.intersection(ranking)) / len(evidence)


def _ndcg(ranking: Sequence[str], evidence: set[str]) -> float:
    gained = sum(1 / log2(place + 1) for place, turn in enumerate(ranking, 1) if turn in evidence)
    return gained / sum(1 / log2(place + 1) for place in range(1, min(len(evidence), 10) + 1))
