"""The operations of one transaction on a collection memory. It has exclusive access to the memory until it ends."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, delete, select

from runtime.clock import Clock, uuid7
from runtime.crypto import Unsealable
from runtime.database import bulk
from runtime.database.schema import item_parts, item_sources, items
from runtime.database.text import escaped, hash_key, unescaped
from runtime.memory.collection.parts import PartTable
from runtime.memory.collection.row_codec import COLUMNS, META, Codec, ItemRow, tags_of, unescaped_or_none
from runtime.memory.errors import NoSuchItem, RefusedItem
from runtime.memory.item import PATTERN, Item, Provenance, idempotency_key, is_id, is_summary_uri
from runtime.memory.markdown.long_term import promotable_items
from runtime.memory.store import redacted_item
from runtime.memory.store_types import Append, UpsertResult
from runtime.memory.succession import HiddenItems, ItemChange, SubjectScope, changes_among, is_change

_BY_ID: Final = ("memory", "id")
_BY_CHUNK: Final = ("memory", "agent_id", "user_id", "chunk_hash")
_BY_SOURCE: Final = ("memory", "agent_id", "user_id", "source_key")
_REST_OF_ID: Final = tuple(name for name in COLUMNS if name not in _BY_ID)
_UPSERT_COLUMNS: Final = ("memory_type", "source_uri", "source_key", "tags", "run_id", "version", "content")
"""The columns that an upsert may change."""
_SOURCE: Final = ("memory", "item_id", "source_key", "user_id", "source_uri")
_ENTRIES: Final = 256
"""Entries that are compacted in one transaction."""
PROMOTED: Final = 1
"""State of an entry whose marked bullets were promoted."""
UNPROMOTABLE: Final = 2
"""State of an entry that contains bullets that cannot be promoted, or that cannot be opened."""
_PARTS_AT_ONCE: Final = 8
"""Parts that are removed in one transaction, so that others can write in between."""


class ItemIdentity(NamedTuple):
    """Identifies a chunk."""

    agent_id: str
    user_id: str
    project_id: str | None
    chunk_hash: str
    subject: str | None = None


def identity_of(item: Item) -> ItemIdentity:
    """Return the item's identity in an upsert."""
    return ItemIdentity(item.agent_id, item.user_id, item.project_id, item.chunk_hash, item.subject)


