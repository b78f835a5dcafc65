"""`python -m bench.recall --data FILE.jsonl`: how often the evidence is among the first ten hits.

Every conversation of the file (described in `bench.harness.dialogues`) is written into a real Markdown memory, with an
agent for each, and searched as the product does. For comparison, in the same run: plain FTS5 (bm25, all defaults, the
question's words joined by OR) and plain cosine (the same embedding), both over "Speaker: text", which suits them best.

`--through conversation_search` puts the conversations into threads instead, as described in
`bench.agents.conversations`, and asks through that tool, by which agents search what was said; `--through memory
conversation_search` does both.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bench import search as latency
from bench.agents.conversations import spoken
from bench.harness.dialogues import ADVERSARIAL, LICENCE, ORIGIN, TOGETHER, Conversation, Query, Score, read, score
from bench.harness.report import command_line
from dslc.blocks.memory import Memory
from dslc.blocks.variant import Variant
from runtime.cli.terminal.progress import progress_bar
from runtime.clock import SYSTEM
from runtime.errors import SymbiontError, UsageError
from runtime.memory import open_store, path_of
from runtime.memory.indexing.index_file import open_indexer
from runtime.memory.item import Item, Provenance
from runtime.memory.open_memory import OpenMemory
from runtime.search.embedding import default_embedding, open_embedding
from runtime.search.embedding.embedder import Embedder
from runtime.search.entry import EntryFilter
from runtime.search.question import KEYWORD_WEIGHT, VECTOR_WEIGHT, Question

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

RECOMMENDED = (0.6, 0.4)
"""Weights of vectors and keywords that docs/search.md recommends for the embedding `local`."""
HITS = 10
MEMORY, TOOL = "memory", "conversation_search"
"""What the questions are asked of."""
_SOME_DAY = datetime(2000, 1, 1, tzinfo=UTC)
_WORD = re.compile(r"\w+")
_BATCH = 32

Progress = Callable[[str, int, int], None]
Ranking = tuple[Query, Sequence[str]]


class Run(NamedTuple):
    """A way of searching, and its scores by category."""

    name: str
    weights: tuple[float, float] | None
    scores: Mapping[str, Score]


def agent_of(conversation: Conversation) -> str:
    """Return the agent of a conversation."""
    return f"bench-{conversation.conv}".lower()


def remembered(conversation: Conversation) -> list[Item]:
    """Return a conversation's turns as items; `source_uri` is the turn's id."""
    return [
        Item(
            agent_id=agent_of(conversation),
            memory_type="episodic",
            timestamp=turn.time,
            source_uri=turn.id,
            text=turn.said,
            provenance=Provenance(author=turn.speaker or None, session_id=f"{conversation.conv}/{turn.session}"),
        )
        for turn in conversation.items
    ]


async def open_filled(
    conversations: Sequence[Conversation], embedder: Embedder | None, root: Path, progress: Progress
) -> OpenMemory:
    """Return a memory in `root` with these conversations, indexed and embedded. The caller closes it."""
    block = Memory(name="bench", store=Variant(name="markdown"))
    store = await open_store(block, root)
    indexer = await open_indexer(store, None, root / "index", SYSTEM)
    memory = OpenMemory(block, indexer, embedder, folder=path_of(block, root))
    await memory.activate()
    for done, conversation in enumerate(conversations):
        progress("writing", done, len(conversations))
        await memory.store.append(remembered(conversation))
    report = await memory.sync(progress=progress)
    await memory.embed(progress=progress)
    if report.problems:
        raise UsageError(f"not everything was indexed: {report.problems[0]}")
    return memory


async def searched(
    memory: OpenMemory,
    conversations: Sequence[Conversation],
    weights: tuple[float, float],
    progress: Progress,
    threshold: float = 0.0,
) -> list[Ranking]:
    """Return the product's hits for every question, above the threshold."""
    rankings: list[Ranking] = []
    total = sum(len(conversation.queries) for conversation in conversations)
    for conversation in conversations:
        for query in conversation.queries:
            question = Question(
                text=query.q,
                now=conversation.now,
                limit=HITS,
                wanted=EntryFilter(agent=agent_of(conversation)),
                vector_weight=weights[0],
                keyword_weight=weights[1],
                threshold=threshold,
            )
            found = await memory.search(question)
            rankings.append((query, [hit.item.source_uri or "" for hit in found.hits]))
            progress("searching", len(rankings), total)
    return rankings


