"""`python -m bench.tables.sqlite [--json] [--calls N] [--users N]`: statements on users' tables compared with bare
sqlite3, and the memory of many users at once.

*Product* is `SqliteTables.run` with a warm worker: parameters, the way to the process and back, the limits, and a
sealed file. *Bare* is Python's sqlite3 on a file that is not sealed, with the same settings (WAL, `synchronous=FULL`).
SELECT reads one row by its key, INSERT adds one. Both alternate call by call. *Memory* is the proportional set size
(PSS) of all processes with one open file for each user, this one included; it is read by the superuser only.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from bench.harness.report import Ratio, command_line, ratio_table, show
from runtime.clock import SYSTEM
from runtime.crypto import MasterKey
from runtime.database.connection import Database
from runtime.identity import users
from runtime.identity.user_settings import UserSettingsStore
from runtime.tables.quota import TIERS
from runtime.tables.sql_database import Value
from runtime.tables.sqlite.database import SqliteTables
from runtime.tables.storage import UserStorage

CALLS = 1000
USERS = 200
ROWS = 1000
MOST_ADDED_MS = 1.5
"""Milliseconds that a call may take longer than the bare one, at p50."""
MOST_GB = 1.5
"""Memory of 200 users at once."""
_TABLE = "CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT, price REAL)"
_INSERT = "INSERT INTO orders (item, price) VALUES (?, ?)"
_SELECT = "SELECT item, price FROM orders WHERE id = ?"
_QUOTA = TIERS["enterprise"]


async def measure(calls: int, count: int) -> dict[str, Any]:
    """Return milliseconds of each side at p50 and p99, and the memory."""
    with tempfile.TemporaryDirectory(prefix="symbiont-bench-") as name:
        folder = Path(name)
        database = await Database.open(folder / "symbiont.db", MasterKey(bytes(32)))
        storage = UserStorage(database, SYSTEM, UserSettingsStore(database, SYSTEM), TIERS, "enterprise")
        tables = SqliteTables(database, folder, storage)
        try:
            timed = await _timed(tables, folder, calls)
            memory = await _memory(tables, database, count)
        finally:
            await tables.close()
            await database.close()
    return {"calls": calls, "times": timed, "users": count, "memory": memory}


async def _timed(tables: SqliteTables, folder: Path, calls: int) -> dict[str, Any]:
    rows: list[list[Value]] = [["tea", number / 7] for number in range(ROWS)]
    await tables.run("owner", _TABLE, (), _QUOTA)
    await tables.run_for_each("owner", _INSERT, rows, _QUOTA)
    with closing(sqlite3.connect(folder / "bare.db", isolation_level=None)) as bare:
        bare.execute("PRAGMA journal_mode=WAL")
        bare.execute("PRAGMA synchronous=FULL")
        bare.execute(_TABLE)
        bare.execute("BEGIN")
        bare.executemany(_INSERT, rows)
        bare.execute("COMMIT")

        async def by_sqlite3(statement: str, parameters: Sequence[Any]) -> None:
            bare.execute(statement, parameters).fetchall()

        async def by_product(statement: str, parameters: Sequence[Any]) -> None:
            await tables.run("owner", statement, parameters, _QUOTA)

        found: dict[str, Any] = {}
        for kind, statement in (("select", _SELECT), ("insert", _INSERT)):
            times: dict[str, list[float]] = {"bare": [], "product": []}
            for number in range(calls):
                parameters = [1 + number % ROWS] if kind == "select" else ["tea", number / 7]
                sides = [("bare", by_sqlite3), ("product", by_product)]
                # Each side is as often the one that finds the disk busy with what the other wrote.
                for side, call in sides if number % 2 else reversed(sides):
                    times[side].append(await _seconds(call, statement, parameters))
            found[kind] = {side: _percentiles(each) for side, each in times.items()}
    return found


async def _seconds(
    call: Callable[[str, Sequence[Any]], Awaitable[None]], statement: str, parameters: Sequence[Any]
) -> float:
    began = time.perf_counter()
    await call(statement, parameters)
    return time.perf_counter() - began


def _percentiles(seconds: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(seconds, n=100)
    return {
        "p50": 1000 * statistics.median(seconds),
        "p99": 1000 * cuts[98],
        "per_second": 1 / statistics.mean(seconds),
    }


async def _memory(tables: SqliteTables, database: Database, count: int) -> dict[str, Any]:
    found = [await users.add(database, f"user{number}", 0) for number in range(count)]
    began = time.perf_counter()
    for user_id in found:
        await tables.run(user_id, _TABLE, (), _QUOTA)
        await tables.run_for_each(user_id, _INSERT, [["tea", 1]] * ROWS, _QUOTA)
        await tables.run(user_id, "SELECT item, sum(price) AS s FROM orders GROUP BY item", (), _QUOTA)
    seconds = time.perf_counter() - began
    below = _below(os.getpid())
    own = _pss(os.getpid())
    return {"processes": len(below), "seconds": seconds, "daemon": own, "all": own + sum(map(_pss, below))}


def _below(process: int) -> list[int]:
    """Return the processes below this one."""
    parents = {}
    for each in Path("/proc").iterdir():
        with suppress(OSError):
            if each.name.isdigit():
                parents[int(each.name)] = int((each / "stat").read_text().rpartition(")")[2].split()[1])
    found = [number for number, parent in parents.items() if parent == process]
    for number in found:
        found += [each for each, parent in parents.items() if parent == number]
    return found


def _pss(process: int) -> int:
    """Return bytes."""
    for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0


def table(result: dict[str, Any]) -> str:
    """Return a Markdown table."""
    lines = ["| | p50 ms | p99 ms | calls per second |", "|---|---:|---:|---:|"]
    ratios = []
    for kind, sides in result["times"].items():
        for side, each in sides.items():
            lines.append(f"| {kind}, {side} | {each['p50']:.3f} | {each['p99']:.3f} | {each['per_second']:,.0f} |")
        added = sides["product"]["p50"] - sides["bare"]["p50"]
        ratios.append(Ratio(f"ms added to {kind} at p50", added, f"at most {MOST_ADDED_MS}"))
    memory = result["memory"]
    name = f"GB of {result['users']} users at once ({memory['processes']} processes)"
    ratios.append(Ratio(name, memory["all"] / 1e9, f"at most {MOST_GB}"))
    return "\n".join([*lines, *ratio_table(ratios)])


def main() -> None:
    """Measure and print."""
    numbers = {"calls": (CALLS, "calls of each kind"), "users": (USERS, "users at once")}
    given = command_line("tables.sqlite", __doc__, **numbers).parse_args()
    show(asyncio.run(measure(given.calls, given.users)), table, as_json=given.json)


if __name__ == "__main__":
    main()
