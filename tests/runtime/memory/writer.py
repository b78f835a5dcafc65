"""A process that stores items: `main` with `markdown|records ROOT FIRST COUNT`.

It prints each number once it is stored. Every delivery leaves an entry, and every eighth a fact. Eight run at a time.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO, Final, Literal

from runtime.memory.item import delivery_uri
from runtime.memory.markdown.store import MarkdownStore
from runtime.memory.records.store import RecordsStore
from runtime.memory.store_types import Scan
from tests.runtime.daemon import forked
from tests.runtime.memory.texts import fact, item

Kind = Literal["markdown", "records"]
Writes = MarkdownStore | RecordsStore

_STORES: Final[dict[str, Callable[[Path], Writes]]] = {"markdown": MarkdownStore, "records": RecordsStore}
_TREE: Final = Path(__file__).parents[3]


def start(
    kind: Kind, root: Path, first: int, count: int, stdout: IO[bytes] | int = subprocess.DEVNULL
) -> forked.Forked:
    """Start a process that stores `count` deliveries from `first` on."""
    arguments = [kind, str(root), str(first), str(count)]
    return forked.start(arguments, cwd=_TREE, env=os.environ, main=f"{__name__}:main", stdout=stdout)


def killed(kind: Kind, root: Path, first: int, after: int) -> set[int]:
    """Start a process, kill it (SIGKILL) after it printed `after` numbers, and return the printed ones."""
    reading, writing = os.pipe()
    with open(reading, "rb") as said:  # noqa: PTH123 - a descriptor
        try:
            writer = start(kind, root, first, 10_000, stdout=writing)
        finally:
            os.close(writing)
        numbers = {int(said.readline()) for _ in range(after)}
        writer.kill()
        writer.wait()
        return numbers | {int(line) for line in said if line.endswith(b"\n")}


def titles_of(numbers: Iterable[int]) -> list[str]:
    """Return the first lines of the items of these deliveries."""
    return sorted(title for n in numbers for title in (f"Delivery {n}", *((f"Fact {n}",) if n % 8 == 0 else ())))


async def titles(store: Writes) -> list[str]:
    """Return everything in the store, by its first line."""
    return sorted([one.text.partition("\n")[0] async for one in store.scan(Scan(agent_id="reviewer"))])


async def remember(store: Writes, number: int) -> None:
    """Store the items of delivery `number`."""
    text = f"Delivery {number}\n- {'x' * (number % 300)}"
    entry = item(text, source_uri=delivery_uri(str(number)), tags=(f"t{number % 3}",))
    learned = [fact(f"Fact {number}", source_uri=delivery_uri(str(number), "fact"))] if number % 8 == 0 else []
    await store.append([entry, *learned])


async def run(store: Writes, numbers: Iterable[int]) -> None:
    """Store these deliveries and print which are stored."""
    if isinstance(store, RecordsStore):
        await store.recover()
    left = iter(numbers)

    async def work() -> None:
        for number in left:
            await remember(store, number)
            sys.stdout.write(f"{number}\n")
            sys.stdout.flush()

    await asyncio.gather(*(work() for _ in range(8)))
    await store.close()


def main() -> None:
    """Run the command, see above."""
    kind, root, first, count = sys.argv[1:]
    asyncio.run(run(_STORES[kind](Path(root)), range(int(first), int(first) + int(count))))
