"""`python -m bench.search [--json] [--items N]`: a search compared with its bare parts, in one run.

*Hybrid* is the product's own search over an index of N generated entries, and over one ten times as large; *its parts*
are the unavoidable ones: embedding the question, a bare FTS5 query for its words (`ORDER BY rank`, a table of the texts
alone) and a bare matrix product with a partial sort. Sides alternate, and the fastest of three turns of a query counts;
an entry is written before each search, so that nothing is cached. *Indexing* adds N entries without vectors, compared
with bare FTS5 inserts of the same texts in one transaction; the fastest of alternating rounds are compared. *Appending*
writes single entries to a Markdown memory's log of 100 and of N entries.

Texts are generated from a seed, with word frequencies as in natural text (Zipf). Questions are embedded by `local` if
it is installed, else by hashing; the entries have random vectors of the same dimension, which cost as much to search.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import hashlib
import random
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from bench.harness.report import Ratio, command_line, ratio_table, show
from dslc.blocks.memory import Memory
from dslc.blocks.variant import Variant
from runtime.clock import SYSTEM
from runtime.memory import open_store, path_of
from runtime.memory.item import Item
from runtime.memory.store import Store
from runtime.search.embedding import default_embedding, open_embedding
from runtime.search.embedding.embedder import Embedder
from runtime.search.engine import CANDIDATES, search
from runtime.search.entry import EntryFilter, IndexEntry
from runtime.search.index import open_index
from runtime.search.index.embedded.schema import TOKENIZE
from runtime.search.index.index import Index
from runtime.search.question import Question, parse_question

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ITEMS = 10_000
QUERIES = 60
TURNS = 3
ROUNDS = 7
AGENTS = 10
_PART = 500  # entries of a part, which are one conversation
_START = datetime(2025, 1, 1, tzinfo=UTC)
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


class Side(NamedTuple):
    """Milliseconds of each query, or the fastest of each round."""

    name: str
    times: Sequence[float]

    def percentile(self, share: float) -> float:
        """Return the percentile in milliseconds."""
        return sorted(self.times)[min(int(share * len(self.times)), len(self.times) - 1)]


class Texts:
    """Generated texts of 8 to 40 words out of 30,000; the n-th word is 1/n as frequent as the first."""

    def __init__(self, seed: int = 1) -> None:
        self._chance = random.Random(seed)
        words = {"".join(self._chance.choices(_LETTERS, k=self._chance.randint(3, 10))) for _ in range(30_000)}
        self._words = sorted(words)
        self._chance.shuffle(self._words)
        total, self._until = 0.0, list[float]()
        for rank in range(1, len(self._words) + 1):
            total += 1 / rank
            self._until.append(total)

    def text(self, least: int = 8, most: int = 40) -> str:
        """Return one text."""
        count = self._chance.randint(least, most)
        return " ".join(self._chance.choices(self._words, cum_weights=self._until, k=count))

    def entries(self, count: int) -> list[IndexEntry]:
        """Return entries of AGENTS agents, a minute apart, in conversations of two."""
        return [self._entry(number) for number in range(count)]

    def _entry(self, number: int) -> IndexEntry:
        text, part = self.text(), number // _PART
        return IndexEntry(
            id=str(UUID(int=self._chance.getrandbits(128), version=4)),
            agent=f"agent-{part % AGENTS}",
            user="owner",
            project=None,
            type="episodic",
            time=_START + timedelta(minutes=number),
            source=None,
            tags=("tagged",) if number % 3 == 0 else (),
            text=text,
            hash=hashlib.sha256(text.encode()).hexdigest(),
            author="Dana Miller" if number % 2 else "Robin Weber",
            group=f"conversation-{part}",
            order=number,
            part=f"part-{part}",
        )


async def filled(index: Index, entries: Sequence[IndexEntry], dimension: int) -> None:
    """Add the entries part by part, each with a random vector and random bits of a token for each word."""
    import numpy as np

    chance = np.random.default_rng(2)
    for start in range(0, len(entries), _PART):
        some = entries[start : start + _PART]
        await index.put(some[0].part, some[0].agent, "1", some)
    await index.use_model("random", dimension, "random")
    while pending := await index.pending(5000):
        vectors = chance.normal(size=(len(pending), dimension)).astype(np.float32)
        tokens = [chance.bytes(dimension // 8 * len(each.text.split())) for each in pending]
        await index.embed(list(zip(pending, vectors, strict=True)), tokens)


class Bare:
    """A search's parts without the product: a table of texts, and a matrix."""

    def __init__(self, folder: Path, entries: Sequence[IndexEntry], dimension: int) -> None:
        import numpy as np

        self.connection = sqlite3.connect(folder / "bare.db", isolation_level=None)
        insert(self.connection, [entry.text for entry in entries])
        chance = np.random.default_rng(3)
        rows = chance.normal(size=(len(entries), dimension)).astype(np.float32)
        self.matrix: NDArray[np.float32] = rows / np.linalg.norm(rows, axis=1, keepdims=True)

    def keyword(self, words: Sequence[str]) -> None:
        """Find the best texts for these words."""
        query = " OR ".join(f'"{word}"' for word in words)
        sql = "SELECT rowid, rank FROM texts WHERE texts MATCH ? ORDER BY rank LIMIT ?"
        self.connection.execute(sql, (query, CANDIDATES)).fetchall()

    def nearest(self, vector: NDArray[np.float32]) -> None:
        """Find the nearest rows to this vector."""
        import numpy as np

        products = self.matrix @ vector
        best = np.argpartition(-products, min(CANDIDATES, len(products) - 1))[:CANDIDATES]
        best[np.argsort(-products[best])]


