"""The collection store (fifth design, section 3): items as rows of the main database.

The items of one agent_id are the collection of that name. Every write is one transaction, and all daemons on the
database write one after the other; a call returns after the commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time
from typing import Any, Concatenate, Final, NamedTuple, ParamSpec, TypeVar

from sqlalchemy import Connection, func, select

from runtime.clock import SYSTEM, Clock, utc
from runtime.crypto import Unsealable
from runtime.database.connection import Database
from runtime.database.errors import Collision
from runtime.database.schema import items
from runtime.memory.collection.errors import store_errors
from runtime.memory.collection.options import CollectionOptions
from runtime.memory.collection.reader import CollectionReader
from runtime.memory.collection.row_codec import ticks
from runtime.memory.collection.transactions import UNPROMOTABLE, CollectionTransaction, distinct
from runtime.memory.errors import RefusedItem, StoreError
from runtime.memory.item import Item, valid_agent
from runtime.memory.store import Capability
from runtime.memory.store_types import Append, Compaction, StorePlace, StoreProblem, UpsertResult
from runtime.memory.write_batcher import WriteBatcher

BATCH: Final = 512
"""Maximum number of items in one transaction, so that other writes do not wait long."""
BATCH_TEXT: Final = 4 * 1024 * 1024
"""Maximum characters of their texts, except for a single item."""
LONGEST_NAME: Final = 512
"""Maximum characters of a user_id: it is part of the key of every index."""
TRIES: Final = 3
"""Maximum attempts of a transaction that collides with another process."""

P = ParamSpec("P")
T = TypeVar("T")


class _WriteRequest(NamedTuple):
    """A function to run in a transaction, and the number of items that it writes."""

    act: Callable[[CollectionTransaction], Any]
    items: int = 1


class _TransactionResult(NamedTuple):
    outcomes: list[Any]
    appends: list[Append]
    changed: frozenset[str]


async def open_collection(place: StorePlace) -> CollectionStore:
    """Open the store of this row. Nothing is written before the first item."""
    assert place.database is not None
    store = CollectionStore(place.memory.name, place.database, place.clock)
    store.configure(place.options)
    return store


class CollectionStore(CollectionReader):
    """A collection memory: its agents are collections, into which clients push texts, and which they list and search.
    One event loop uses it; any number of processes may share a PostgreSQL database."""

    capabilities: frozenset[Capability] = frozenset(
        {"edit", "delete", "compact", "remove", "upsert", "replace", "keep_ids"}
    )

    def __init__(self, memory: str, database: Database, clock: Clock = SYSTEM) -> None:
        """`memory`: the name of the memory, by which its rows are found."""
        super().__init__(memory, database, clock)
        self._options = CollectionOptions()
        self._group: WriteBatcher[_WriteRequest, Any] = WriteBatcher(f"collection {memory}", self._perform)

    def configure(self, options: Mapping[str, object]) -> None:
        self._options = CollectionOptions.model_validate(dict(options))

    @property
    def chunking(self) -> CollectionOptions:
        """Return the options by which pushed texts are split into chunks."""
        return self._options

    async def create(self, agent_id: str, user_id: str) -> bool:
        """Create an empty collection of this user; False if the user has one of that name. Raises RefusedItem for an
        invalid name, StoreError."""
        self._check_names(agent_id, user_id)
        return await self._run(CollectionTransaction.create, agent_id, user_id)

    async def detach(self, memory_id: str, agent_id: str, source_uri: str) -> bool:
        """Remove a source from an item, and delete the item if it has no other; True if it was deleted. Raises
        NoSuchItem, StoreError."""
        return await self._run(CollectionTransaction.detach, memory_id, agent_id, source_uri)

    async def _append(self, items: tuple[Item, ...], gates: Mapping[str, str]) -> tuple[Item, ...]:
        written: list[Item] = []
        for batch in self._batches(items):
            written += await self._run(CollectionTransaction.append, batch)
        return tuple(written)

    async def _upsert(self, items: tuple[Item, ...], keep: frozenset[str]) -> UpsertResult:
        first, skipped = distinct(items)
        inserted: list[Item] = []
        updated: list[Item] = []
        for batch in self._batches(first):
            done = await self._run(CollectionTransaction.upsert, batch, keep)
            inserted += done.inserted
            updated += done.updated
            skipped += done.skipped
        return UpsertResult(tuple(inserted), tuple(updated), skipped)

    async def _preview(self, items: tuple[Item, ...], gates: Mapping[str, str]) -> list[dict[str, Any]]:
        self._batches(items)
        return await super()._preview(items, gates)

    async def _replace(self, item: Item) -> Item:
        self._check_names(item.agent_id, item.user_id)
        return await self._run(CollectionTransaction.replace, item)

    async def _edit(self, memory_id: str, text: str, agent_id: str | None) -> Item:
        return await self._run(CollectionTransaction.edit, memory_id, text, agent_id)

    async def _delete(self, memory_id: str, agent_id: str | None) -> None:
        await self._run(CollectionTransaction.delete, memory_id, agent_id)

    async def _compact(self, agent_id: str, older_than: date) -> Compaction:
        valid_agent(agent_id)
        older_than = min(older_than, utc(self._clock.now()).date())
        until = ticks(datetime.combine(older_than, time(), UTC))
        flushed, deleted, more = 0, 0, True
        while more:
            put, gone, more = await self._run(CollectionTransaction.compact, agent_id, until)
            flushed, deleted = flushed + put, deleted + gone
        entries = items.c.memory == self.name, items.c.agent_id == agent_id, items.c.memory_type == "episodic"
        expired = select(func.count()).where(*entries, items.c.compacted == UNPROMOTABLE, items.c.timestamp < until)
        ((kept,),) = await self._rows(expired)
        if not kept:
            return Compaction(flushed, deleted)
        where = "in a code block or a comment"
        why = f"{kept} expired entries are not deleted: they contain long-term items {where}, or cannot be decrypted"
        return Compaction(flushed, deleted, (StoreProblem(f"collection {self.name}: {agent_id}", why, "warning"),))

    async def _remove(self, agent_id: str) -> bool:
        valid_agent(agent_id)
        removed = 0
        while count := await self._run(CollectionTransaction.remove, agent_id):
            removed += count
        return removed > 0

    async def _forget_user(self, user_id: str, agent_id: str) -> int:
        valid_agent(agent_id)
        forgotten = 0
        while (count := await self._run(CollectionTransaction.forget_user, user_id, agent_id)) is not None:
            forgotten += count
        return forgotten

    async def _run(
        self, method: Callable[Concatenate[CollectionTransaction, P], T], *given: P.args, **named: P.kwargs
    ) -> T:
        """Run this method in a transaction; return its result after the commit."""
        count = len(given[0]) if given and isinstance(given[0], list) else 1
        with store_errors(self.name):
            done: T = await self._group.put(
                _WriteRequest(lambda transaction: method(transaction, *given, **named), count)
            )
            return done

    async def _perform(self, operations: Sequence[_WriteRequest]) -> Sequence[Any]:
        outcomes: list[Any] = []
        for some in _transactions(operations):
            try:
                done = await self._transact(some)
            except Exception as error:
                outcomes += [error] * len(some)
                continue
            for append in done.appends:
                self._notify_append(append)
            self._notify_change(done.changed)
            if done.changed:
                self._database.empty_log()
            outcomes += done.outcomes
        return outcomes

    async def _transact(self, operations: Sequence[_WriteRequest]) -> _TransactionResult:
        for _ in range(TRIES - 1):
            try:
                return await self._database.transact(lambda connection: self._run_requests(connection, operations))
            except Collision:
                continue
        return await self._database.transact(lambda connection: self._run_requests(connection, operations))

    def _run_requests(self, connection: Connection, operations: Sequence[_WriteRequest]) -> _TransactionResult:
        transaction = CollectionTransaction(connection, self._codec, self._clock)
        outcomes: list[Any] = []
        for operation in operations:
            try:
                outcomes.append(operation.act(transaction))
            except (StoreError, Unsealable) as error:
                outcomes.append(error)
        return _TransactionResult(outcomes, *transaction.finish())

    def _batches(self, items: Sequence[Item]) -> list[list[Item]]:
        """Split the items into batches. Raises RefusedItem, and then none is written."""
        batches: list[list[Item]] = []
        size = 0
        for item in items:
            self._check_names(item.agent_id, item.user_id)
            size += len(item.text)
            if not batches or size > BATCH_TEXT or len(batches[-1]) == BATCH:
                batches.append([])
                size = len(item.text)
            batches[-1].append(item)
        return batches

    def _check_names(self, agent_id: str, user_id: str) -> None:
        valid_agent(agent_id)
        if len(user_id) > LONGEST_NAME:
            raise RefusedItem(
                f"a user_id of {len(user_id)} characters is too long", hint=f"at most {LONGEST_NAME} characters"
            )

    async def close(self) -> None:
        await self._group.drain()


def _transactions(operations: Sequence[_WriteRequest]) -> Iterator[list[_WriteRequest]]:
    """Split the requests into transactions."""
    some: list[_WriteRequest] = []
    items = 0
    for operation in operations:
        if some and items + operation.items > BATCH:
            yield some
            some, items = [], 0
        some.append(operation)
        items += operation.items
    if some:
        yield some