class CollectionTransaction:
    """A running transaction. Each method decides before it writes: one that raises has changed nothing."""

    def __init__(self, connection: Connection, codec: Codec, clock: Clock) -> None:
        self._connection = connection
        self._codec = codec
        self._memory = codec.memory
        self._clock = clock
        self._parts = PartTable(connection, codec.memory)
        if connection.dialect.name == "postgresql":
            # Daemons on one database take turns: an item that is missing must not be written by two of them.
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_lock_number(codec.memory)})")

    def finish(self) -> tuple[list[Append], frozenset[str]]:
        """Write the changed parts; see `PartTable.finish`."""
        return self._parts.finish()

    def append(self, given: Sequence[Item]) -> tuple[Item, ...]:
        """Add new items: see `Store.append`. An id that an item already has is preserved unless it is in use."""
        in_use = self._ids_in_use(given)
        deliveries = self._delivery_keys(given)
        changes = changes_among(given)
        hidden = HiddenItems(changes)
        long_term = self._long_term_keys(given, changes)
        new: list[Item] = []
        for item in given:
            delivery, fact = _delivery_key(item), None if is_change(item) or item in hidden else _fact_key(item)
            if delivery in deliveries or fact in long_term or in_use.get(item.memory_id) == identity_of(item):
                continue
            if delivery is not None:
                deliveries.add(delivery)
            if item not in hidden and (fact := _fact_key(item)) is not None:
                long_term.add(fact)
            new.append(self._with_id(item, in_use))
        self._insert(new)
        return tuple(new)

    def upsert(self, given: Sequence[Item], keep: frozenset[str]) -> UpsertResult:
        """See `Store.upsert`; no two of these items are the same chunk."""
        in_use = self._ids_in_use(given)
        there = self._same_chunks(given)
        found = ((item, there[identity_of(item)]) for item in given if identity_of(item) in there)
        others = self._other_sources(
            row.id for item, row in found if _sources(item) != {unescaped_or_none(row.source_uri)}
        )
        new: list[Item] = []
        differing: list[tuple[ItemRow, Item]] = []
        skipped = 0
        for item in given:
            row = there.get(identity_of(item))
            if row is None:
                new.append(self._with_id(item, in_use))
            elif self._is_unchanged(row, others.get(row.id, ()), item, keep):
                skipped += 1
            else:
                differing.append((row, item))
        updated = self._update(differing, keep)
        self._insert(new)
        return UpsertResult(tuple(new), updated, skipped)

    def replace(self, item: Item) -> Item:
        """See `Store.replace`."""
        row = self._row(item.memory_id, item.agent_id)
        if row.user_id != escaped(item.user_id):
            raise _no_such_item(item.memory_id)
        self._refuse_duplicate(row, item)
        return self._rewrite(row, item)

    def _refuse_duplicate(self, row: ItemRow, item: Item) -> None:
        """Raise RefusedItem if a changed item would be the same chunk as another one of its user: a push of that text
        could not tell them apart. Two summaries may have the same text."""
        if identity_of(item) == _identity_in(row) or is_summary_uri(item.source_uri):
            return
        there = self._same_chunks([item]).get(identity_of(item))
        if there is not None:
            raise RefusedItem(f"the item {there.id} already has this text", hint="delete one of the two with `forget`")

    def edit(self, memory_id: str, text: str, agent_id: str | None) -> Item:
        """See `Store.edit`; the memory_id stays."""
        row = self._row(memory_id, agent_id)
        item = self._codec.item(row, self._other_sources([memory_id])[memory_id]).with_fields(text=text, chunk_hash="")
        self._refuse_duplicate(row, item)
        return self._rewrite(row, item)

    def delete(self, memory_id: str, agent_id: str | None) -> None:
        """See `Store.delete`."""
        self._delete(self._row(memory_id, agent_id))

    def _delete(self, row: ItemRow) -> None:
        self._close_chain(row)
        part = self._parts.of(row.part)
        self._connection.execute(delete(items).where(items.c.memory == self._memory, items.c.id == row.id))
        part.count(row, -1)
        part.changed = True

    def _close_chain(self, row: ItemRow) -> None:
        """Have the items that replace a row replace what it had replaced."""
        for newer in self._change_rows(("replaces",), [row.id]):
            if _scope_in(newer) == _scope_in(row):
                this = items.c.memory == self._memory, items.c.id == newer.id
                self._connection.execute(items.update().where(*this).values(replaces=row.replaces))
                self._parts.of(newer.part).changed = True

    def detach(self, memory_id: str, agent_id: str, source_uri: str) -> bool:
        """Remove a source from an item, and delete the item if it has no other; True if it was deleted."""
        row = self._row(memory_id, agent_id)
        item = self._codec.item(row, self._other_sources([memory_id])[memory_id])
        left = [each for each in (item.source_uri, *item.other_sources) if each not in {None, source_uri}]
        if not left:
            self.delete(memory_id, agent_id)
        else:
            self._rewrite(row, item.model_copy(update={"source_uri": left[0], "other_sources": tuple(left[1:])}))
        return not left

    def remove(self, agent_id: str) -> int:
        """Delete some parts of this agent with their items; return the number of parts."""
        return len(self._delete_parts(agent_id)[0])

    def forget_user(self, user_id: str, agent_id: str) -> int | None:
        """Delete some parts of this agent and user; return the number of items, or None if there are no parts left."""
        numbers, count = self._delete_parts(agent_id, item_parts.c.user_id == escaped(user_id))
        return count if numbers else None

    def _delete_parts(self, agent_id: str, *more: ColumnElement[bool]) -> tuple[list[int], int]:
        """Delete some parts of this agent; return their numbers, and how many items they held."""
        owned = (item_parts.c.memory == self._memory, item_parts.c.agent_id == agent_id, *more)
        query = select(item_parts.c.part).where(*owned).order_by(item_parts.c.part).limit(_PARTS_AT_ONCE)
        numbers = [row.part for row in self._connection.execute(query)]
        counts = [
            self._connection.execute(
                delete(table).where(table.c.memory == self._memory, table.c.part.in_(numbers))
            ).rowcount
            for table in (items, item_parts)
        ]
        if numbers:
            self._parts.forget(agent_id, numbers)
        return numbers, counts[0]

    def compact(self, agent_id: str, until: int) -> tuple[int, int, bool]:
        """Promote the marked bullets of some entries of this agent, each once; after all entries are done, delete some
        from before `until` (Unix microseconds). Returns how many items were promoted and entries deleted, and whether
        there is more to do."""
        entries = (items.c.memory == self._memory, items.c.agent_id == agent_id, items.c.memory_type == "episodic")
        query = select(*items.c[*COLUMNS]).where(*entries).order_by(items.c.timestamp, items.c.id).limit(_ENTRIES)
        fresh = [ItemRow(*each) for each in self._connection.execute(query.where(items.c.compacted.is_(None)))]
        if fresh:
            return self._promote(fresh), 0, True
        expired = query.where(items.c.compacted == PROMOTED, items.c.timestamp < until)
        rows = [ItemRow(*each) for each in self._connection.execute(expired)]
        for row in rows:
            self._delete(row)
        return 0, len(rows), len(rows) == _ENTRIES

    def _promote(self, rows: Sequence[ItemRow]) -> int:
        long_term: list[Item] = []
        states: dict[int, list[str]] = defaultdict(list)
        others = self._other_sources(row.id for row in rows)
        for row in rows:
            try:
                found, hidden = promotable_items(self._codec.item(row, others[row.id]))
            except Unsealable:  # A person must handle it; it does not block others.
                found, hidden = (), True
            long_term += map(redacted_item, found)
            states[UNPROMOTABLE if hidden else PROMOTED].append(row.id)
        there = self._long_term_keys(long_term)
        new: list[Item] = []
        for item in long_term:
            # Not `append`: all items of a delivery have its key, so they would count as existing.
            if (fact := _fact_key(item)) not in there:
                there.add(fact)
                new.append(self._with_id(item, {}))
        self._insert(new)
        for state, ids in states.items():
            these = items.c.memory == self._memory, items.c.id.in_(ids)
            self._connection.execute(items.update().where(*these).values(compacted=state))
        return len(new)

    def create(self, agent_id: str, user_id: str) -> bool:
        """Create an empty collection of this user; False if there is one."""
        if self._parts.newest(agent_id, user_id) is not None:
            return False
        self._parts.begin(agent_id, user_id)
        self._codec.count(user_id, len(agent_id))
        return True

    # Queries

    def _rows_with_ids(self, given: Iterable[str]) -> list[ItemRow]:
        wanted = dict.fromkeys((self._memory, each) for each in given if each)
        found = bulk.find(self._connection, items, _BY_ID, _REST_OF_ID, list(wanted)) if wanted else []
        return [ItemRow(*each) for each in found]

    def _ids_in_use(self, given: Iterable[Item]) -> dict[str, ItemIdentity]:
        """Return those of the items' ids that are in use, each with the chunk that has it."""
        return {row.id: _identity_in(row) for row in self._rows_with_ids(item.memory_id for item in given)}

    def _row(self, memory_id: str, agent_id: str | None) -> ItemRow:
        found = self._rows_with_ids((memory_id,))
        if not found or agent_id not in (None, found[0].agent_id):
            raise _no_such_item(memory_id)
        return found[0]

    def _rows_by(self, keys: tuple[str, ...], wanted: Iterable[tuple[str | None, ...]]) -> list[ItemRow]:
        """Return rows without their content, oldest first, whose `keys` (after the memory) are wanted."""
        asked = list(dict.fromkeys((self._memory, *each) for each in wanted))
        if not asked:
            return []
        rest = tuple(name for name in META if name not in keys)
        named = (*keys, *rest)
        found = [
            ItemRow(**dict(zip(named, each, strict=True)))
            for each in bulk.find(self._connection, items, keys, rest, asked)
        ]
        return sorted(found, key=lambda row: (row.timestamp, row.id))

    def _change_rows(self, fields: Sequence[str], memory_ids: Sequence[str]) -> list[ItemRow]:
        """Return the rows, without their content, that name one of these ids in one of these fields."""
        return [row for name in fields for row in self._rows_by(("memory", name), ((each,) for each in memory_ids))]

    def _current(self, rows: list[ItemRow], changes: Sequence[ItemChange] = ()) -> list[ItemRow]:
        """Return the rows that neither stored changes nor these hide."""
        found = self._change_rows(("replaces", "retracts"), [row.id for row in rows])
        found += self._change_rows(("retracts",), [row.id for row in found])
        hidden = HiddenItems([*changes, *map(_change_in, found)])
        return [row for row in rows if row.retracts is None and not hidden.hides(_scope_in(row), row.id)]

    def _same_chunks(self, given: Sequence[Item]) -> dict[ItemIdentity, ItemRow]:
        """Return the items that are the same chunks: current ones, and hidden ones from the same source, because a
        source that is pushed again says nothing new."""
        rows = self._rows_by(_BY_CHUNK, ((each.agent_id, escaped(each.user_id), each.chunk_hash) for each in given))
        found: dict[ItemIdentity, ItemRow] = {}
        for row in self._current(rows):
            found.setdefault(_identity_in(row), row)
        again = {(identity_of(item), item.source_uri) for item in given if item.source_uri is not None}
        for row in rows:
            if (_identity_in(row), unescaped_or_none(row.source_uri)) in again:
                found.setdefault(_identity_in(row), row)
        return found

    def _delivery_keys(self, given: Sequence[Item]) -> set[tuple[str, ...] | None]:
        wanted = ((each[0], escaped(each[1]), hash_key(each[2])) for each in map(_delivery_key, given) if each)
        return {
            (row.agent_id, unescaped(row.user_id), unescaped(row.source_uri or ""))
            for row in self._rows_by(_BY_SOURCE, wanted)
        }

    def _long_term_keys(
        self, given: Sequence[Item], changes: Sequence[ItemChange] = ()
    ) -> set[tuple[object, ...] | None]:
        long_term = [item for item in given if item.memory_type != "episodic"]
        rows = self._rows_by(_BY_CHUNK, ((each.agent_id, escaped(each.user_id), each.chunk_hash) for each in long_term))
        current = self._current(rows, changes)
        return {(_identity_in(row), row.memory_type, PATTERN in tags_of(row.tags)) for row in current}

    def _with_id(self, item: Item, in_use: dict[str, ItemIdentity]) -> Item:
        """Return the item with its id, which is in use from now on."""
        wanted = item.memory_id
        if not is_id(wanted) or wanted in in_use:
            wanted = uuid7(self._clock)
        in_use[wanted] = identity_of(item)
        return item if wanted == item.memory_id else item.model_copy(update={"memory_id": wanted})

    # Writing

    def _insert(self, new: Sequence[Item]) -> None:
        rows = []
        for item in new:
            part = self._parts.place(item.agent_id, item.user_id)
            row = self._codec.row(item, part.number, part.used)
            part.used += 1
            part.count(row, 1)
            part.added.append(item)
            rows.append(row)
        bulk.insert(self._connection, items, COLUMNS, rows)
        self._add_sources(new)

    def _add_sources(self, these: Sequence[Item]) -> None:
        rows = [
            (self._memory, each.memory_id, hash_key(source), escaped(each.user_id), escaped(source))
            for each in these
            for source in each.other_sources
            if source != each.source_uri
        ]
        bulk.insert(self._connection, item_sources, _SOURCE, rows)

    def _replace_sources(self, these: Sequence[Item]) -> None:
        """Replace the other sources of existing items."""
        for each in these:
            mine = (item_sources.c.memory == self._memory, item_sources.c.item_id == each.memory_id)
            self._connection.execute(delete(item_sources).where(*mine))
        self._add_sources(these)

    def _other_sources(self, memory_ids: Iterable[str]) -> Mapping[str, Sequence[str]]:
        """Return the other sources of these items, as stored."""
        wanted = [(self._memory, each) for each in memory_ids]
        found: dict[str, list[str]] = defaultdict(list)
        for _, item_id, source in bulk.find(
            self._connection, item_sources, ("memory", "item_id"), ("source_uri",), wanted
        ):
            found[item_id].append(source)
        return found

    def _is_unchanged(self, row: ItemRow, others: Sequence[str], item: Item, keep: frozenset[str]) -> bool:
        """True if the row, with these other sources, equals the item except for the fields in `keep`."""
        return (
            ("memory_type" in keep or row.memory_type == item.memory_type)
            and ("tags" in keep or tags_of(row.tags) == item.tags)
            and ("source_uri" in keep or _sources(item) <= {unescaped_or_none(row.source_uri), *map(unescaped, others)})
        )

    def _update(self, differing: Sequence[tuple[ItemRow, Item]], keep: frozenset[str]) -> tuple[Item, ...]:
        whole = {row.id: row for row in self._rows_with_ids(row.id for row, _ in differing)}
        # All of them are decrypted before anything is counted: one that cannot be decrypted raises.
        others = self._other_sources(whole) if whole else {}
        there = {name: self._codec.item(row, others[name]) for name, row in whole.items()}
        updated, moved, rows = [], list[Item](), []
        for found, given in differing:
            before, old = whole[found.id], there[found.id]
            fields = {name: getattr(given, name) for name in ("memory_type", "tags", "source_uri", "provenance")}
            new = old.model_copy(update={name: value for name, value in fields.items() if name not in keep})
            # The text stays, and so does who wrote it: an undo of this call must not delete what was there before.
            new = new.model_copy(update={"provenance": _with_writer(new.provenance, old.provenance)})
            new = _with_sources_of(old, new)
            if "source_uri" not in keep:
                new = _with_sources_of(given, new)
            if new.other_sources != old.other_sources:
                moved.append(new)
            row = self._codec.row(new, before.part, before.position, before.version + 1)
            self._recount(before, row)
            rows.append((self._memory, row.id, *(getattr(row, name) for name in _UPSERT_COLUMNS)))
            updated.append(new)
        bulk.update(self._connection, items, _BY_ID, _UPSERT_COLUMNS, rows)
        self._replace_sources(moved)
        return tuple(updated)

    def _rewrite(self, before: ItemRow, item: Item) -> Item:
        row = self._codec.row(item, before.part, before.position, before.version + 1)
        self._recount(before, row)
        values = {**dict(zip(COLUMNS, row, strict=True)), "compacted": None}
        self._connection.execute(
            items.update().where(items.c.memory == self._memory, items.c.id == row.id).values(values)
        )
        item = item.model_copy(update={"other_sources": tuple(s for s in item.other_sources if s != item.source_uri)})
        self._replace_sources([item])
        return item

    def _recount(self, before: ItemRow, after: ItemRow) -> None:
        part = self._parts.of(before.part)
        part.count(before, -1)
        part.count(after, 1)
        part.changed = True


