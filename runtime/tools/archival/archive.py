"""The archival memory that a call acts on: the memory of one agent, the items of one user and subject."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from runtime.clock import utc
from runtime.errors import Conflict, NotFound
from runtime.memory.collection.options import PROJECT
from runtime.memory.errors import NoSuchItem, StoreError
from runtime.memory.item import Item, Provenance, run_uri
from runtime.memory.items.copies import forget_copies_of
from runtime.memory.items.newest import newest
from runtime.memory.items.validity import newest_of_chain, validity_of
from runtime.memory.keyed_lock import KeyedLock
from runtime.memory.open_memory import OpenMemory
from runtime.memory.store_types import Scan
from runtime.search.entry import EntryFilter
from runtime.tools.agent.access import beginning, main_agent
from runtime.tools.context import Context
from runtime.tools.memory.access import home_memory, own_subject, with_origin

_locks = KeyedLock()


@dataclass(frozen=True, slots=True)
class Archive:
    """Archival memory for one call. `user` is an id."""

    context: Context
    memory: OpenMemory
    agent: str
    user: str
    subject: str | None

    async def insert(self, content: str, tags: list[str]) -> tuple[Item, bool]:
        """Append a semantic item, once for each call of a run. Return it, or the current item with the same text that
        exists already, and True if it is this call's. Raises RefusedItem, StoreError."""
        return await self._append(content, tuple(tags), None)

    async def replace(self, memory_id: str, content: str, tags: list[str] | None) -> tuple[Item, bool]:
        """Append an item that replaces the one with this id. Return as `insert` does. Raises NotFound; Conflict for an
        item that is replaced or retracted already; RefusedItem, StoreError."""
        # Otherwise two calls at once would both replace it. Another daemon's call may: then both are found.
        async with _locks.of((self.memory.store.identity, self.agent, memory_id)):
            older = await self._current(memory_id)
            kept = older.tags if tags is None else tuple(tags)
            return await self._append(content, kept, older)

    async def forget(self, memory_id: str) -> None:
        """Delete the item with this id. Raises NotFound, `Unsupported` for a store that deletes nothing, StoreError."""
        found = await newest(self.memory, self._own_filter, 1, prefix=memory_id)
        if not found:
            raise _not_found(memory_id)
        if "delete" in self.memory.store.capabilities:
            await forget_copies_of(self.context.database, found)
        try:
            await self.memory.forget(memory_id, self.agent)
        except NoSuchItem:
            raise _not_found(memory_id) from None

    def tag_filter(self, tags: Iterable[str]) -> EntryFilter:
        """Return the filter of current items with one of these tags; without tags, of all."""
        return EntryFilter(
            agent=self.agent, user=self.user, subject=self.subject, tags_any=frozenset(tags), current=True
        )

    async def _append(self, content: str, tags: tuple[str, ...], older: Item | None) -> tuple[Item, bool]:
        long_term = older is not None and older.memory_type != "episodic"
        item = Item(
            project_id=self._project if older is None else older.project_id,
            agent_id=self.agent,
            user_id=self.user,
            memory_type=older.memory_type if older is not None and long_term else "semantic",
            timestamp=utc(self.context.clock.now()),
            source_uri=self._source,
            tags=tags,
            text=content,
            provenance=with_origin(self.context, Provenance(), "tool"),
            subject=self.subject,
            replaces=None if older is None else older.memory_id,
        )
        written = await self.memory.store.append([item])
        return (written[0], True) if written else await self._existing(item)

    @property
    def _own_filter(self) -> EntryFilter:
        return EntryFilter(agent=self.agent, user=self.user, subject=self.subject)

    @property
    def _project(self) -> str | None:
        return None if self.memory.collection is None else PROJECT

    @property
    def _source(self) -> str | None:
        acting = self.context.acting
        return None if acting is None or acting.key is None else run_uri(acting.run_id, acting.key)

    async def _existing(self, item: Item) -> tuple[Item, bool]:
        """Return the item that the store has instead: this call's of an earlier attempt, or another with its text."""
        own = Scan(agent_id=self.agent, user_id=self.user, subject=self.subject)
        if item.source_uri is not None:
            mine = own.model_copy(update={"source_uri": item.source_uri, "limit": 1})
            async for found in self.memory.store.scan(mine):
                return found, True
        same = own.model_copy(update={"chunk_hash": item.chunk_hash})
        there = [found async for found in self.memory.store.scan(same)]
        known = await validity_of(self.memory, there)
        for found in there:
            if found.memory_type != "episodic" and found.retracts is None and known[found.memory_id].current:
                return found, False
        raise StoreError("another call stored this text and deleted it again", hint="try again")

    async def _current(self, memory_id: str) -> Item:
        """Return the item with this id that may be replaced."""
        found = await newest(self.memory, self._own_filter, 1, prefix=memory_id)
        if not found or found[0].retracts is not None:
            raise _not_found(memory_id)
        item = found[0]
        validity = (await validity_of(self.memory, found))[memory_id]
        if validity.replaced_by is not None and not self._is_own(validity.replaced_by):
            last = await newest_of_chain(self.memory, item)
            raise Conflict(
                f"the item {memory_id} was already replaced; the newest is {last.memory_id}: {beginning(last.text)}",
                hint=f"replace {last.memory_id} if it is no longer valid either",
            )
        if validity.retracted:
            raise Conflict(f"the item {memory_id} was withdrawn", hint="write a new one with archival_insert")
        return item

    def _is_own(self, item: Item) -> bool:
        """True if an earlier attempt of this call wrote the item."""
        return self._source is not None and item.source_uri == self._source


async def archive_of(context: Context, agent: str | None, subject: str | None) -> Archive:
    """Return the archival memory of an agent, by default the main one, and the caller; if an agent acts, its own,
    whatever the parameters are. Raises NotFound with the nearest names, and what `main_agent` raises."""
    if context.acting is not None:
        agent = context.acting.agent
    if agent is None:
        agent = main_agent(context).name
    memory = await home_memory(context, agent)
    return Archive(context, memory, agent, context.caller.user_id, own_subject(context, subject))


def _not_found(memory_id: str) -> NotFound:
    return NotFound(f"there is no item with the id {memory_id}", hint="archival_search returns ids")
