"""`python -m bench.listing [--json] [--items N]`: the newest ten of N items by the index, compared with reading the
store.

N generated entries are in the logs of ten agents, over so many days that a log has a hundred, and in the index.
*Newest* lists the last ten of all agents, *by a tag* the items with a tag that no item has. Each runs like `symbi
memory list`, which first checks for manual edits, and again without the index, reading the store from today back; *a
scan* reads the whole store. Sides alternate, and medians are compared.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from heapq import nlargest
from pathlib import Path

from bench.harness.report import Ratio, command_line, show
from bench.search import Texts
from dslc.blocks.memory import Memory
from runtime.clock import SYSTEM
from runtime.memory import open_store
from runtime.memory.indexing.index_file import open_indexer
from runtime.memory.item import Item
from runtime.memory.items.newest import newest, scan_of
from runtime.memory.open_memory import OpenMemory
from runtime.memory.store import Store
from runtime.memory.store_types import Scan, position_of
from runtime.search.entry import EntryFilter

ITEMS = 60_000
ROUNDS = 5
LISTED = 10
AGENTS = 10
_OF_A_LOG = 100
_NOW = datetime.now(UTC)
_UNUSED_TAG = EntryFilter(tags_all=frozenset({"unused"}))

Result = dict[str, dict[str, float]]
"""Milliseconds of each side, by query."""


async def measure(items: int = ITEMS) -> Result:
    """Fill a memory, then run the queries."""
    with tempfile.TemporaryDirectory() as name:
        block = Memory(name="notes", path="notes")
        store = await open_store(block, Path(name))
        await _fill(store, items)
        indexer = await open_indexer(store, block.index, Path(name) / "index", SYSTEM)
        memory = OpenMemory(block, indexer, None, folder=None)
        await memory.sync()
        try:
            return {"newest": await _asked(memory, EntryFilter()), "by a tag": await _asked(memory, _UNUSED_TAG)}
        finally:
            await memory.close()


async def _fill(store: Store, items: int) -> None:
    texts = Texts()
    for begin in range(0, items, _OF_A_LOG):
        agent, day = f"agent-{begin // _OF_A_LOG % AGENTS}", _NOW - timedelta(days=begin // _OF_A_LOG // AGENTS + 1)
        await store.append(
            Item(
                agent_id=agent,
                memory_type="episodic",
                timestamp=day + timedelta(seconds=number),
                tags=("some",),
                text=texts.text(),
            )
            for number in range(min(_OF_A_LOG, items - begin))
        )


async def _asked(memory: OpenMemory, wanted: EntryFilter) -> dict[str, float]:
    async def by_index() -> list[Item]:
        return await newest(memory, wanted, LISTED)

    async def without() -> list[Item]:
        return await memory.store.newest(scan_of(wanted), LISTED)

    async def scanned() -> list[Item]:
        scan = Scan(tags=wanted.tags_all)
        return nlargest(LISTED, [item async for item in memory.store.scan(scan)], key=position_of)

    sides = {"index": by_index, "store": without, "scan": scanned}
    times: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(ROUNDS):
        answers = []
        for name, ask in sides.items():
            took, found = await _timed(ask)
            times[name].append(took)
            answers.append([item.memory_id for item in found])
        assert answers[0] == answers[1] == answers[2]
    return {name: round(statistics.median(each), 2) for name, each in times.items()}


async def _timed(ask: Callable[[], Awaitable[list[Item]]]) -> tuple[float, list[Item]]:
    begun = time.perf_counter()
    found = await ask()
    return (time.perf_counter() - begun) * 1000, found


def ratios(result: Result) -> list[Ratio]:
    """Return the duration of the other sides relative to the index."""
    return [
        Ratio(f"{what}: {side} / index", round(times[side] / times["index"], 1), "more than 1")
        for what, times in result.items()
        for side in ("store", "scan")
    ]


def table(result: Result) -> str:
    """Return the measurement as text."""
    lines = [f"{'list 10':<12}{'index':>12}{'store':>12}{'scan':>12}"]
    for what, times in result.items():
        lines.append(f"{what:<12}" + "".join(f"{times[side]:>9.1f} ms" for side in ("index", "store", "scan")))
    return "\n".join([*lines, "", *(f"{each.name:<24}{each.value:>8.1f}   ({each.aim})" for each in ratios(result))])


def main() -> None:
    options = command_line("listing", __doc__, items=(ITEMS, "entries of the store")).parse_args()
    result = asyncio.run(measure(options.items))
    show({"ms": result, "ratios": ratios(result)}, lambda _: table(result), as_json=options.json)


if __name__ == "__main__":
    main()
