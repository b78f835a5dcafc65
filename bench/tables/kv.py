"""`python -m bench.tables.kv [--json] [--entries N]`: sets and gets of the key-value store, beside bare sqlite3.

Both sides have N entries of about 200 bytes with two tags each. *Bare* is sqlite3 alone, in this thread: a table of
names, values, tags and versions in the clear, `synchronous=FULL`, one transaction for each set. The sides take turns,
and p50 of each counts. *At once*: 50 clients, each of which sets and gets without a pause.
"""

from __future__ import annotations

import asyncio
import json
import random
import sqlite3
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from bench.harness.report import Ratio, command_line, ratio_table, show
from runtime.clock import SYSTEM
from runtime.crypto import MasterKey, new_key
from runtime.database.connection import Database
from runtime.identity.user_settings import UserSettingsStore
from runtime.tables.kv.store import KvStore
from runtime.tables.quota import TIERS
from runtime.tables.storage import UserStorage

ENTRIES: Final = 20_000
_TURNS: Final = 10
_CALLS: Final = 50
"""Sets, and gets, of each side in one turn."""
_CLIENTS: Final = 50
_VALUE: Final = {"order": 12_345, "state": "shipped", "note": "x" * 140}
_SCHEMA: Final = """
CREATE TABLE kv (name TEXT PRIMARY KEY, value TEXT NOT NULL, version INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE tags (tag TEXT, name TEXT, PRIMARY KEY (tag, name)) WITHOUT ROWID;
"""


class Bare:
    """The same in a file of sqlite3, without users, encryption, quotas and expiry."""

    def __init__(self, path: Path) -> None:
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.connection.executescript(f"PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; {_SCHEMA}")

    def set(self, name: str) -> None:
        execute = self.connection.execute
        execute("BEGIN IMMEDIATE")
        row = execute("SELECT version FROM kv WHERE name = ?", (name,)).fetchone()
        version = 1 if row is None else row[0] + 1
        execute("INSERT OR REPLACE INTO kv VALUES (?, ?, ?)", (name, json.dumps(_VALUE), version))
        self.connection.executemany("INSERT OR IGNORE INTO tags VALUES (?, ?)", [("a", name), ("b", name)])
        execute("COMMIT")

    def get(self, name: str) -> Any:
        return json.loads(self.connection.execute("SELECT value FROM kv WHERE name = ?", (name,)).fetchone()[0])


async def measure(entries: int, turns: int = _TURNS) -> dict[str, Any]:
    """Return milliseconds of each call by side, and calls a second of many clients."""
    with tempfile.TemporaryDirectory() as folder:
        database = await Database.open(Path(folder) / "symbiont.db", MasterKey(new_key()))
        storage = UserStorage(database, SYSTEM, UserSettingsStore(database, SYSTEM), TIERS, "enterprise")
        store = KvStore(database, SYSTEM, storage, "owner")
        bare = Bare(Path(folder) / "bare.db")
        try:
            names = [f"order {number}" for number in range(entries)]
            for begin in range(0, entries, 200):
                await asyncio.gather(*(store.set(name, _VALUE, ["a", "b"]) for name in names[begin : begin + 200]))
            for name in names:
                bare.set(name)
            return await _alternate(store, bare, names, turns)
        finally:
            bare.connection.close()
            await database.close()


async def _alternate(store: KvStore, bare: Bare, names: list[str], turns: int) -> dict[str, Any]:
    taken: dict[str, list[float]] = {"set": [], "get": [], "bare set": [], "bare get": []}
    chance = random.Random(1)

    def note(what: str, begin: float) -> None:
        taken[what].append((time.perf_counter() - begin) * 1000)

    for _ in range(turns):
        some = chance.choices(names, k=_CALLS)
        for name in some:
            begin = time.perf_counter()
            await store.set(name, _VALUE, ["a", "b"])
            note("set", begin)
        for name in some:
            begin = time.perf_counter()
            entry = await store.get(name)
            note("get", begin)
            assert entry is not None
            assert entry.value == _VALUE
        for name in some:
            begin = time.perf_counter()
            bare.set(name)
            note("bare set", begin)
        for name in some:
            begin = time.perf_counter()
            assert bare.get(name) == _VALUE
            note("bare get", begin)
    found = {name: round(statistics.median(times), 3) for name, times in taken.items()}
    ratios = [
        Ratio("set, ms added at p50", found["set"] - found["bare set"], "at most 2"),
        Ratio("get, ms added at p50", found["get"] - found["bare get"], "at most 1.5"),
    ]
    return {"milliseconds": found, "a second": await _at_once(store, names, turns), "ratios": ratios}


async def _at_once(store: KvStore, names: list[str], turns: int) -> dict[str, int]:
    rates: dict[str, int] = {}
    for what in ("set", "get"):

        async def client(number: int, what: str = what) -> None:
            for place in range(turns):
                name = names[(number * turns + place) % len(names)]
                await (store.set(name, _VALUE, ["a", "b"]) if what == "set" else store.get(name))

        begin = time.perf_counter()
        await asyncio.gather(*(client(number) for number in range(_CLIENTS)))
        rates[what] = round(_CLIENTS * turns / (time.perf_counter() - begin))
    return rates


def table(result: dict[str, Any]) -> str:
    """Return the measurement as text."""
    lines = [f"{name}: p50 {milliseconds} ms" for name, milliseconds in result["milliseconds"].items()]
    lines += [f"{name}: {rate:,} a second, {_CLIENTS} clients at once" for name, rate in result["a second"].items()]
    return "\n".join([*lines, *ratio_table(result["ratios"])])


def main() -> None:
    """Measure and print."""
    given = command_line("tables.kv", __doc__, entries=(ENTRIES, "entries of each side")).parse_args()
    show(asyncio.run(measure(given.entries)), table, as_json=given.json)


if __name__ == "__main__":
    main()
