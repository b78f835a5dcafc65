"""The key-value store of one user."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from itertools import count
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

from sqlalchemy import bindparam, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.clock import Clock, milliseconds
from runtime.database.connection import Database
from runtime.database.schema import kv, user_storage
from runtime.search.entry import ALL_SUBJECTS, WantedSubject
from runtime.tables.kv.entry import (
    Codes,
    KvEntry,
    KvSeals,
    content_of,
    counted_bytes,
    entry_name,
    entry_tags,
    is_alive,
    value_json,
)
from runtime.tables.kv.writes import (
    DELETED_AT_ONCE,
    KV_WRITES,
    CallOrigin,
    DeleteEntries,
    KvParts,
    SetEntry,
    entries_query,
    of_subject,
)
from runtime.tables.storage import UserStorage

_AT_ONCE: Final = 64
"""Rows that are read at once: at most 4 MiB."""
_OUTPUT_BYTES: Final = 256
"""Maximum bytes that an entry takes in a result besides its content: names of fields, times and its version."""


_ALIVE: Final = select(kv).where(
    kv.c.user_id == bindparam("user"), kv.c.code == bindparam("code"), is_alive(bindparam("now"))
)
_KEPT: Final = 1000
_codes: Final[WeakKeyDictionary[Database, OrderedDict[str, Codes]]] = WeakKeyDictionary()
"""Codes of users that were read: the key of a user never changes, and an id of a user is never used again."""


class KvPage(NamedTuple):
    """Entries in the order in which they were created. `after`: where the next page begins; None: this is the last."""

    entries: Sequence[KvEntry]
    after: str | None


class StoredEntry(NamedTuple):
    """A stored entry. `bytes`: counted towards the storage of the user."""

    name: str
    tags: Sequence[str]
    version: int
    bytes: int


class KvStore:
    """The entries of one user and a subject, or of all subjects and none; then a name is that of an entry without one.
    Raises InvalidEntry for a name, tag or value out of bounds, and `Unavailable`.

    An entry that has expired does not exist any more, whether it was deleted already or not.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        storage: UserStorage,
        user_id: str,
        subject: WantedSubject = ALL_SUBJECTS,
    ) -> None:
        self._subject = subject
        self._own = None if subject is ALL_SUBJECTS else subject
        self._database = database
        self._clock = clock
        self._storage = storage
        self._user_id = user_id
        self._seals = KvSeals(database.keys)

    async def set(
        self,
        name: str,
        value: Any,
        tags: Sequence[str] = (),
        *,
        expires_at: int | None = None,
        expected: int | None = None,
        origin: CallOrigin | None = None,
    ) -> StoredEntry:
        """Store an entry in place of the one with this name, if any.

        `expires_at`: Unix milliseconds. `expected`: the version that the entry has to have; 0: it must not exist.
        `origin`: a call of an agent, which happens once however often it is repeated. Raises VersionConflict;
        QuotaExceeded; `Superseded`; InvalidEntry for a time in the past; NotFound for a user who was removed.
        """
        name, tags, encoded = entry_name(name), entry_tags(tags), value_json(value)
        await self._database.learn_keys(self._user_id)
        write = SetEntry(
            parts=self._parts,
            user_id=self._user_id,
            subject=self._own,
            name=name,
            tags=tags,
            value=encoded,
            expires_at=expires_at,
            expected=expected,
            quota=await self._storage.quota(self._user_id),
            origin=origin,
            at=milliseconds(self._clock),
        )
        version = await self._database.commits.store(KV_WRITES, write)
        return StoredEntry(name, tags, version, counted_bytes(content_of(name, tags, encoded, self._own), tags))

    async def delete(
        self, name: str | None = None, tags: Sequence[str] = (), *, origin: CallOrigin | None = None
    ) -> int:
        """Delete the entry with this name, or those with all of these tags, or both; return their number. Many are
        deleted in parts. `origin`: see `set`. Raises ValueError without name, tags and subject; `Superseded`; NotFound
        for a user who was removed."""
        if name is None and not tags and self._own is None:
            raise ValueError("neither a name nor tags choose what to delete")
        name, tags = None if name is None else entry_name(name), entry_tags(tags)
        await self._database.learn_keys(self._user_id)
        deleted = 0
        for part in count():
            write = DeleteEntries(
                parts=self._parts,
                user_id=self._user_id,
                subject=self._subject,
                name=name,
                tags=tags,
                # Each part is done once. A repeated call ends with the part with which the first one ended.
                origin=origin and origin._replace(key=origin.key and f"{origin.key}/{part}"),
                at=milliseconds(self._clock),
            )
            some = await self._database.commits.store(KV_WRITES, write)
            deleted += some
            if some < DELETED_AT_ONCE:
                break
        return deleted

    async def get(self, name: str) -> KvEntry | None:
        """Return the entry with this name; None if there is none."""
        name = entry_name(name)
        await self._begin()
        async with self._database.read() as connection:
            codes = await self._codes(connection)
            if codes is None:
                return None
            given = {"user": self._user_id, "code": codes.name(name, self._own), "now": milliseconds(self._clock)}
            row = (await connection.execute(_ALIVE, given)).first()
            return None if row is None else self._seals.open(row, self._user_id)

    async def page(
        self, tags: Sequence[str] = (), *, after: str = "", limit: int | None = None, most_bytes: int
    ) -> KvPage:
        """Return entries with all of these tags: at most `limit`, and as many as take at most `most_bytes` as JSON, but
        at least one. An entry that exists all the time is on exactly one page, whatever changes in between."""
        tags = entry_tags(tags)
        await self._begin()
        async with self._database.read() as connection:
            codes = await self._codes(connection)
            if codes is None:
                return KvPage((), None)
            return await self._read_page(connection, codes, tags, after, limit, most_bytes)

    async def count(self) -> int:
        """Return the number of entries."""
        query = select(func.count()).select_from(kv).where(kv.c.user_id == self._user_id)
        await self._begin()
        async with self._database.read() as connection:
            codes = await self._codes(connection)
            if codes is None:
                return 0
            query = query.where(is_alive(milliseconds(self._clock)), *of_subject(codes, self._subject))
            return int((await connection.execute(query)).scalar_one())

    @property
    def _parts(self) -> KvParts:
        return KvParts(self._storage, self._seals, self._clock)

    async def _begin(self) -> None:
        await self._database.learn_keys(self._user_id)
        self._storage.touch(self._user_id)

    async def _codes(self, connection: AsyncConnection) -> Codes | None:
        known = _codes.setdefault(self._database, OrderedDict())
        if self._user_id in known:
            return known[self._user_id]
        query = select(user_storage.c.kv_key).where(user_storage.c.user_id == self._user_id)
        sealed = (await connection.execute(query)).scalar()
        if sealed is None:
            return None
        codes = known[self._user_id] = self._seals.codes(sealed, self._user_id)
        if len(known) > _KEPT:
            known.popitem(last=False)
        return codes

    async def _read_page(
        self,
        connection: AsyncConnection,
        codes: Codes,
        tags: Sequence[str],
        after: str,
        limit: int | None,
        most_bytes: int,
    ) -> KvPage:
        entries: list[KvEntry] = []
        size = 0
        while True:
            wanted = _AT_ONCE if limit is None else min(_AT_ONCE, limit - len(entries) + 1)
            now = milliseconds(self._clock)
            query = entries_query((*kv.c,), codes, self._user_id, self._subject, None, tags, now=now, after=after)
            rows = (await connection.execute(query.limit(wanted))).all()
            for row in rows:
                size += len(row.content) + _OUTPUT_BYTES
                if len(entries) == limit or (entries and size > most_bytes):
                    return KvPage(entries, after)
                entries.append(self._seals.open(row, self._user_id))
                after = row.id
            if len(rows) < wanted:
                return KvPage(entries, None)
