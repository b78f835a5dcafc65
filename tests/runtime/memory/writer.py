"""A process that remembers: `python -m tests.runtime.memory.writer ROOT FIRST COUNT`.

It prints each number once it is kept. Every delivery leaves an entry in today's log, and every eighth a fact. Eight are
under way at a time.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from runtime.memory.item import delivery_uri
from runtime.memory.markdown import MarkdownStore
from tests.runtime.memory.texts import fact, item


async def remember(store: MarkdownStore, number: int) -> None:
    """Keep what delivery `number` leaves."""
    entry = item(f"Delivery {number}\n- {'x' * (number % 300)}", source_uri=delivery_uri(str(number)))
    learned = [fact(f"Fact {number}", source_uri=delivery_uri(str(number), "fact"))] if number % 8 == 0 else []
    await store.append([entry, *learned])


async def run(root: Path, first: int, count: int) -> None:
    """Keep `count` deliveries from `first` on, saying which are kept."""
    store = MarkdownStore(root)
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
