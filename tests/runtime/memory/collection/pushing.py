"""`python -m tests.runtime.memory.collection.pushing URL COUNT`: push this many chunks, ten at a time, into `notes`.

Prints the number of stored chunks after each ten.
"""

from __future__ import annotations

import asyncio
import sys

from runtime.crypto import MasterKey
from runtime.database.connection import Database
from runtime.memory.collection.store import CollectionStore
from runtime.memory.item import Item
from tests.runtime.memory.collection.conftest import declared
from tests.runtime.memory.texts import fact

KEY = MasterKey(bytes(range(32)))
AT_ONCE = 10


def chunk(number: int) -> Item:
    """Return the chunk of that number."""
    return fact(f"Chunk {number} " + "of a long document " * 20, source_uri="file:///long.md", project_id="default")


async def main(url: str, count: int) -> None:
    database = await Database.open(url, KEY)
    store = CollectionStore(declared().name, database)
    for begin in range(0, count, AT_ONCE):
        await store.upsert([chunk(number) for number in range(begin, begin + AT_ONCE)])
        sys.stdout.write(f"{begin + AT_ONCE}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
