"""Measures every way of searching a corpus."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Final, NamedTuple

from bench.agents.conversations import spoken
from bench.harness.dialogues import Conversation, Corpus
from bench.recall.constants import DEFAULT, UNCHANGED, Setting, changed, weights_in
from bench.recall.memory import HITS, Progress, filled, opened_embedder, remembered, searched
from bench.recall.plain import plain_cosine, plain_fts5
from bench.recall.scores import Outcome, Ranking, outcomes
from dslc.blocks.variant import Variant
from runtime.search.embedding.embedder import Embedder

MEMORY: Final = "memory"
TOOL: Final = "conversation_search"
"""What the questions are asked of."""
FTS5: Final = "plain FTS5"
COSINE: Final = "plain cosine"
SEARCH: Final = "search"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is measured of each corpus. `settings`: in which the search of the memory is measured, too; `index`: of the
    memory (None: the default one)."""

    embedding: str = "local"
    weights: tuple[float, float] = DEFAULT
    through: Sequence[str] = (MEMORY,)
    settings: Sequence[Setting] = ()
    index: Variant | None = None


class Run(NamedTuple):
    """A way of searching, with its weights, and the outcome of each question."""

    name: str
    weights: tuple[float, float] | None
    outcomes: Sequence[Outcome]


class Measured(NamedTuple):
    """A corpus with all ways of searching. `seconds`: for the settings, with `searches` in all of them."""

    corpus: Corpus
    runs: Sequence[Run]
    settings: Mapping[Setting, Sequence[Outcome]]
    seconds: float
    searches: int

    @property
    def plain(self) -> Mapping[str, Sequence[Outcome]]:
        """The outcomes of what the search is compared with, by name."""
        return {run.name: run.outcomes for run in self.runs if run.name in {FTS5, COSINE}}

    @property
    def search(self) -> Run | None:
        """The search of the memory, if it was measured."""
        return next((run for run in self.runs if run.name == SEARCH), None)


async def measure(corpus: Corpus, plan: Plan, progress: Progress) -> Measured:
    """Return the outcomes of every way of searching. Raises UsageError."""
    runs: list[Run] = []
    settings: Mapping[Setting, Sequence[Outcome]] = {}
    seconds = 0.0
    # A closed memory has closed its embedding.
    if MEMORY in plan.through:
        embedder = await opened_embedder(plan.embedding)
        runs.append(Run(FTS5, None, outcomes(plain_fts5(corpus.conversations))))
        items = [remembered(conversation) for conversation in corpus.conversations]
        async with filled(items, embedder, progress, plan.index) as memory:
            if embedder is not None:
                rankings = await plain_cosine(corpus.conversations, embedder, progress)
                runs.append(Run(COSINE, None, outcomes(rankings)))
            rankings = await searched(memory, corpus.conversations, plan.weights, progress)
            runs.append(Run(SEARCH, plan.weights, outcomes(rankings)))
            settings, began = {UNCHANGED: runs[-1].outcomes}, perf_counter()
            for setting in plan.settings:
                if setting not in settings:
                    weights = weights_in(setting, plan.weights)
                    with changed(setting):
                        settings[setting] = outcomes(await searched(memory, corpus.conversations, weights, progress))
            seconds = perf_counter() - began
    if TOOL in plan.through:
        found = await _found_by_tool(corpus.conversations, await opened_embedder(plan.embedding), progress)
        runs.append(Run(TOOL, DEFAULT, outcomes(found)))
    asked = sum(len(conversation.queries) for conversation in corpus.conversations)
    return Measured(corpus, runs, settings, seconds, asked * max(len(settings) - 1, 0))


async def _found_by_tool(
    conversations: Sequence[Conversation], embedder: Embedder | None, progress: Progress
) -> list[Ranking]:
    rankings: list[Ranking] = []
    total = sum(len(conversation.queries) for conversation in conversations)
    with tempfile.TemporaryDirectory() as folder:
        async with spoken(conversations, embedder, Path(folder), progress) as dialogues:
            for conversation in conversations:
                for query in conversation.queries:
                    found = await dialogues.ask(conversation, query, HITS)
                    rankings.append(Ranking(conversation.conv, query, found))
                    progress("searching", len(rankings), total)
    return rankings
