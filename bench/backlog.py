"""`python -m bench.backlog [--json] [--texts N]`: latency of searches while texts are embedded, and while idle.

A Markdown memory with the embedding `local` is indexed in the background, as in a daemon. Rounds alternate, in one run:
QUESTIONS searches one after the other while idle; then N texts of about 1,000 characters are added, and the same
questions are asked until all texts have their vectors.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
from itertools import cycle
from pathlib import Path
from typing import Any

from bench.harness.report import Ratio, command_line, show
from bench.push import generated
from bench.search import Texts, timed
from dslc.blocks.memory import Memory
from dslc.blocks.variant import Variant
from runtime.clock import SYSTEM, utc
from runtime.memory import open_store, path_of
from runtime.memory.indexing.index_file import open_indexer
from runtime.memory.item import Item
from runtime.memory.open_memory import OpenMemory
from runtime.search.embedding import open_embedding
from runtime.search.question import Question

TEXTS = 48
QUESTIONS = 20
ROUNDS = 4
_PAUSE = 0.02  # seconds between two searches


async def measure(texts: int, embedding: str = "local", rounds: int = ROUNDS) -> dict[str, Any]:
    """Return the milliseconds of every search, and the ratio of the medians."""
    embedder = await open_embedding(Variant(name=embedding), {})
    block = Memory(name="bench", store=Variant(name="markdown"))
    idle, during = list[float](), list[float]()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        indexer = await open_indexer(await open_store(block, root), None, root / "index", SYSTEM)
        memory = OpenMemory(block, indexer, embedder, folder=path_of(block, root))
        await memory.activate(lambda name, work: asyncio.create_task(work, name=name))
        said, asked = generated(texts * (rounds + 1)), Texts(2)
        questions = [asked.text(5, 12) for _ in range(QUESTIONS)]
        await _add(memory, [next(said) for _ in range(texts)])
        while await _waiting(memory):
            await asyncio.sleep(_PAUSE)
        await _search(memory, questions[0])  # warm-up
        for _ in range(rounds):
            idle += [await _search(memory, question) for question in questions]
            await _add(memory, [next(said) for _ in range(texts)])
            for question in cycle(questions):
                during.append(await _search(memory, question))
                if not await _waiting(memory):
                    break
        await memory.close()
    ratio = Ratio("p50 during a backlog / idle", statistics.median(during) / statistics.median(idle), "at most 2")
    return {"texts": texts, "rows_ms": {"idle": _row(idle), "during": _row(during)}, "ratios": [ratio]}


async def _add(memory: OpenMemory, texts: list[str]) -> None:
    now = utc(SYSTEM.now())
    items = [Item(agent_id="agent", memory_type="semantic", timestamp=now, text=text) for text in texts]
    await memory.store.append(items)
    await memory.sync()


async def _waiting(memory: OpenMemory) -> bool:
    stats = await memory.index_stats()
    return stats.embedded < stats.entries


async def _search(memory: OpenMemory, text: str) -> float:
    await asyncio.sleep(_PAUSE)
    return await timed(memory.search(Question(text=text, now=utc(SYSTEM.now()))))


def _row(times: list[float]) -> dict[str, float]:
    last = sorted(times)[min(int(0.95 * len(times)), len(times) - 1)]
    row = {"p50": statistics.median(times), "p95": last, "max": max(times)}
    return {"searches": len(times)} | {name: round(value, 2) for name, value in row.items()}


def table(result: dict[str, Any]) -> str:
    """Return the measurement as text."""
    rows = [
        f"{name}: {row['searches']} searches, p50 {row['p50']} ms, p95 {row['p95']} ms, max {row['max']} ms"
        for name, row in result["rows_ms"].items()
    ]
    return "\n".join([*rows, *(f"{ratio.name}: {ratio.value:.2f} ({ratio.aim})" for ratio in result["ratios"])])


def main() -> None:
    options = command_line("backlog", __doc__, texts=(TEXTS, "texts added in each round")).parse_args()
    show(asyncio.run(measure(options.texts)), table, as_json=options.json)


if __name__ == "__main__":
    main()