async def found_by_tool(
    conversations: Sequence[Conversation], embedder: Embedder | None, root: Path, progress: Progress
) -> list[Ranking]:
    """Return the hits of `conversation_search` for every question."""
    rankings: list[Ranking] = []
    total = sum(len(conversation.queries) for conversation in conversations)
    async with spoken(conversations, embedder, root, progress) as dialogues:
        for conversation in conversations:
            for query in conversation.queries:
                rankings.append((query, await dialogues.ask(conversation, query, HITS)))
                progress("searching", len(rankings), total)
    return rankings


def plain_fts5(conversations: Sequence[Conversation]) -> list[Ranking]:
    """Return the rankings of FTS5 with all its defaults."""
    rankings: list[Ranking] = []
    for conversation in conversations:
        connection = sqlite3.connect(":memory:")
        connection.execute("CREATE VIRTUAL TABLE said USING fts5 (id UNINDEXED, text)")
        connection.executemany(
            "INSERT INTO said VALUES (?, ?)", [(turn.id, turn.script) for turn in conversation.items]
        )
        for query in conversation.queries:
            words = " OR ".join(f'"{word}"' for word in dict.fromkeys(_WORD.findall(query.q.lower())))
            found = connection.execute("SELECT id FROM said WHERE said MATCH ? ORDER BY bm25(said) LIMIT 10", (words,))
            rankings.append((query, [turn for (turn,) in found]))
        connection.close()
    return rankings


async def plain_cosine(conversations: Sequence[Conversation], embedder: Embedder, progress: Progress) -> list[Ranking]:
    """Return the rankings by the embedding alone."""
    import numpy as np

    rankings: list[Ranking] = []
    for conversation in conversations:
        texts = await _embedded(embedder, [turn.script for turn in conversation.items], progress)
        queries = await _embedded(embedder, [query.q for query in conversation.queries], progress)
        for query, nearness in zip(conversation.queries, queries @ texts.T, strict=True):
            best = np.argsort(-nearness, kind="stable")[:HITS]
            rankings.append((query, [conversation.items[at].id for at in best]))
    return rankings


async def _embedded(embedder: Embedder, texts: Sequence[str], progress: Progress) -> NDArray[np.float32]:
    import numpy as np

    made = []
    for start in range(0, len(texts), _BATCH):
        progress("embedding for plain cosine", start, len(texts))
        made.append(await embedder.embed(texts[start : start + _BATCH]))
    return np.concatenate(made)


async def measure(
    conversations: Sequence[Conversation],
    embedding: str,
    weights: Sequence[tuple[str, tuple[float, float]]],
    through: Sequence[str] = (MEMORY,),
) -> tuple[str | None, list[Run]]:
    """Return the name of the embedding, and the scores of every way of searching."""
    runs: list[Run] = []
    embedder = None
    with progress_bar("recall") as progress:
        # A closed memory has closed its embedding.
        if MEMORY in through:
            embedder = await opened_embedder(embedding)
            runs += await _of_memory(conversations, embedder, weights, progress)
        if TOOL in through:
            embedder = await opened_embedder(embedding)
            with tempfile.TemporaryDirectory() as folder:
                rankings = await found_by_tool(conversations, embedder, Path(folder), progress)
            runs.append(Run(TOOL, (VECTOR_WEIGHT, KEYWORD_WEIGHT), score(rankings)))
    return None if embedder is None else embedder.name, runs


async def _of_memory(
    conversations: Sequence[Conversation],
    embedder: Embedder | None,
    weights: Sequence[tuple[str, tuple[float, float]]],
    progress: Progress,
) -> list[Run]:
    runs = [Run("plain FTS5", None, score(plain_fts5(conversations)))]
    with tempfile.TemporaryDirectory() as folder:
        memory = await open_filled(conversations, embedder, Path(folder), progress)
        try:
            if embedder is not None:
                runs.append(Run("plain cosine", None, score(await plain_cosine(conversations, embedder, progress))))
            for name, pair in weights:
                runs.append(Run(name, pair, score(await searched(memory, conversations, pair, progress))))
        finally:
            await memory.close()
    return runs


