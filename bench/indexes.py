"""`python -m bench.indexes [--items N] [--json]`: pgvector's HNSW compared with an exact search, and with `embedded`.

*Recall@10* is the share of the ten entries with the highest cosine that HNSW finds, for questions that are not entries
and several `ef_search`. *Latency* is that of single questions, the sides alternating in one run: the nearest entries of
a vector (as many as the engine requests), the entries that contain words, and the product's whole search. Filters match
all entries, a third, a tenth and a hundredth. PostgreSQL runs on the same machine, over a socket, with default
settings.

Texts are sentences of the docstrings of this Python's library and packages. Their vectors come from `local`, if it is
installed, which takes most of the run; `--kept FILE` stores both for the next run. With `--drawn`, or without `local`,
vectors are drawn around as many centres as a hundredth of the entries, both with a variance that falls as 1/rank from
component to component, roughly like principal components of embeddings, and are then rotated; the result says so.

`--signs` compares the embedded index with itself instead: with all vectors in memory, as it is up to
`in_memory.LARGE` entries, and with their signs alone, as it is above. Vectors are drawn. *Megabytes* is the memory that
a process gains by opening the index; *recall* is the share of the nearest 10 and 100 that are found with the signs.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import ctypes
import gc
import hashlib
import os
import random
import re
import statistics
import sysconfig
import tempfile
import time
import warnings
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.harness.postgresql import NAMED, postgresql
from bench.harness.report import command_line, show
from dslc.blocks.variant import Variant
from runtime.search.embedding import default_embedding, open_embedding
from runtime.search.embedding.embedder import Embedder
from runtime.search.engine import CANDIDATES, search
from runtime.search.entry import EntryFilter, IndexEntry
from runtime.search.index import open_index
from runtime.search.index.embedded import in_memory
from runtime.search.index.index import Index
from runtime.search.index.postgres.index import PostgresIndex
from runtime.search.question import Question, parse_question

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

ITEMS = 50_000
QUERIES = 100
EF_SEARCH = (40, 100, 200, 400)
_PART = 500
_START = datetime(2025, 1, 1, tzinfo=UTC)
_AT_ONCE = 256
FILTERS: Mapping[str, EntryFilter] = {
    "none": EntryFilter(),
    "a third": EntryFilter(tags_any=frozenset({"third"})),
    "a tenth": EntryFilter(agent="agent-3"),
    "a hundredth": EntryFilter(tags_any=frozenset({"hundredth"})),
}


def texts(count: int) -> list[str]:
    """Return this number of different sentences of docstrings, in random order. Raises SystemExit if there are
    fewer."""
    found: dict[str, None] = {}
    for path in _modules():
        found.update(dict.fromkeys(_sentences(path)))
        if len(found) >= count:
            break
    chosen = list(found)[:count]
    random.Random(1).shuffle(chosen)
    if len(chosen) < count:
        raise SystemExit(f"this Python's docstrings have only {len(chosen):,} sentences: use a smaller --items")
    return chosen


def _modules() -> Iterator[Path]:
    for folder in ("stdlib", "purelib"):
        for path in sorted(Path(sysconfig.get_path(folder)).rglob("*.py")):
            if folder == "purelib" or "site-packages" not in path.parts:
                yield path


def _sentences(path: Path) -> Iterator[str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            for sentence in re.split(r"\n\s*\n|(?<=[.!?:])\s", ast.get_docstring(node) or ""):
                text = " ".join(sentence.split())
                if 25 <= len(text) <= 200 and text.isascii() and text.count(" ") >= 4:
                    yield text


def entries(said: Sequence[str]) -> list[IndexEntry]:
    """Return an entry for each text, of ten agents, in conversations of 500."""
    return [
        IndexEntry(
            id=f"{number:08}",
            agent=f"agent-{number // _PART % 10}",
            user="owner",
            project=None,
            type="episodic",
            time=_START + timedelta(minutes=number),
            source=None,
            tags=(*(("third",) if number % 3 == 0 else ()), *(("hundredth",) if number % 100 == 0 else ())),
            text=text,
            hash=hashlib.sha256(text.encode()).hexdigest(),
            author="Dana Miller" if number % 2 else "Robin Weber",
            group=f"conversation-{number // _PART}",
            order=number,
            part=f"part-{number // _PART}",
        )
        for number, text in enumerate(said)
    ]


async def embedded_texts(count: int, drawn: bool) -> tuple[str, list[str], Vectors]:
    """Return the source of the vectors, this number of texts, and their vectors."""
    import numpy as np

    said = texts(count)
    if drawn or default_embedding() is None:
        return "drawn around centres", said, _drawn(count)
    embedder = await open_embedding(None, {})
    assert embedder is not None
    batches = (list(said[begin : begin + _AT_ONCE]) for begin in range(0, len(said), _AT_ONCE))
    made = np.concatenate([await embedder.embed(batch) for batch in batches])
    await embedder.close()
    return embedder.model, said, made


def _drawn(count: int, dimension: int = 384) -> Vectors:
    import numpy as np

    chance = np.random.default_rng(4)
    spread = (1 / np.sqrt(np.arange(1, dimension + 1))).astype(np.float32)
    centres = chance.standard_normal((max(count // 100, 1), dimension), np.float32)
    made: Vectors = chance.standard_normal((count, dimension), np.float32)
    made += centres[chance.integers(0, len(centres), count)]
    made *= spread
    made /= np.linalg.norm(made, axis=1, keepdims=True)
    rotation, _ = np.linalg.qr(chance.standard_normal((dimension, dimension)))
    rotated: Vectors = made @ rotation.astype(np.float32)
    return rotated


async def kept_texts(count: int, file: Path | None, drawn: bool) -> tuple[str, list[str], Vectors]:
    """Return the same from the file, if it has as many; else compute and store them there."""
    import numpy as np

    if file is not None and file.is_file():
        with np.load(file) as kept:
            if len(kept["texts"]) == count:
                return str(kept["model"]), kept["texts"].tolist(), kept["vectors"]
    model, said, made = await embedded_texts(count, drawn)
    if file is not None:
        np.savez(file, model=np.array(model), texts=np.array(said), vectors=made)
    return model, said, made


class Known(Embedder):
    """An embedder with precomputed vectors, so that searches are measured without the model."""

    name = model = "known"

    def __init__(self, vectors: Mapping[str, Any]) -> None:
        self._vectors = vectors

    @property
    def dimension(self) -> int:
        return 384

    async def embed(self, texts: Sequence[str]) -> Vectors:
        import numpy as np

        return np.stack([self._vectors[text] for text in texts])


async def fill(
    index: Index, every: Sequence[IndexEntry], vectors: Mapping[str, Any], at_once: int = 1000
) -> tuple[float, float]:
    """Add all entries and their vectors; return the seconds of both steps."""
    begin = time.perf_counter()
    for start in range(0, len(every), _PART):
        some = every[start : start + _PART]
        await index.put(some[0].part, some[0].agent, "1", some)
    put = time.perf_counter()
    await index.use_model("known", 384)
    while pending := await index.pending(at_once):
        await index.embed([(each, vectors[each.text]) for each in pending])
    return put - begin, time.perf_counter() - put


@dataclass(frozen=True, slots=True)
class Run:
    """Indexes with the same entries, and questions with their vectors."""

    sides: Mapping[str, Index]
    questions: Sequence[str]
    vectors: Mapping[str, Any]

    async def latency(self) -> dict[str, dict[str, dict[str, float]]]:
        """Return p50 and p95 in milliseconds of each kind of query, by filter and side."""
        times: dict[tuple[str, str, str], list[float]] = {}
        for name, wanted in FILTERS.items():
            for question in self.questions:
                for side, index in self.sides.items():
                    for what, call in self._asked(index, question, wanted):
                        times.setdefault((what, name, side), []).append(await _milliseconds(call))
        result: dict[str, dict[str, dict[str, float]]] = {}
        for (what, name, side), found in times.items():
            ordered = sorted(found)
            row = result.setdefault(f"{what}, filter {name}", {})
            row[side] = {
                "p50": round(statistics.median(ordered), 1),
                "p95": round(ordered[len(ordered) * 95 // 100], 1),
            }
        return result

    def _asked(self, index: Index, question: str, wanted: EntryFilter) -> Iterator[tuple[str, Awaitable[object]]]:
        asked = Question(text=question, now=_START, wanted=wanted)
        embedder = Known({parse_question(asked, []).meaning: self.vectors[question]})
        yield "nearest 10", index.nearest(self.vectors[question], wanted, 10)
        yield f"nearest {CANDIDATES}", index.nearest(self.vectors[question], wanted, CANDIDATES)
        yield "words", index.keyword(parse_question(asked, []).words, wanted, CANDIDATES)
        yield "search", search(index, embedder, asked)

    async def recall(self, exact: Index, graphs: Mapping[int, Index]) -> dict[str, dict[str, float]]:
        """Return the share of the ten nearest that each `ef_search` finds, by filter."""
        result: dict[str, dict[str, float]] = {}
        for name, wanted in FILTERS.items():
            best = [await _ten(exact, self.vectors[question], wanted, 10) for question in self.questions]
            for ef_search, graph in graphs.items():
                for limit in (10, CANDIDATES):
                    found = [await _ten(graph, self.vectors[question], wanted, limit) for question in self.questions]
                    pairs = zip(best, found, strict=True)
                    shares = [len(ten & there) / len(ten) if ten else 1.0 for ten, there in pairs]
                    row = result.setdefault(f"ef_search {ef_search}, {limit} requested", {})
                    row[name] = round(statistics.mean(shares), 4)
        return result


async def _ten(index: Index, vector: Any, wanted: EntryFilter, limit: int) -> set[int]:
    return set((await index.nearest(vector, wanted, limit)).keys[:10].tolist())


async def _milliseconds(call: Awaitable[object]) -> float:
    begin = time.perf_counter()
    await call
    return (time.perf_counter() - begin) * 1000


async def measure(url: str, items: int, queries: int, kept: Path | None, drawn: bool) -> dict[str, Any]:
    """Return all measurements as a JSON object."""
    begin = time.perf_counter()
    model, every, made = await kept_texts(items + queries, kept, drawn)
    embedding = time.perf_counter() - begin
    vectors = dict(zip(every, made, strict=True))
    load = os.getloadavg()[0]
    async with contextlib.AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())

        async def opened(**options: Any) -> PostgresIndex:
            given = {"url": url, "schema": "bench_indexes", **options}
            index = await open_index(Variant(name="postgres"), None, given)
            assert isinstance(index, PostgresIndex)
            stack.push_async_callback(index.close)
            return index

        hnsw, exact = await opened(), await opened(exact=True)
        local = await open_index(None, Path(folder) / "index.db", {})
        stack.push_async_callback(local.close)
        seconds: dict[str, tuple[float, ...]] = {
            name: await fill(index, entries(every[:items]), vectors)
            for name, index in (("embedded", local), ("postgres", hnsw))
        }
        graphs: dict[int, Index] = {ef_search: await opened(ef_search=ef_search) for ef_search in EF_SEARCH}
        run = Run({"embedded": local, "exact": exact, "HNSW": hnsw}, every[items:], vectors)
        recall = await run.recall(exact, graphs)
        latency = await run.latency()
        sizes = {"embedded": (await local.stats()).bytes, "postgres": (await hnsw.stats()).bytes}
        version = await hnsw.versions()
    return {
        "items": items,
        "questions": queries,
        "vectors": model,
        "cores": len(os.sched_getaffinity(0)),
        "load": [round(load, 1), round(os.getloadavg()[0], 1)],
        "server": version,
        "seconds": {
            "embedding": round(embedding, 1),
            **{f"put, {name}": round(put, 1) for name, (put, _) in seconds.items()},
            **{f"vectors, {name}": round(given, 1) for name, (_, given) in seconds.items()},
        },
        "megabytes": {name: round(size / 1e6, 1) for name, size in sizes.items()},
        "recall": recall,
        "milliseconds": latency,
    }


async def measure_signs(items: int, queries: int) -> dict[str, Any]:
    """Return the comparison of vectors and their signs in memory as a JSON object."""
    import numpy as np

    made = _drawn(items + queries)
    said = [f"text {number}" for number in range(items)]
    sides: dict[str, Any] = {}
    async with contextlib.AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        opened: dict[str, Index] = {}
        for name, key in (("unsealed", None), ("sealed", os.urandom(32))):
            path = folder / f"{name}.db"
            index = await open_index(None, path, {}, key=key)
            await fill(index, entries(said), dict(zip(said, made, strict=False)), at_once=10_000)
            await index.close()
            for what, large in (("vectors", items + 1), ("signs", 0)):
                in_memory.LARGE = large
                before, begin = _resident(), time.perf_counter()
                index = opened[f"{what}, {name}"] = await open_index(None, path, {}, key=key)
                stack.push_async_callback(index.close)
                seconds = round(time.perf_counter() - begin, 2)
                sides[f"{what}, {name}"] = {"megabytes": round((_resident() - before) / 1e6), "seconds": seconds}
        times: dict[str, list[float]] = {name: [] for name in opened}
        shares: dict[int, list[float]] = {10: [], 100: []}
        for vector in made[items:]:
            for name, index in opened.items():
                times[name].append(await _milliseconds(index.nearest(vector, EntryFilter(), CANDIDATES)))
            exact, found = [
                (await opened[f"{what}, unsealed"].nearest(vector, EntryFilter(), CANDIDATES)).keys & 0xFFFFFFFF
                for what in ("vectors", "signs")
            ]
            for most, share in shares.items():
                share.append(float(np.isin(exact[:most], found[:most]).mean()))
    for name, taken in times.items():
        sides[name] |= {f"p{at}": round(float(np.percentile(taken, at)), 1) for at in (50, 95)}
    recall = {most: round(statistics.mean(share), 4) for most, share in shares.items()}
    return {
        "items": items,
        "questions": queries,
        "load": round(os.getloadavg()[0], 1),
        "sides": sides,
        "recall": recall,
    }


def _resident() -> int:
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # memory that was freed before would be used again, and not be counted
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def signs_table(result: dict[str, Any]) -> str:
    """Return the comparison of vectors and signs as a Markdown table."""
    lines = [
        f"{result['items']:,} items, load {result['load']}, recall {result['recall']}",
        "",
        f"in memory | megabytes | seconds to open | nearest {CANDIDATES}: p50 ms | p95 ms",
        "---|---:|---:|---:|---:",
    ]
    for name, row in result["sides"].items():
        lines.append(f"{name} | {row['megabytes']:,} | {row['seconds']} | {row['p50']} | {row['p95']}")
    return "\n".join(lines)


def table(result: dict[str, Any]) -> str:
    """Return the measurement as Markdown tables."""
    lines = [
        f"{result['items']:,} items, vectors of {result['vectors']}, {result['server']}, load {result['load']}",
        "",
    ]
    lines += [f"recall@10 | {' | '.join(FILTERS)}", "|".join(["---", *["---:"] * len(FILTERS)])]
    lines += [
        f"{name} | {' | '.join(f'{share:.3f}' for share in row.values())}" for name, row in result["recall"].items()
    ]
    lines += ["", "p50 / p95 ms | embedded | exact | HNSW", "---|---:|---:|---:"]
    for name, row in result["milliseconds"].items():
        lines.append(f"{name} | {' | '.join(map(_both, row.values()))}")
    lines += ["", f"seconds: {result['seconds']}", f"megabytes: {result['megabytes']}"]
    return "\n".join(lines)


def _both(times: Mapping[str, float]) -> str:
    return f"{times['p50']} / {times['p95']}"


def main() -> None:
    parser = command_line("indexes", __doc__, items=(ITEMS, "entries"), queries=(QUERIES, "questions"))
    parser.add_argument("--kept", type=Path, help="an .npz file that stores the texts and their vectors")
    parser.add_argument("--drawn", action="store_true", help="draw the vectors even if `local` is installed")
    parser.add_argument("--signs", action="store_true", help="compare vectors and their signs in memory")
    options = parser.parse_args()
    if options.signs:
        show(asyncio.run(measure_signs(options.items, options.queries)), signs_table, as_json=options.json)
        return
    with postgresql() as server:
        if server is None:
            raise SystemExit(f"PostgreSQL is unavailable: install pgserver, or set {NAMED} to the URL of a server")
        result = asyncio.run(measure(server, options.items, options.queries, options.kept, options.drawn))
    show(result, table, as_json=options.json)


if __name__ == "__main__":
    main()
