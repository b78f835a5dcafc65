"""Deletes copies of items that outputs of tools in threads quote."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from runtime.database.connection import Database
from runtime.database.schema import OWNER
from runtime.memory.item import Item
from runtime.threads.content import Deletion
from runtime.threads.removal import quotes


async def forget_copies_of(database: Database, items: Iterable[Item]) -> None:
    """Delete what outputs of tools quote of these items, before the items are deleted: after an interruption nobody
    would know of the copies. Raises `Unavailable`."""
    of_users = defaultdict[str, set[str]](set)
    for item in items:
        # The owner's agents may read the items of all users.
        for user_id in {item.user_id, OWNER}:
            of_users[user_id].add(item.memory_id)
    for user_id, ids in of_users.items():
        await quotes.forget(database, user_id, Deletion(frozenset(ids)))
