"""Bytes of texts that each user has stored, and the check before more are added: items of memories and collections,
messages and summaries of conversations, and core memory.

What is written is counted where it is sealed or put into a file, and added to the user's row once a second. What is
deleted is not counted: all of a user's texts are measured when there seems to be no more room, and what is measured
replaces the sum. So a write costs no look at what is there, and deletions make room.

Only calls of tools and messages of persons are refused. A run that has begun stores its messages, and a recorder the
deliveries that were accepted: both count.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from functools import partial
from typing import Final, NamedTuple

import structlog
from sqlalchemy import ColumnElement, Select, and_, func, select

from runtime.clock import Clock
from runtime.database.connection import Database
from runtime.database.errors import Unavailable
from runtime.database.keys.text_counts import ROW_BYTES
from runtime.database.schema import (
    block_versions,
    blocks,
    inputs,
    item_parts,
    item_sources,
    items,
    messages,
    summaries,
    threads,
)
from runtime.database.text import escaped
from runtime.memory.files.store import FileStore
from runtime.memory.keyed_lock import KeyedLock
from runtime.memory.open_memory import OpenMemory
from runtime.memory.store import text_bytes
from runtime.memory.store_types import Scan
from runtime.tables.quota import texts_exceeded
from runtime.tables.storage import UserStorage
from runtime.threads.removal.deletion import DELETED

log = structlog.get_logger("symbiont.texts")

ADDED_SECONDS: Final = 1.0
"""Seconds after which what was written is added to the rows of users."""
_REST: Final = 10
"""A user's texts are measured again after this many times as long as it took: a user who writes on at the limit costs
a tenth of a reader at most."""
_KEPT: Final = 10_000


class TextUsage(NamedTuple):
    """Measured texts of a user: bytes by kind. `until`: monotonic seconds; before, it is not repeated."""

    parts: Mapping[str, int]
    until: float


class TextStorage:
    """The texts of all users of one database."""

    def __init__(self, database: Database, clock: Clock, storage: UserStorage) -> None:
        self._database = database
        self._clock = clock
        self._storage = storage
        self._counts = database.keys.texts
        self._adding: Mapping[str, int] = {}
        self._measuring = KeyedLock()
        self._measured: OrderedDict[str, TextUsage] = OrderedDict()

    async def run(self) -> None:
        """Add what was written to the rows of users every second, until cancelled."""
        while True:
            await self._clock.sleep(ADDED_SECONDS)
            await self.flush()

    async def flush(self) -> None:
        """Add what was written to the rows of users. If the database fails, it is lost until they are measured."""
        if self._adding or not (sizes := self._counts.take()):
            return
        self._adding = sizes
        try:
            await self._database.transact(partial(self._storage.add_texts, sizes=sizes))
        except Unavailable as error:
            log.warning("text_sizes_not_stored", reason=str(error))
        finally:
            self._adding = {}

    async def used_bytes(self, user_id: str) -> int:
        """Return how many bytes of texts a user has, or a little more. Raises `Unavailable`."""
        waiting = self._counts.of(user_id) + self._adding.get(user_id, 0)
        return waiting + (await self._storage.usage(user_id)).text_bytes

    async def check(self, user_id: str, more: int, memories: Mapping[str, OpenMemory]) -> None:
        """Return if a user may store `more` bytes of texts. `memories`: all that are open. Raises QuotaExceeded, and
        `Unavailable`."""
        quota = await self._storage.quota(user_id)
        if await self.used_bytes(user_id) + more <= quota.texts:
            return
        async with self._measuring.of(user_id):
            measured = self._measured.get(user_id)
            if measured is None or measured.until <= self._clock.monotonic():
                measured = await self.measure(user_id, memories)
        used = await self.used_bytes(user_id)
        if used + more > quota.texts:
            since = {"written since these were measured": max(0, used - sum(measured.parts.values()))}
            wait = measured.until - self._clock.monotonic()
            raise texts_exceeded(quota, used, {**measured.parts, **since}, wait)

    async def measure(self, user_id: str, memories: Mapping[str, OpenMemory]) -> TextUsage:
        """Count all texts of a user; it takes the longer the more there are. Raises `Unavailable`."""
        began, waiting = self._clock.monotonic(), self._counts.take(user_id)
        try:
            parts: dict[str, int] = {}
            async with self._database.read() as connection:
                for kind, query in _queries(user_id):
                    size, rows = (await connection.execute(query)).one()
                    parts[kind] = parts.get(kind, 0) + int(size or 0) + rows * ROW_BYTES
            parts["memories"] += await _of_files(user_id, memories)
            await self._storage.note_texts(user_id, sum(parts.values()))
        except BaseException:
            self._counts.add(user_id, waiting[user_id])
            raise
        now = self._clock.monotonic()
        self._measured[user_id] = measured = TextUsage(parts, now + _REST * (now - began))
        self._measured.move_to_end(user_id)
        if len(self._measured) > _KEPT:
            self._measured.popitem(last=False)
        return measured


def _queries(user_id: str) -> list[tuple[str, Select[int | None, int]]]:
    """Return kinds of texts, and the query for the bytes and the rows of each. Each reads the user's rows alone."""
    mine = and_(threads.c.user_id == user_id, threads.c.kind != DELETED)
    of_thread = [
        _sizes(func.length(each.c.content)).join_from(threads, each, each.c.thread_id == threads.c.id).where(mine)
        for each in (messages, summaries, inputs)
    ]
    # One that has ended is a message too, until both are deleted.
    of_thread[-1] = of_thread[-1].where(inputs.c.finished_at.is_(None))
    parts = and_(item_parts.c.memory == items.c.memory, item_parts.c.part == items.c.part)
    of_user = item_parts.c.user_id == escaped(user_id)
    fields = (
        func.length(items.c.content) + func.length(items.c.tags) + func.coalesce(func.length(items.c.source_uri), 0)
    )
    of_item = and_(item_sources.c.memory == items.c.memory, item_sources.c.item_id == items.c.id)
    of_block = block_versions.c.block_id == blocks.c.id
    return [
        ("memories", _sizes(func.length(item_parts.c.agent_id)).where(of_user)),
        ("memories", _sizes(fields).join_from(item_parts, items, parts).where(of_user)),
        (
            "memories",
            _sizes(func.length(item_sources.c.source_uri))
            .select_from(item_parts.join(items, parts).join(item_sources, of_item))
            .where(of_user),
        ),
        ("conversations", _sizes(func.length(threads.c.title)).where(mine)),
        *(("conversations", each) for each in of_thread),
        ("core memory", _sizes(func.length(blocks.c.value)).where(blocks.c.user_id == user_id)),
        (
            "core memory",
            _sizes(func.length(block_versions.c.value))
            .join_from(blocks, block_versions, of_block)
            .where(blocks.c.user_id == user_id),
        ),
    ]


def _sizes(size: ColumnElement[int]) -> Select[int | None, int]:
    return select(func.sum(size), func.count())


async def _of_files(user_id: str, memories: Mapping[str, OpenMemory]) -> int:
    """Return the bytes of a user's items in files. Files that cannot be read are not counted."""
    stores = {each.store.identity: each.store for each in memories.values() if isinstance(each.store, FileStore)}
    size = 0
    for store in stores.values():
        async for item in store.scan(Scan(user_id=user_id)):
            size += text_bytes(item) + ROW_BYTES
    return size
