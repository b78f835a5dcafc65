"""A process that keeps records: `python -m tests.runtime.memory.records.writer ROOT FIRST COUNT`.

It prints each number once it is kept. Eight are under way at a time.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from runtime.memory.item import delivery_uri
from runtime.memory.records.store import RecordsStore
from tests.runtime.memory.texts import item


async def remember(store: RecordsStore, number: int) -> None:
    """Keep what delivery `number` leaves."""
    text = f"Delivery {number}\n- {'x' * (number % 300)}"
    await store.append([item(text, source_uri=delivery_uri(str(number)), tags=(f"t{number % 3}",))])


async def run(root: Path, first: int, count: int) -> None:
    """Keep `count` deliveries from `first` on, saying which are kept."""
    store = RecordsStore(root)
    await store.take_up()
    numbers = iter(range(first, first + count))

    async def work() -> None:
        for number in numbers:
            await remember(store, number)
            sys.stdout.write(f"{number}\n")
            sys.stdout.flush()

    await asyncio.gather(*(work() for _ in range(8)))
    await store.close()


if __name__ == "__main__":
    asyncio.run(run(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
