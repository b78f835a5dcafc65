"""`python -m bench.push [--json] [--chunks N]`: a push compared with plain inserts of the same rows, in one run.

*Push* is the product's own tool on generated texts of one chunk each, about 1,000 characters, a thousand per call, into
a collection with the hashing embedding: redact, hash, find existing items, seal, commit (SQLite, WAL,
`synchronous=FULL`); and the index, words and vectors, which follows in the background as in a daemon. *Bare* is
`executemany` of the resulting rows, into tables of the same schema and settings, committed as often: `items` and
`item_parts` of the database, and entries, tags, vectors and words of the index. Rounds alternate, and the fastest of
each side counts. *Processor* is the processor time of all threads of the process in that round.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from bench.harness.report import Ratio, command_line, ratio_table, show
from bench.search import Texts
from runtime.daemon.process.root import DATABASE_FILE, INDEXES, make
from runtime.daemon.process.settings import ProcessSettings
from runtime.daemon.program.app import App
from runtime.database.schema import OWNER
from runtime.identity.caller import Caller
from runtime.memory.collection.store import BATCH
from runtime.memory.indexing.indexer import PUT_AT_ONCE
from runtime.memory.open_memory import OpenMemory
from runtime.search.index.embedded import schema, sqlcipher
from runtime.tools.collection.push import push
from runtime.tools.collection.types import PushResult

CHUNKS = 10_000
ROUNDS = 3
_CHARACTERS = 1_000
"""Approximate characters of a chunk."""
_CALL = 1_000
"""Chunks per call."""
_PROGRAM = "memory notes {\n    store     collection\n    embedding hashing\n}\n"
_INDEXED = ("meta", "parts", "entries", "tags", "vectors")
"""The tables of an index's file that are filled row by row; `words` is filled from `entries`."""

_MAIN = ("auto_vacuum=INCREMENTAL", "synchronous=FULL", "cache_size=-32768", "wal_autocheckpoint=65536")
_WORDS = ("page_size=8192", "synchronous=NORMAL", "cache_size=-16384", "wal_autocheckpoint=0", "temp_store=MEMORY")
"""The settings of the product's own connections."""


class Times(NamedTuple):
    """Seconds of one round: until the response to the push, until everything is indexed with its vectors, and of
    processor time."""

    pushed: float
    indexed: float
    processor: float


def generated(chunks: int, seed: int = 1) -> Iterator[str]:
    """Yield texts of sentences, each of which is one chunk."""
    texts = Texts(seed)
    for _ in range(chunks):
        sentences, size = [], 0
        while size < _CHARACTERS - 100:
            sentences.append(f"{texts.text(8, 24).capitalize()}.")
            size += len(sentences[-1]) + 1
        yield " ".join(sentences)[:1200]


async def product(folder: Path, texts: Sequence[str]) -> tuple[Times, bytes | None]:
    """Push the texts into a new root in this folder; return the times, and the key of its index's file."""
    (folder / "p.symbiont").write_text(_PROGRAM)
    async with App.open(make(folder, os.environ, folder), ProcessSettings.read({})) as app:
        await app.load([folder / "p.symbiont"])
        context = app.contexts.tool(Caller(OWNER, frozenset({"admin"})))
        await app.start_background(lambda name, work: asyncio.create_task(work, name=name))
        begin, before = time.perf_counter(), time.process_time()
        for first in range(0, len(texts), _CALL):
            some = range(first, min(first + _CALL, len(texts)))
            items = [{"text": texts[each], "source_uri": f"file:///{each // 10}.txt"} for each in some]
            done = await push.function(context, items=items)
            assert isinstance(done, PushResult)
            assert done.inserted == len(items)
        pushed = time.perf_counter()
        memory = app.generation.memories["notes"]
        await _indexed(memory, len(texts))
        times = Times(pushed - begin, time.perf_counter() - begin, time.process_time() - before)
        await memory.indexer.stop_background()
        return times, memory.store.index_keys[0]


async def _indexed(memory: OpenMemory, count: int) -> None:
    """Wait until the background indexing has finished, with vectors."""
    while (await memory.index_stats()).embedded < count:
        await asyncio.sleep(0.01)


class Copied(NamedTuple):
    """A table's rows, and the statement that inserts them."""

    insert: str
    rows: list[tuple[Any, ...]]