async def opened_embedder(name: str) -> Embedder | None:
    """Return the embedder of that name; None for `none`. Raises UsageError if it is unavailable."""
    if name == "none":
        return None
    if name == "local" and default_embedding() is None:
        raise UsageError("the embedding local is not installed", hint="install the extra local, or --embedding none")
    return await open_embedding(Variant(name=name), {})


def as_json(embedding: str | None, runs: Sequence[Run]) -> dict[str, Any]:
    """Return all measurements."""
    return {
        "data": {"origin": ORIGIN, "licence": LICENCE},
        "embedding": embedding,
        "runs": [
            {
                "name": run.name,
                "vector_weight": run.weights and run.weights[0],
                "keyword_weight": run.weights and run.weights[1],
                "scores": {category: asdict(each) for category, each in run.scores.items()},
            }
            for run in runs
        ],
    }


def show(embedding: str | None, runs: Sequence[Run]) -> None:
    """Print a table: recall@10, and for all categories together recall@5 and nDCG@10 too."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"Turn-level recall, embedding {embedding or 'none'}", caption=f"{ORIGIN}, {LICENCE}")
    table.add_column("search", no_wrap=True)
    categories = [category for category in (*TOGETHER, ADVERSARIAL) if any(category in run.scores for run in runs)]
    for column in ("recall@5", "recall@10", "nDCG@10", *(category.replace("_", " ") for category in categories)):
        table.add_column(column, justify="right")
    for run in runs:
        together = run.scores.get("together")
        averages = (together.recall_5, together.recall_10, together.ndcg_10) if together else (None,) * 3
        each = (run.scores[category].recall_10 if category in run.scores else None for category in categories)
        name = run.name if run.weights is None else f"{run.name} {run.weights[0]:g}/{run.weights[1]:g}"
        table.add_row(name, *("" if value is None else f"{value:.3f}" for value in (*averages, *each)))
    Console(width=None if sys.stdout.isatty() else 140).print(table)
    print(
        "recall@5, recall@10 and nDCG@10: the four categories together; then recall@10 of each, adversarial separately"
    )


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = command_line("recall", __doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="the dialogues, one JSON object per line")
    parser.add_argument("--vector-weight", type=float, help="measure only these weights")
    parser.add_argument("--keyword-weight", type=float, help="measure only these weights")
    parser.add_argument("--embedding", choices=("local", "hashing", "none"), default="local")
    parser.add_argument(
        "--through", nargs="+", choices=(MEMORY, TOOL), default=[MEMORY], help="what the questions are asked of"
    )
    parser.add_argument("--latency", action="store_true", help="measure the latency of searches and of their parts")
    return parser.parse_args(given)


def weights_of(options: argparse.Namespace) -> list[tuple[str, tuple[float, float]]]:
    """Return the weights to measure, by name. Raises UsageError for invalid weights."""
    vector, keyword = options.vector_weight, options.keyword_weight
    if options.embedding == "none":
        return [("search", (0.0, 1.0))]
    if vector is None and keyword is None:
        return [("search, default", (VECTOR_WEIGHT, KEYWORD_WEIGHT)), ("search, recommended", RECOMMENDED)]
    vector = 1 - keyword if vector is None else vector
    pair = (vector, 1 - vector if keyword is None else keyword)
    Question(text="weights", now=_SOME_DAY, vector_weight=pair[0], keyword_weight=pair[1])
    return [("search", pair)]


def main(given: Sequence[str] | None = None) -> int:
    """Measure and print. Returns 2 for an invalid file or option."""
    options = arguments(given)
    try:
        conversations = read(options.data)
        embedding, runs = asyncio.run(measure(conversations, options.embedding, weights_of(options), options.through))
    except SymbiontError as error:
        print(f"bench.recall: {error.line()}", file=sys.stderr)
        return 2
    took = asyncio.run(latency.measure(latency.ITEMS)) if options.latency else None
    if options.json:
        print(json.dumps(as_json(embedding, runs) | ({"latency": took} if took else {}), indent=2, default=vars))
    else:
        show(embedding, runs)
        if took:
            print("", latency.table(took), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