def insert(connection: sqlite3.Connection, texts: Sequence[str]) -> None:
    """Insert into bare FTS5: one column, one transaction, synced like the index."""
    connection.execute("PRAGMA journal_mode = WAL").fetchall()
    connection.execute("PRAGMA synchronous = NORMAL").fetchall()
    connection.execute(f"CREATE VIRTUAL TABLE texts USING fts5 (text, tokenize = '{TOKENIZE}')")
    connection.execute("BEGIN")
    connection.executemany("INSERT INTO texts (rowid, text) VALUES (?, ?)", enumerate(texts, 1))
    connection.execute("COMMIT")


async def timed(work: Awaitable[object]) -> float:
    """Return the duration in milliseconds."""
    before = time.perf_counter()
    await work
    return (time.perf_counter() - before) * 1000


async def latency(embedder: Embedder, dimension: int, items: int, queries: int) -> dict[str, Side]:
    """Measure hybrid searches over this number of items, those of one agent, and their parts."""
    texts = Texts()
    entries = texts.entries(items)
    questions = [texts.text(5, 12) for _ in range(queries)]
    sides: dict[str, list[float]] = {
        name: [] for name in ("hybrid", "of one agent", "parts", "embed", "fts5", "matrix")
    }
    with tempfile.TemporaryDirectory() as folder:
        index = await open_index(None, Path(folder) / "index.db", {})
        await filled(index, entries, dimension)
        bare = Bare(Path(folder), entries, dimension)
        gc.collect()
        await _query(index, embedder, bare, questions[-1], entries[-1])  # warm-up of both sides
        for text in questions:
            turns = [await _query(index, embedder, bare, text, entries[-1]) for _ in range(TURNS)]
            for name, times in sides.items():
                times.append(min(turn[name] for turn in turns))
        await index.close()
        bare.connection.close()
    return {name: Side(f"{items:,} items: {name}", found) for name, found in sides.items()}


async def _query(index: Index, embedder: Embedder, bare: Bare, text: str, last: IndexEntry) -> dict[str, float]:
    now = _START + timedelta(days=400)
    everywhere = Question(text=text, now=now)
    of_one = Question(text=text, now=now, wanted=EntryFilter(agent="agent-3"))
    words = parse_question(everywhere, ()).words
    vector = (await embedder.embed([text]))[0]

    async def run(work: Callable[..., None], *arguments: object) -> None:
        work(*arguments)

    async def cold(question: Question) -> float:
        for written in (text, last.text):
            await index.put("written", last.agent, written, [replace(last, id="written", text=written, part="written")])
        return await timed(search(index, embedder, question))

    times = {
        "embed": await timed(embedder.embed([text])),
        "fts5": await timed(run(bare.keyword, words)),
        "matrix": await timed(run(bare.nearest, vector)),
        "hybrid": await cold(everywhere),
        "of one agent": await cold(of_one),
    }
    return {**times, "parts": times["embed"] + times["fts5"] + times["matrix"]}


