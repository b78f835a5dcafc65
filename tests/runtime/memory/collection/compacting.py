"""`python -m tests.runtime.memory.collection.compacting URL`: compact the reviewer's collection, keeping no entry."""

from __future__ import annotations

import asyncio
import sys
from datetime import date

from runtime.crypto import MasterKey
from runtime.database.connection import Database
from runtime.memory.collection.store import CollectionStore
from tests.runtime.memory.collection.conftest import declared
from tests.runtime.memory.collection.pushing import KEY


async def main(url: str, key: MasterKey) -> None:
    database = await Database.open(url, key)
    store = CollectionStore(declared().name, database)
    await store.compact("reviewer", older_than=date.max)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], KEY))
