"""A new key for sealed indexes: what a removed user had in them stays unreadable in older copies of their files."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from runtime.database.keys.ring import INDEXES, KeyRing
from runtime.memory.indexing.indexer import Indexer


async def reseal_indexes(keys: KeyRing, indexers: Iterable[Indexer]) -> None:
    """Seal the files of these indexes with their current key, then forget the earlier ones; nothing happens without
    any.

    The file of a memory that is not open is built again when it is opened. Raises IndexFailed, and `Unavailable`.
    """
    retired = [key for key in keys.retired if key.holder == INDEXES]
    if not retired:
        return
    for indexer in indexers:
        if current := indexer.store.index_keys:
            await indexer.index.reseal(current[0])
    await asyncio.to_thread(keys.drop, retired)