def bare(folder: Path, source: Path, key: bytes | None) -> tuple[float, float]:
    """Return the elapsed seconds, and the processor seconds, of inserting the rows of the root `source` into new
    tables. `key` opens its sealed index; the new tables are not sealed."""
    main, index = source / ".symbi" / DATABASE_FILE, next((source / ".symbi" / INDEXES).glob("collection-*.db"))
    tables = {name: _rows(main, name) for name in ("item_parts", "items")}
    indexed = {name: _rows(index, name, key) for name in _INDEXED}
    with closing(_made(folder / "main.db", *_MAIN)) as database, closing(_made(folder / "index.db", *_WORDS)) as words:
        for name in tables:
            _copy_schema(main, database, name)
        words.execute("BEGIN IMMEDIATE")
        schema.make(words)
        words.execute("COMMIT")
        begin, before = time.perf_counter(), time.process_time()
        _insert(database, tables.values())
        entries = indexed.pop("entries")
        _insert(words, indexed.values())
        _insert_entries(words, entries)
        return time.perf_counter() - begin, time.process_time() - before


def _made(path: Path, *pragmas: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    for pragma in (*pragmas, "journal_mode=WAL"):
        connection.execute(f"PRAGMA {pragma}").fetchall()
    return connection


def _copy_schema(source: Path, target: sqlite3.Connection, table: str) -> None:
    with closing(sqlite3.connect(source)) as connection:
        query = "SELECT sql FROM sqlite_master WHERE tbl_name = ? AND sql IS NOT NULL ORDER BY type DESC"
        for (sql,) in connection.execute(query, (table,)):
            target.execute(sql)


def _rows(source: Path, table: str, key: bytes | None = None) -> Copied:
    with closing(sqlcipher.connect(source, key, timeout=10)) as connection:
        found = connection.execute(f"SELECT * FROM {table}")
        places = ", ".join("?" * len(found.description))
        return Copied(f"INSERT OR REPLACE INTO {table} VALUES ({places})", found.fetchall())


def _insert(connection: sqlite3.Connection, tables: Any) -> None:
    for insert, rows in tables:
        for begin in range(0, len(rows), BATCH):
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(insert, rows[begin : begin + BATCH])
            connection.execute("COMMIT")


def _insert_entries(connection: sqlite3.Connection, entries: Copied) -> None:
    """Insert entries and their words, with the product's transaction size."""
    index = "INSERT INTO words (rowid, text, about) SELECT key, text, about FROM entries WHERE key BETWEEN ? AND ?"
    for begin in range(0, len(entries.rows), PUT_AT_ONCE):
        some = entries.rows[begin : begin + PUT_AT_ONCE]
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(entries.insert, some)
        connection.execute(index, (some[0][0], some[-1][0]))
        connection.execute("COMMIT")


async def measure(chunks: int, rounds: int = ROUNDS) -> dict[str, Any]:
    """Measure both sides in turns."""
    texts = list(generated(chunks))
    pushes: list[Times] = []
    inserts: list[tuple[float, float]] = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as root, tempfile.TemporaryDirectory() as beside:
            times, key = await product(Path(root), texts)
            pushes.append(times)
            inserts.append(bare(Path(beside), Path(root), key))
    pushed, indexed, processor = (min(each) for each in zip(*pushes, strict=True))
    bare_seconds, bare_processor = (min(each) for each in zip(*inserts, strict=True))
    return {
        "chunks": chunks,
        "seconds": {
            "push, until it is answered": pushed,
            "push and index": indexed,
            "bare inserts": bare_seconds,
            "push and index, processor": processor,
            "bare inserts, processor": bare_processor,
        },
        "ratios": [
            Ratio("push and index / bare inserts", indexed / bare_seconds, "at most 2"),
            Ratio("push, until it is answered / bare inserts", pushed / bare_seconds, "at most 2"),
            Ratio("processor of both", processor / bare_processor, ""),
        ],
    }


def table(result: dict[str, Any]) -> str:
    """Return the measurement as Markdown tables."""
    lines = [f"{result['chunks']:,} chunks", "", "| | seconds |", "|---|---:|"]
    lines += [f"| {name} | {seconds:.2f} |" for name, seconds in result["seconds"].items()]
    lines += ratio_table(result["ratios"])
    return "\n".join(lines)


def main() -> None:
    options = command_line("push", __doc__, chunks=(CHUNKS, "chunks to push")).parse_args()
    show(asyncio.run(measure(options.chunks)), table, as_json=options.json)


if __name__ == "__main__":
    main()