async def indexing(items: int) -> dict[str, Side]:
    """Measure the addition of entries without vectors, and bare inserts of their texts; milliseconds of each round."""
    entries = Texts().entries(items)
    texts = [entry.text for entry in entries]
    sides: dict[str, list[float]] = {"put": [], "bare": []}
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as folder:
            index = await open_index(None, Path(folder) / "index.db", {})
            with contextlib.closing(sqlite3.connect(Path(folder) / "bare.db", isolation_level=None)) as connection:
                gc.collect()
                before = time.perf_counter()
                insert(connection, texts)
                sides["bare"].append((time.perf_counter() - before) * 1000)
            gc.collect()
            sides["put"].append(await timed(index.put("part", "agent-0", "1", entries)))
            await index.close()
    return {name: Side(f"{items:,} entries: {name}", times) for name, times in sides.items()}


async def appending(items: int) -> dict[str, Side]:
    """Measure single appends to the day's log of a Markdown memory with 100 entries and with `items`."""
    texts, lengths = Texts(), (100, items)
    times: dict[str, list[float]] = {str(length): [] for length in lengths}
    with tempfile.TemporaryDirectory() as folder:
        stores = {length: await _with_log(Path(folder) / str(length), texts, length) for length in lengths}
        for _ in range(40):
            for length, store in stores.items():
                item = _item(texts)
                times[str(length)].append(await timed(store.append([item])))
        for store in stores.values():
            await store.close()
    return {name: Side(f"append to a log of {int(name):,} entries", found) for name, found in times.items()}


async def _with_log(root: Path, texts: Texts, length: int) -> Store:
    memory = Memory(name="bench", store=Variant(name="markdown"))
    store = await open_store(memory, root, clock=SYSTEM)
    await store.append([_item(texts) for _ in range(length)])
    assert path_of(memory, root).is_dir()
    return store


def _item(texts: Texts) -> Item:
    return Item(agent_id="agent-0", memory_type="episodic", timestamp=_START, text=texts.text())


async def measure(items: int, queries: int | None = None) -> dict[str, Any]:
    """Return the whole measurement as a JSON object. `queries`: QUERIES by default."""
    queries = queries or QUERIES
    name = default_embedding() or "hashing"
    embedder = await open_embedding(Variant(name=name), {})
    assert embedder is not None
    dimension = (await embedder.embed(["warm up"])).shape[1]
    small = await latency(embedder, dimension, items, queries)
    large = await latency(embedder, dimension, 10 * items, queries)
    await embedder.close()
    index, log = await indexing(items), await appending(items)
    ratios = [
        *(_hybrid(sides, count) for sides, count in ((small, items), (large, 10 * items))),
        Ratio(
            f"hybrid p95, {10 * items:,} / {items:,} items",
            large["hybrid"].percentile(0.95) / small["hybrid"].percentile(0.95),
            "at most 10",
        ),
        Ratio(
            f"{items:,} entries: put / bare FTS5 inserts", min(index["put"].times) / min(index["bare"].times), "below 2"
        ),
        Ratio(
            f"append to a log of {items:,} entries / of 100",
            statistics.median(log[str(items)].times) / statistics.median(log["100"].times),
            "about 1",
        ),
    ]
    sides = [*small.values(), *large.values(), *index.values(), *log.values()]
    rows = {side.name: {f"p{share}": round(side.percentile(share / 100), 2) for share in (50, 95)} for side in sides}
    return {"embedding": name, "items": items, "queries": queries, "rows_ms": rows, "ratios": ratios}


def _hybrid(sides: dict[str, Side], items: int) -> Ratio:
    value = sides["hybrid"].percentile(0.95) / sides["parts"].percentile(0.95)
    return Ratio(f"{items:,} items: hybrid p95 / its parts' p95", value, "at most 1.5")


def table(result: dict[str, Any]) -> str:
    """Return the measurement as Markdown tables."""
    lines = [f"embedding: {result['embedding']}", "", "| | p50 ms | p95 ms |", "|---|---:|---:|"]
    lines += [f"| {name} | {row['p50']} | {row['p95']} |" for name, row in result["rows_ms"].items()]
    lines += ratio_table(result["ratios"])
    return "\n".join(lines)


def main() -> None:
    options = command_line("search", __doc__, items=(ITEMS, "items of the small index")).parse_args()
    show(asyncio.run(measure(options.items)), table, as_json=options.json)


if __name__ == "__main__":
    main()
