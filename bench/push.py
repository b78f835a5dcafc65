"""`python -m bench.push [--json] [--chunks N]`: a push beside bare inserts of the rows it leaves, in one run.

*Push* is the product's own tool over generated documents of about ten chunks each, two hundred documents a call, into a
collection with the hashing embedding: cut, redact, hash, look for what is there, seal, commit (SQLite, WAL,
`synchronous=FULL`); and the index, words and vectors, which follows in the background as in a daemon. *Bare* is
`executemany` of the very rows that this left, in tables of the same schema and settings, committed as often: `items`
and `item_parts` of the database, and of the index its entries, tags, vectors and words. Rounds alternate, and the
quickest of each side counts.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sqlite3
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from bench.parts import Ratio
from bench.search import Texts
from runtime.daemon.house import House
from runtime.daemon.root import DATABASE_FILE, INDEXES, make
from runtime.daemon.settings import Settings
from runtime.database.schema import OWNER
from runtime.identity import Caller
from runtime.memory.collection.store import BATCH, CollectionStore
from runtime.memory.opened import OpenMemory
from runtime.search.index import schema
from runtime.tools.collection_push import push
from runtime.tools.context import Context

CHUNKS = 10_000
ROUNDS = 1
_DOCUMENT = 10_500
"""Characters of a document: about ten chunks."""
_CALL = 200
"""Documents that are pushed at once."""
_PROGRAM = "memory notes {\n    store     collection\n    embedding hashing\n}\n"
_INDEXED = ("meta", "parts", "entries", "tags", "vectors")
"""The tables of an index's file that are filled row by row; `words` is filled from `entries`."""

_MAIN = ("auto_vacuum=INCREMENTAL", "synchronous=FULL", "cache_size=-32768", "wal_autocheckpoint=65536")
_WORDS = ("page_size=8192", "synchronous=NORMAL", "cache_size=-16384", "wal_autocheckpoint=0", "temp_store=MEMORY")
"""As the product's own connections are."""


class Times(NamedTuple):
    """Seconds of one round: until the push was answered, and until all of it was in the index with its vectors."""

    pushed: float
    indexed: float
    chunks: int


def documents(chunks: int, seed: int = 1) -> Iterator[str]:
    """Texts of sentences, about as many as come to so many chunks."""
    texts, chance = Texts(seed), random.Random(seed)
    for _ in range(max(1, chunks // 10)):
        sentences, size = [], 0
        while size < _DOCUMENT:
            sentences.append(f"{texts.text(8, 24).capitalize()}.")
            size += len(sentences[-1]) + 1
        yield ("\n\n" if chance.random() < 0.5 else " ").join(sentences)


async def product(folder: Path, texts: Sequence[str]) -> Times:
    """Push the texts into a new root in this folder."""
    (folder / "p.symbiont").write_text(_PROGRAM)
    async with House.open(make(folder, {}, folder), Settings.read({})) as house:
        await house.load([folder / "p.symbiont"])
        context = Context(Caller(OWNER, frozenset({"admin"})), house)
        await house.attend(lambda name, work: asyncio.create_task(work, name=name))
        begin = time.perf_counter()
        for first in range(0, len(texts), _CALL):
            some = range(first, min(first + _CALL, len(texts)))
            await push(context, items=[{"text": texts[each], "source_uri": f"file:///{each}.txt"} for each in some])
        pushed = time.perf_counter()
        memory = house.memories["notes"]
        store = memory.store
        assert isinstance(store, CollectionStore)
        count = sum(each.items for each in await store.counts())
        await _indexed(memory, count)
        times = Times(pushed - begin, time.perf_counter() - begin, count)
        await memory.indexer.rest()
        return times


async def _indexed(memory: OpenMemory, count: int) -> None:
    """Until the background has put everything, and made its vectors."""
    while (await memory.index_stats()).embedded < count:
        await asyncio.sleep(0.01)


class Copied(NamedTuple):
    """A table's rows and how they are inserted."""

    insert: str
    rows: list[tuple[Any, ...]]


def bare(folder: Path, source: Path) -> float:
    """Seconds that it takes to insert what `source`, a root, holds of collections into new tables."""
    main, index = source / ".symbi" / DATABASE_FILE, next((source / ".symbi" / INDEXES).glob("*.db"))
    tables = {name: _rows(main, name) for name in ("item_parts", "items")}
    indexed = {name: _rows(index, name) for name in _INDEXED}
    with closing(_made(folder / "main.db", *_MAIN)) as database, closing(_made(folder / "index.db", *_WORDS)) as words:
        for name in tables:
            _copy_schema(main, database, name)
        words.execute("BEGIN IMMEDIATE")
        schema.make(words)
        words.execute("COMMIT")
        begin = time.perf_counter()
        _insert(database, tables.values())
        _insert(words, indexed.values())
        _index_words(words)
        return time.perf_counter() - begin


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


def _rows(source: Path, table: str) -> Copied:
    with closing(sqlite3.connect(source)) as connection:
        found = connection.execute(f"SELECT * FROM {table}")
        places = ", ".join("?" * len(found.description))
        return Copied(f"INSERT OR REPLACE INTO {table} VALUES ({places})", found.fetchall())


def _insert(connection: sqlite3.Connection, tables: Any) -> None:
    for insert, rows in tables:
        for begin in range(0, len(rows), BATCH):
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(insert, rows[begin : begin + BATCH])
            connection.execute("COMMIT")


def _index_words(connection: sqlite3.Connection) -> None:
    (last,) = connection.execute("SELECT max(key) FROM entries").fetchone()
    for begin in range(0, last, BATCH):
        connection.execute("BEGIN IMMEDIATE")
        sql = "INSERT INTO words (rowid, text, about) SELECT key, text, about FROM entries WHERE key > ? AND key <= ?"
        connection.execute(sql, (begin, begin + BATCH))
        connection.execute("COMMIT")


async def measure(chunks: int, rounds: int = ROUNDS) -> dict[str, Any]:
    """Both sides, in turns."""
    texts = list(documents(chunks))
    pushes: list[Times] = []
    inserts: list[float] = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as root, tempfile.TemporaryDirectory() as beside:
            pushes.append(await product(Path(root), texts))
            inserts.append(await asyncio.to_thread(bare, Path(beside), Path(root)))
    ours, theirs = min(pushes, key=lambda times: times.indexed), min(inserts)
    pushed = min(times.pushed for times in pushes)
    return {
        "chunks": ours.chunks,
        "seconds": {"push, until it is answered": pushed, "push and index": ours.indexed, "bare inserts": theirs},
        "ratios": [
            Ratio("push and index / bare inserts", ours.indexed / theirs, "at most 2"),
            Ratio("push, until it is answered / bare inserts", pushed / theirs, "at most 2"),
        ],
    }


def table(result: dict[str, Any]) -> str:
    """The measurement as Markdown tables."""
    lines = [f"{result['chunks']:,} chunks", "", "| | seconds |", "|---|---:|"]
    lines += [f"| {name} | {seconds:.2f} |" for name, seconds in result["seconds"].items()]
    lines += ["", "| ratio | | aim |", "|---|---:|---|"]
    lines += [f"| {ratio.name} | **{ratio.value:.2f}** | {ratio.aim} |" for ratio in result["ratios"]]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.push", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--chunks", type=int, default=CHUNKS, help=f"about so many (default {CHUNKS:,})")
    options = parser.parse_args()
    result = asyncio.run(measure(options.chunks))
    print(json.dumps(result, indent=2, default=vars) if options.json else table(result))


if __name__ == "__main__":
    main()