def distinct(given: Iterable[Item]) -> tuple[list[Item], int]:
    """Return the first item of each chunk with the sources of its repetitions, and the number of repetitions."""
    first: dict[ItemIdentity, Item] = {}
    count = 0
    for item in given:
        count += 1
        same = first.setdefault(identity_of(item), item)
        if same is not item:
            first[identity_of(item)] = _with_sources_of(item, same)
    return list(first.values()), count - len(first)


def _with_writer(known: Provenance, writer: Provenance) -> Provenance:
    """Return a provenance with the run and the speaker of the one who wrote the text."""
    return known.model_copy(update={"run_id": writer.run_id, "said_by": writer.said_by})


def _identity_in(row: ItemRow) -> ItemIdentity:
    project = unescaped_or_none(row.project_id)
    return ItemIdentity(row.agent_id, unescaped(row.user_id), project, row.chunk_hash, _scope_in(row).subject)


def _scope_in(row: ItemRow) -> SubjectScope:
    return SubjectScope(row.agent_id, unescaped(row.user_id), unescaped_or_none(row.subject))


def _change_in(row: ItemRow) -> ItemChange:
    return ItemChange(_scope_in(row), row.id, unescaped_or_none(row.replaces), unescaped_or_none(row.retracts))


def _sources(item: Item) -> set[str | None]:
    return {item.source_uri, *item.other_sources}


