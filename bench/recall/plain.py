"""What the search is compared with: FTS5 and the embedding, each alone, over "Speaker: text", which suits them best."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from bench.harness.dialogues import Conversation
from bench.recall.memory import HITS, Progress
from bench.recall.scores import Ranking
from runtime.search.embedding.embedder import Embedder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_WORD: Final = re.compile(r"\w+")
_BATCH: Final = 32


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
            rankings.append(Ranking(conversation.conv, query, [turn for (turn,) in found]))
        connection.close()
    return rankings


async def plain_cosine(conversations: Sequence[Conversation], embedder: Embedder, progress: Progress) -> list[Ranking]:
    """Return the rankings by the embedding alone."""
    import numpy as np

    rankings: list[Ranking] = []
    for conversation in conversations:
        if not conversation.queries:
            continue
        texts = await _embedded(embedder, [turn.script for turn in conversation.items], progress)
        queries = await _embedded(embedder, [query.q for query in conversation.queries], progress)
        for query, nearness in zip(conversation.queries, queries @ texts.T, strict=True):
            best = np.argsort(-nearness, kind="stable")[:HITS]
            rankings.append(Ranking(conversation.conv, query, [conversation.items[at].id for at in best]))
    return rankings


async def _embedded(embedder: Embedder, texts: Sequence[str], progress: Progress) -> NDArray[np.float32]:
    import numpy as np

    made = []
    for start in range(0, len(texts), _BATCH):
        progress("embedding for plain cosine", start, len(texts))
        made.append(await embedder.embed(texts[start : start + _BATCH]))
    return np.concatenate(made)
