"""The store of what was said in threads. It writes nothing: its items are messages and summaries."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import Final

from sqlalchemy import select

from runtime.clock import SYSTEM, Clock
from runtime.database.connection import Database
from runtime.database.schema import threads
from runtime.memory.collection.row_items import RowItems
from runtime.memory.item import Item
from runtime.memory.recall import message_parts
from runtime.memory.recall.message_items import items_of
from runtime.memory.store_types import Changes, ItemLocation, Part, StoreStats
from runtime.threads.messages import Messages
from runtime.threads.removal.deletion import DELETED, delete_of_user
from runtime.threads.summaries import Summaries
from runtime.threads.thread import Thread, Threads

_ITEMS: Final = 4
"""Version of the items that a part has, in every revision. After it has changed, indexes read every part again."""
_BEGUN: Final = (threads.c.kind != DELETED) & (threads.c.length > 0)


class RecallStore(RowItems):
    """The messages and summaries of all threads of a database. An item is a chunk of a message, with the thread as its
    project and session.

    Reasoning, calls of tools, events and outputs that repeat what is stored here have no items. A deleted message,
    thread or user has none any more.
    """

    kind, many, one, instead = "recall", "messages", "a message", "append a message to a thread"

    def __init__(self, database: Database, clock: Clock = SYSTEM, quoting: Collection[str] = frozenset()) -> None:
        """`quoting`: names of tools whose outputs repeat what is stored here."""
        super().__init__(database, clock)
        self.quoting = quoting
        self._sources = Threads(database, clock), Messages(database, clock), Summaries(database, clock)

    def note_change(self, thread: Thread) -> None:
        """Note that messages or summaries of this thread were added or deleted, or all of it."""
        self._notify_change({thread.agent})

    async def parts(self, agent_id: str | None = None) -> tuple[Part, ...]:
        with self._errors():
            return tuple([_with_version(part) async for part in message_parts.parts(self._database, agent=agent_id)])

    async def changes(self, since: str | None) -> Changes | None:
        with self._errors():
            found = await message_parts.changes(self._database, since)
        return found and found._replace(parts=tuple(map(_with_version, found.parts)))

    async def read(self, part: Part) -> Sequence[tuple[Item, ItemLocation | None]]:
        with self._errors():
            found = await message_parts.read(self._sources, part)
            subjects = await message_parts.subjects(self._database, found)
            # Decrypted in the event loop, a part at a time; chunks and secrets are found in a thread.
            items = await asyncio.to_thread(items_of, part.agent_id, found, subjects, self.quoting)
            return [(item, None) for item in items]

    async def stats(self, agent_id: str | None = None) -> StoreStats:
        only = () if agent_id is None else (threads.c.agent == agent_id,)
        return await self._stats(threads.c.agent, threads.c.created_at, threads.c.updated_at, _BEGUN, *only)

    async def agents(self) -> tuple[str, ...]:
        query = select(threads.c.agent).where(_BEGUN).distinct().order_by(threads.c.agent)
        return tuple(row.agent for row in await self._select(query))

    async def _forget_user(self, user_id: str, agent_id: str) -> int:
        """Delete the user's threads with this agent. Returns how many threads that were."""
        with self._errors():
            return await delete_of_user(self._database, user_id, agent_id)


def _with_version(part: Part) -> Part:
    return part._replace(revision=f"{_ITEMS}.{part.revision}")