def _with_sources_of(old: Item, new: Item) -> Item:
    """Return the new item with the previous sources among its others: the text comes from there, too."""
    if new.source_uri is None:
        return new
    others = {*new.other_sources, *old.other_sources, old.source_uri} - {new.source_uri}
    return new.model_copy(update={"other_sources": tuple(sorted(filter(None, others)))})


def _delivery_key(item: Item) -> tuple[str, str, str] | None:
    key = item.source_uri if is_summary_uri(item.source_uri) else idempotency_key(item.source_uri)
    return None if key is None else (item.agent_id, item.user_id, key)


def _fact_key(item: Item) -> tuple[object, ...] | None:
    # Two summaries of different items may have the same text, and so may a summary and a pushed text.
    if item.memory_type == "episodic" or is_summary_uri(item.source_uri):
        return None
    return identity_of(item), item.memory_type, PATTERN in item.tags


def _no_such_item(memory_id: str) -> NoSuchItem:
    return NoSuchItem(f"no item has the id {memory_id[:80]}", hint="it may have been deleted")


def _lock_number(memory: str) -> int:
    """Return the advisory lock of a collection memory, a signed 64-bit number."""
    return int.from_bytes(hashlib.sha256(f"symbiont collection {memory}".encode()).digest()[:8], signed=True)
