"""The writes of the key-value store, applied in transactions of the group commit.

A write locks the row of its user in `user_storage` first. So the writes of one user happen one after the other, on all
daemons, and the newest version, the bytes that are counted and the entries change together.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, bindparam, exists, select, text

from runtime.clock import Clock, rfc3339, uuid7
from runtime.crypto import new_key
from runtime.database import bulk
from runtime.database.group_commit import Stage
from runtime.database.schema import kv, kv_calls, kv_tags, user_storage
from runtime.errors import Conflict, SymbiontError
from runtime.identity import users
from runtime.search.entry import ALL_SUBJECTS, WantedSubject
from runtime.tables.errors import QuotaExceeded
from runtime.tables.kv.entry import Codes, InvalidEntry, KvSeals, content_of, counted_bytes, is_alive
from runtime.tables.quota import Quota
from runtime.tables.storage import UserStorage
from runtime.threads import run, stage_ranks
from runtime.threads.step import Superseded
from runtime.threads.turns.claimable import DATABASE_NOW

_CHANGING: Final = ("version", "bytes", "expires_at", "created_at", "updated_at", "content")
# Built once: building a statement takes longer than running it.
_LOCKED: Final = (
    select(user_storage.c.kv_key, user_storage.c.kv_version)
    .where(user_storage.c.user_id == bindparam("user"))
    .with_for_update(key_share=True)
)
_ENTRY: Final = select(kv).where(kv.c.user_id == bindparam("user"), kv.c.code == bindparam("code"))
_DATABASE_NOW: Final = text(f"SELECT {DATABASE_NOW}")
DELETED_AT_ONCE: Final = 400
"""Maximum number of entries that one transaction deletes, so that other writes run in between: large ones take long to
overwrite. However small they are, they make room for any entry."""
_LONGEST_KEY: Final = 80
_SHOWN: Final = 80
"""Characters of a name that an error shows."""


class CallOrigin(NamedTuple):
    """The call of an agent that makes a change. `attempt`: of its run, the fence of what it writes; `key`: of the call
    within its run, see `runtime.tools.context.Acting`."""

    run_id: str
    attempt: int | None
    key: str | None


class VersionConflict(Conflict):
    """An entry has another version than the change expects. `version`: its newest; 0: there is no such entry."""

    def __init__(self, name: str, expected: int, version: int) -> None:
        shown = name if len(name) <= _SHOWN else f"{name[:_SHOWN]}…"
        if version:
            what = f"the entry {shown!r} has version {version}, not {expected}"
            super().__init__(what, hint="get the entry, and make the change again with its version")
        else:
            what = f"there is no entry {shown!r}: its version is 0, not {expected}"
            super().__init__(what, hint="set it with the version 0")
        self.version = version


class KvParts(NamedTuple):
    """Parts that the writes of one database share."""

    storage: UserStorage
    seals: KvSeals
    clock: Clock


@dataclass(slots=True, eq=False, kw_only=True)
class SetEntry:
    """Store an entry. `value`: JSON. `expected`: its version before; 0: there must be none; None: any. `at`: the time
    of the call (Unix milliseconds). `quota`: of the user."""

    parts: KvParts
    user_id: str
    subject: str | None
    name: str
    tags: Sequence[str]
    value: bytes
    expires_at: int | None
    expected: int | None
    quota: Quota
    origin: CallOrigin | None
    at: int
    written: bytes | None = None
    """The content sealed last: it is found again if a transaction whose end remained unknown is repeated."""


@dataclass(slots=True, eq=False, kw_only=True)
class DeleteEntries:
    """Delete entries as `entries_query` chooses them, at most `DELETED_AT_ONCE`."""

    parts: KvParts
    user_id: str
    subject: WantedSubject
    name: str | None
    tags: Sequence[str]
    origin: CallOrigin | None
    at: int


KvWrite = SetEntry | DeleteEntries


def store_entries(connection: Connection, writes: Sequence[KvWrite]) -> list[int | Exception]:
    """Return for each write the version that it stored, or the number of entries that it deleted; or an exception for
    that write alone: `Superseded` if its run has a newer attempt."""
    answers: list[int | Exception] = [0] * len(writes)
    origins = [each.origin for each in writes if each.origin is not None and each.origin.attempt is not None]
    attempts = run.running_attempts(connection, (each.run_id for each in origins)) if origins else {}
    # In one order in all processes, so that two of them do not wait for each other.
    for place in sorted(range(len(writes)), key=lambda place: (writes[place].user_id, place)):
        write = writes[place]
        try:
            _must_continue(write.origin, attempts)
            answers[place] = _apply(connection, write)
        except SymbiontError as error:
            answers[place] = error
    return answers


KV_WRITES: Final[Stage[KvWrite, int]] = Stage(stage_ranks.KV, store_entries)
"""Stored after the steps and messages of runs, before their ends."""


def _must_continue(origin: CallOrigin | None, attempts: dict[str, int]) -> None:
    if origin is not None and origin.attempt is not None and attempts.get(origin.run_id) != origin.attempt:
        raise Superseded(f"run {origin.run_id} continues elsewhere")


def _apply(connection: Connection, write: KvWrite) -> int:
    """Every error is raised before anything is written, but entries that have expired may be gone."""
    users.require(connection, write.user_id)
    earlier = _earlier_number(connection, write.origin)
    if earlier is not None:
        return earlier
    number = _set(connection, write) if isinstance(write, SetEntry) else _delete(connection, write)
    _note(connection, write, number)
    return number


def _set(connection: Connection, write: SetEntry) -> int:
    seals, clock = write.parts.seals, write.parts.clock
    codes, newest = _lock_user(connection, write)
    code = codes.name(write.name, write.subject)
    found = connection.execute(_ENTRY, {"user": write.user_id, "code": code}).first()
    if found is not None and write.written is not None and bytes(found.content) == write.written:
        return int(found.version)
    alive = found is not None and (found.expires_at is None or found.expires_at > write.at)
    current = int(found.version) if found is not None and alive else 0
    if write.expected is not None and write.expected != current:
        raise VersionConflict(write.name, write.expected, current)
    if write.expires_at is not None and write.expires_at <= write.at:
        raise InvalidEntry(
            "expires_at",
            f"{rfc3339(write.expires_at / 1000)} is in the past",
            hint="give a later time, or delete the entry",
        )
    content = content_of(write.name, write.tags, write.value, write.subject)
    size = counted_bytes(content, write.tags)
    entry_id = uuid7(clock) if found is None else found.id
    version = newest + 1
    sealed = seals.close(content, entry_id, version, write.user_id)
    _grow(connection, write, code, size - (0 if found is None else found.bytes), version)
    if found is None:
        named = entry_id, write.user_id, code, codes.subject(write.subject)
        row = (*named, version, size, write.expires_at, write.at, write.at, sealed)
        bulk.insert(connection, kv, ("id", "user_id", "code", "subject_code", *_CHANGING), [row])
    else:
        created_at = found.created_at if alive else write.at
        changed = (entry_id, version, size, write.expires_at, created_at, write.at, sealed)
        bulk.update(connection, kv, ("id",), _CHANGING, [changed])
    _tag(connection, write, entry_id, [codes.tag(each) for each in write.tags], there=found is not None)
    write.written = sealed
    return version


def _lock_user(connection: Connection, write: SetEntry) -> tuple[Codes, int]:
    """Lock the row of the user. Return the codes, and the newest version of any entry; the row and the key are made if
    there are none."""
    seals, given = write.parts.seals, {"user": write.user_id}
    row = connection.execute(_LOCKED, given).first()
    if row is None:
        write.parts.storage.ensure(connection, write.user_id)
        row = connection.execute(_LOCKED, given).one()
    sealed, newest = row
    if sealed is None:
        sealed = seals.close_key(new_key(), write.user_id)
        bulk.update(connection, user_storage, ("user_id",), ("kv_key",), [(write.user_id, sealed)])
    return seals.codes(sealed, write.user_id), int(newest)


def _grow(connection: Connection, write: SetEntry, code: bytes, more: int, version: int) -> None:
    """Count `more` bytes, and note the newest version; entries that have expired make room. Raises QuotaExceeded."""
    storage = write.parts.storage
    try:
        storage.add_kv(connection, write.user_id, more, write.quota, version=version)
    except QuotaExceeded:
        # As the expiry deletes them: in parts, and none early that another daemon still has.
        now = write.at
        if connection.dialect.name == "postgresql":
            now = min(now, int(connection.execute(_DATABASE_NOW).scalar_one()))
        past = select(kv.c.id, kv.c.bytes).where(
            kv.c.user_id == write.user_id, kv.c.expires_at <= now, kv.c.code != code
        )
        if not _drop(connection, write, connection.execute(past.limit(DELETED_AT_ONCE)).all()):
            raise
        storage.add_kv(connection, write.user_id, more, write.quota, version=version)


def _tag(connection: Connection, write: SetEntry, entry_id: str, codes: Sequence[bytes], *, there: bool) -> None:
    """Give an entry these tags instead of those that it has."""
    if there:
        before = bulk.find(connection, kv_tags, ("kv_id",), ("code",), [(entry_id,)])
        if {bytes(row[1]) for row in before} == set(codes):
            return
        bulk.delete(connection, kv_tags, "kv_id", [entry_id])
    bulk.insert(connection, kv_tags, ("user_id", "code", "kv_id"), [(write.user_id, each, entry_id) for each in codes])


def _delete(connection: Connection, write: DeleteEntries) -> int:
    row = connection.execute(_LOCKED, {"user": write.user_id}).first()
    if row is None or row.kv_key is None:
        return 0
    codes = write.parts.seals.codes(row.kv_key, write.user_id)
    columns = kv.c.id, kv.c.bytes
    query = entries_query(columns, codes, write.user_id, write.subject, write.name, write.tags, now=write.at)
    return _drop(connection, write, connection.execute(query.limit(DELETED_AT_ONCE)).all())


def _drop(connection: Connection, write: KvWrite, entries: Sequence[Any]) -> int:
    """Delete these entries, rows with `id` and `bytes`; return their number."""
    if entries:
        bulk.delete(connection, kv, "id", [entry.id for entry in entries])
        write.parts.storage.free_kv(connection, write.user_id, sum(entry.bytes for entry in entries))
    return len(entries)


def entries_query(
    columns: Sequence[ColumnElement[Any]],
    codes: Codes,
    user_id: str,
    subject: WantedSubject,
    name: str | None,
    tags: Sequence[str],
    *,
    now: int,
    after: str = "",
) -> Select[Any]:
    """Return the query for the user's entries of the subject with this name, if any, and all of these tags, in the
    order of their ids beginning after one. A name is that of one entry: of no subject if `subject` is all of them."""
    query = select(*columns).select_from(kv).where(is_alive(now), *of_subject(codes, subject))
    if name is not None:
        own = None if subject is ALL_SUBJECTS else subject
        query = query.where(kv.c.code == codes.name(name, own))
    entry_id, others = kv.c.id, tags
    if tags and not isinstance(subject, str):
        # The rows of one tag are read in their order, and each of them is looked at.
        entry_id, others = kv_tags.c.kv_id, tags[1:]
        query = query.join(kv_tags, entry_id == kv.c.id)
        query = query.where(kv_tags.c.user_id == user_id, kv_tags.c.code == codes.tag(tags[0]))
    else:
        query = query.where(kv.c.user_id == user_id)
    for tag in others:
        its = kv_tags.alias()
        query = query.where(
            exists().where(its.c.user_id == user_id, its.c.code == codes.tag(tag), its.c.kv_id == kv.c.id)
        )
    return query.where(entry_id > after).order_by(entry_id)


def of_subject(codes: Codes, wanted: WantedSubject) -> list[ColumnElement[bool]]:
    """Return the conditions of the entries of a subject."""
    if wanted is ALL_SUBJECTS:
        return []
    code = codes.subject(wanted)
    return [kv.c.subject_code.is_(None) if code is None else kv.c.subject_code == code]


def _earlier_number(connection: Connection, origin: CallOrigin | None) -> int | None:
    """Return the number of a call that was stored before."""
    key = _call_key(origin)
    if origin is None or key is None:
        return None
    found = bulk.find(connection, kv_calls, ("run_id", "key"), ("number",), [(origin.run_id, key)])
    return int(found[0][2]) if found else None


def _note(connection: Connection, write: KvWrite, number: int) -> None:
    key = _call_key(write.origin)
    if write.origin is not None and key is not None:
        row = (write.origin.run_id, key, write.user_id, number)
        bulk.insert(connection, kv_calls, ("run_id", "key", "user_id", "number"), [row])


def _call_key(origin: CallOrigin | None) -> str | None:
    if origin is None or origin.key is None or len(origin.key) <= _LONGEST_KEY:
        return None if origin is None else origin.key
    return hashlib.sha256(origin.key.encode()).hexdigest()
