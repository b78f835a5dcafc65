"""The store of what was said in threads. It writes nothing: its items are messages and summaries."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from datetime import UTC, date, datetime
from functools import partial
from typing import Final

from sqlalchemy import distinct, func, select

from runtime.clock import SYSTEM, Clock, utc
from runtime.database.connection import Database
from runtime.database.schema import threads
from runtime.memory.collection.errors import rows_errors
from runtime.memory.errors import Unsupported
from runtime.memory.item import Item
from runtime.memory.recall import message_parts
from runtime.memory.recall.message_items import items_of
from runtime.memory.recall.message_parts import MessagePart
from runtime.memory.store import Store
from runtime.memory.store_types import Changes, Inspection, ItemLocation, Part, Scan, StoreStats, position_of
from runtime.threads.messages import Messages
from runtime.threads.removal.deletion import DELETED, delete_of_user
from runtime.threads.summaries import Summaries
from runtime.threads.thread import Thread, Threads


class RecallStore(Store):
    """The messages and summaries of all threads of a database. An item is a chunk of a message, with the thread as its
    project and session.

    Reasoning, calls of tools, events and outputs that repeat what is stored here have no items. A deleted message,
    thread or user has none any more.
    """

    def __init__(self, database: Database, clock: Clock = SYSTEM, quoting: Collection[str] = frozenset()) -> None:
        """`quoting`: names of tools whose outputs repeat what is stored here."""
        super().__init__(clock)
        self._database = database
        self.quoting = quoting
        self._sources = Threads(database, clock), Messages(database, clock), Summaries(database, clock)

    @property
    def identity(self) -> str:
        return f"recall:{self._database.id}"

    @property
    def index_keys(self) -> Sequence[bytes]:
        return self._database.keys.index_keys(self.identity)

    def changed(self, thread: Thread) -> None:
        """Note that messages or summaries of this thread were added or deleted, or all of it."""
        self._notify_change({thread.agent})

    async def parts(self, agent_id: str | None = None) -> tuple[Part, ...]:
        with _errors():
            return tuple([_part(part) async for part in message_parts.parts(self._database, agent=agent_id)])

    async def changes(self, since: str | None) -> Changes | None:
        with _errors():
            found = await message_parts.changed(self._database, None if since is None else int(since))
        if found is None:
            return None
        return Changes(str(found.number), tuple(map(_part, found.parts)), tuple(found.gone))

    async def read(self, part: Part) -> Sequence[tuple[Item, ItemLocation | None]]:
        with _errors():
            found = await message_parts.read(self._sources, MessagePart(*part))
            subjects = await message_parts.subjects(self._database, found)
            # Decrypted in the event loop, a part at a time; chunks and secrets are found in a thread.
            items = await asyncio.to_thread(items_of, part.agent_id, found, subjects, self.quoting)
            return [(item, None) for item in items]

    async def scan(self, wanted: Scan | None = None) -> AsyncIterator[Item]:
        wanted = wanted or Scan()
        found = [
            item
            for part in await self.parts(wanted.agent_id)
            for item, _ in await self.read(part)
            if wanted.wants(item)
        ]
        found.sort(key=position_of, reverse=wanted.newest_first)
        for item in found[: wanted.limit]:
            yield item

    async def stats(self, agent_id: str | None = None) -> StoreStats:
        query = select(func.count(distinct(threads.c.agent)), func.min(threads.c.created_at)).where(_BEGUN)
        query = query.add_columns(func.max(threads.c.updated_at))
        if agent_id is not None:
            query = query.where(threads.c.agent == agent_id)
        with _errors():
            async with self._database.read() as connection:
                agents, oldest, newest = (await connection.execute(query)).one()
        return StoreStats(agents, 0, 0, _day(oldest), _day(newest))

    async def agents(self) -> tuple[str, ...]:
        query = select(threads.c.agent).where(_BEGUN).distinct().order_by(threads.c.agent)
        with _errors():
            async with self._database.read() as connection:
                return tuple((await connection.execute(query)).scalars())

    async def locate(self, items: Sequence[Item]) -> dict[str, ItemLocation]:
        return {}

    async def inspect(self, agent_id: str, day: date | None = None) -> Inspection:
        day = day or utc(self._clock.now()).date()
        return Inspection(agent_id, day, None, None, "threads of the database", "threads of the database")

    async def _append(self, items: tuple[Item, ...], gates: Mapping[str, str]) -> tuple[Item, ...]:
        raise Unsupported("nothing can be appended to what was said", hint="append a message to a thread")

    async def _forget_user(self, user_id: str, agent_id: str) -> int:
        """Delete the user's threads with this agent. Returns how many threads that were."""
        with _errors():
            return await delete_of_user(self._database, user_id, agent_id)


_ITEMS: Final = 4
"""Version of the items that a part has, in every revision. After it has changed, indexes read every part again."""
_errors = partial(rows_errors, "messages", "a message")
_BEGUN: Final = (threads.c.kind != DELETED) & (threads.c.length > 0)


def _part(part: MessagePart) -> Part:
    return Part(part.name, part.agent, f"{_ITEMS}.{part.revision}")


def _day(milliseconds: int | None) -> date | None:
    return None if milliseconds is None else datetime.fromtimestamp(milliseconds / 1000, UTC).date()
