"""`python -m bench.keys.resealing [--json] [--rows N]`: sealing N messages again after a rotation, while deliveries
come in.

Deliveries arrive at a fixed rate, first beside nothing, then beside the pass, in one process and on one disk. All are
accepted and all values are sealed with the new key, or it fails.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
from sqlalchemy import func, select

from bench.harness.postgresql import postgresql
from bench.harness.report import Ratio, command_line, ratio_table, show
from runtime.clock import SYSTEM, milliseconds, uuid7
from runtime.crypto import PREFIX_BYTES, MasterKey, new_key
from runtime.database import bulk
from runtime.database.connection import Database
from runtime.database.resealing import Resealing
from runtime.database.schema import messages
from runtime.database.sealed import Seal
from runtime.webhooks.deliveries.delivery import Candidate
from runtime.webhooks.receiving.admission import Admission

ROWS: Final = 100_000
A_SECOND: Final = 100
"""Deliveries that arrive in a second."""
IDLE_SECONDS: Final = 10
_TEXT: Final = msgspec.json.encode([{"type": "text", "text": "x" * 400}])
_COLUMNS: Final = ("id", "user_id", "thread_id", "position", "role", "kind", "tokens", "created_at", "content")


async def measure(url: str | Path, rows: int) -> dict[str, Any]:
    """Return milliseconds of each delivery, `idle` and `during` the pass, and the `seconds` of the pass."""
    database = await Database.open(url, MasterKey(new_key()))
    try:
        await _fill(database, rows)
        admission = Admission(database, SYSTEM)
        end = time.monotonic() + IDLE_SECONDS
        idle = await _deliver(admission, lambda: time.monotonic() < end)
        database.keys.rotate(["owner"], milliseconds(SYSTEM))
        work = Resealing(database, SYSTEM)
        began = time.monotonic()
        making = asyncio.create_task(work.run_pass())
        during = await _deliver(admission, lambda: not making.done())
        state = await making
        seconds = time.monotonic() - began
        assert state is not None
        assert state.left == state.unreadable == 0
        prefix = database.keys.ensure("owner").prefix
        async with database.read() as connection:
            query = select(func.count()).where(func.substr(messages.c.content, 1, PREFIX_BYTES) == prefix)
            assert await connection.scalar(query) == rows
        return {"idle": idle, "during": during, "seconds": seconds, "moved": state.moved}
    finally:
        await database.close()


async def _fill(database: Database, rows: int) -> None:
    seal, now = Seal(database.keys, messages.c.content), milliseconds(SYSTEM)
    for begin in range(0, rows, 1000):
        some = []
        for position in range(begin, min(begin + 1000, rows)):
            row = uuid7(SYSTEM)
            content = seal.close(_TEXT, row=row)
            some.append((row, "owner", "a thread", position, "user", "message", 100, now, content))
        await database.transact(partial(bulk.insert, table=messages, columns=_COLUMNS, rows=some))


async def _deliver(admission: Admission, goes_on: Callable[[], bool]) -> list[float]:
    """Send deliveries at a fixed rate while `goes_on`; return the milliseconds of each."""
    taken: list[float] = []

    async def one(number: int) -> None:
        began = time.perf_counter()
        decision = await admission.admit(_candidate(f"{id(taken)}-{number}"))
        assert decision.verdict == "accepted"
        taken.append((time.perf_counter() - began) * 1000)

    sent: list[asyncio.Task[None]] = []
    begin = time.monotonic()
    while goes_on():
        sent.append(asyncio.create_task(one(len(sent))))
        await asyncio.sleep(max(0.0, begin + len(sent) / A_SECOND - time.monotonic()))
    await asyncio.gather(*sent)
    return taken


def _candidate(delivery_id: str) -> Candidate:
    return Candidate(
        webhook="github",
        provider="github",
        agent="reviewer",
        body=b'{"action":"opened"}',
        body_sha256="0" * 64,
        provider_delivery_id=delivery_id,
    )


def table(result: dict[str, Any]) -> str:
    """Return the measurement as text."""
    lines = []
    for name, row in result["rows"].items():
        said = (f"{when} p50 {row[when][0]} ms, p99 {row[when][1]} ms" for when in ("idle", "during"))
        lines.append(f"{name}: {row['seconds']} s, {row['a second']:,} rows a second; deliveries {'; '.join(said)}")
    return "\n".join([*lines, *ratio_table(result["ratios"])])


def _row(found: dict[str, Any], rows: int) -> dict[str, Any]:
    def cuts(taken: list[float]) -> tuple[float, float]:
        found = statistics.quantiles(taken, n=100)
        return round(found[49], 1), round(found[98], 1)

    seconds = round(found["seconds"], 1)
    rate = round(rows / found["seconds"])
    return {"seconds": seconds, "a second": rate, "idle": cuts(found["idle"]), "during": cuts(found["during"])}


def main() -> None:
    """Measure on SQLite, and on PostgreSQL if there is a server."""
    given = command_line("keys.resealing", __doc__, rows=(ROWS, "messages that are sealed again")).parse_args()
    rows: dict[str, Any] = {}
    ratios: list[Ratio] = []
    with tempfile.TemporaryDirectory() as folder, postgresql() as server:
        for name, url in (("SQLite", Path(folder) / "symbiont.db"), ("PostgreSQL", server)):
            if url is None:
                continue
            rows[name] = _row(asyncio.run(measure(url, given.rows)), given.rows)
            ratio = rows[name]["during"][0] / rows[name]["idle"][0]
            ratios.append(Ratio(f"{name}, p50 of a delivery beside sealing again / idle", ratio, "at most 3"))
    show({"rows": rows, "ratios": ratios}, table, as_json=given.json)


if __name__ == "__main__":
    main()
