"""The keys of one database in memory: they seal and open the values of its columns, each with the key of its user.

Sealing is synchronous and happens within transactions, so all keys are loaded at opening. They are unwrapped when they
are first used. A key that another daemon made since is read when a value names it: in another thread, if a transaction
of the event loop needs it. Callers outside of transactions `learn` first the keys of users who may be new to this
process.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from sqlalchemy import Connection
from sqlalchemy.util import await_only
from sqlalchemy.util.concurrency import in_greenlet

from runtime.clock import SYSTEM, milliseconds
from runtime.crypto import (
    FORMAT,
    HEADER_BYTES,
    KEY_ID_BYTES,
    NONCE_BYTES,
    PREFIX_BYTES,
    TAG_BYTES,
    KeyForgotten,
    MasterKey,
    SealedBytes,
    Unsealable,
    associated_data,
    derive_key,
    new_key,
    open_with,
)
from runtime.database.keys import tables
from runtime.database.keys.key import BLOCK, BOUND, Key
from runtime.database.keys.text_counts import TextCounts
from runtime.database.text import escaped
from runtime.errors import Conflict, SymbiontError, UsageError
from runtime.random_bytes import random_bytes

Result = TypeVar("Result")

OWNER: Final = "owner"
"""The user who always exists, as in `runtime.database.schema`, which needs this module."""
PROCESS: Final = ""
"""Holder of the key for what belongs to no user, such as the last program."""
INDEXES: Final = ":indexes"
"""Holder of the key from which those of sealed search indexes are derived."""
DERIVED: Final = ":derived"
"""Holder of the key from which all other keys are derived. It seals nothing, so it is never rotated."""
OF_NO_USER: Final = frozenset({PROCESS, INDEXES, DERIVED})
"""The holders that are not users."""
MOST_OPEN: Final = 4096
"""Maximum number of keys that are unwrapped at a time."""
LONG_SECONDS: Final = 300.0
"""Maximum seconds to read or to wrap all keys."""


class KeyStore(Protocol):
    """The place of the tables of keys. Its methods block, and are called in any thread."""

    label: str
    """Its name in messages."""

    def transact(self, function: Callable[[Connection], Result], *, seconds: float | None = None) -> Result:
        """Run `function` in one transaction, which is durable on return. Raises `Unavailable`, also if a server takes
        longer than `seconds` (None: its usual limit)."""

    def intact(self) -> bool:
        """True if the open files are still those at their paths."""

    def scrub(self) -> None:
        """Overwrite what was deleted, as far as the store can."""

    def close(self) -> None:
        """Close the connection."""


class MasterKeyReplaced(SymbiontError):  # noqa: N818
    """The keys are wrapped with another master key since a rotation; nothing can be added with this one."""


class KeyExhausted(Conflict):
    """A key was used so often that more values could not be sealed safely with it."""


class KeyRing:
    """The keys of one database. Methods that change keys block until that is durable: call them in a thread.

    `master` wraps them.
    """

    def __init__(self, store: KeyStore, master: MasterKey) -> None:
        self.store = store
        self.master = master
        self.texts = TextCounts()
        """The texts that were sealed, and those of items, until they are added to the rows of their users."""
        self.facts: Mapping[str, str] = {}
        self._keys: dict[tuple[str, bytes], Key] = {}
        self._current: dict[str, Key] = {}
        self._removals: dict[str, str | None] = {}
        self._open: dict[Key, None] = {}
        self._short: dict[Key, None] = {}
        self._unknown: set[tuple[str, bytes]] = set()
        self._lock = threading.RLock()
        self._open_lock = threading.Lock()

    def __repr__(self) -> str:
        return f"KeyRing({self.store.label}, {self.master})"

    # Sealing

    def seal(self, plaintext: bytes, column: str, *, user_id: str, row: str, version: int = 0) -> SealedBytes:
        """Encrypt `plaintext` for this `table.column`, row and version of the row; it cannot be opened for any other.

        A user without a key gets one first. Raises `KeyForgotten` for a removed user, `KeyExhausted`, and `Unavailable`
        or `MasterKeyReplaced` if a key cannot be made.
        """
        key = self._current.get(user_id) or self._obtain(user_id)
        cipher = key.cipher(column) or self._open_cipher(key, column)
        key.left -= 1
        if key.left < 0:
            self._record(key)
        nonce = random_bytes(NONCE_BYTES)
        sealed = cipher.encrypt(nonce, plaintext, associated_data(user_id, column, row, version))
        return SealedBytes(key.prefix + nonce + sealed)

    def unseal(self, sealed: bytes, column: str, *, user_id: str, row: str, version: int = 0) -> bytes:
        """Decrypt the result of `seal`. Raises `Unsealable` for another place, another version, a key that does not
        exist here, and changed bytes."""
        key = self._keys.get((user_id, sealed[:PREFIX_BYTES]))
        if key is None or len(sealed) < HEADER_BYTES + TAG_BYTES:
            if len(sealed) < HEADER_BYTES + TAG_BYTES or sealed[:1] != FORMAT:
                raise Unsealable(f"{column} of row {row} is not sealed data")
            key = self._find(user_id, sealed[:PREFIX_BYTES])
            if key is None:
                raise Unsealable(
                    f"{column} of row {row} was sealed with key {sealed[1:PREFIX_BYTES].hex()}, which does not exist",
                    hint="a removed user's key is forgotten; `symbi key import FILE` brings back keys that were lost",
                )
        cipher = key.cipher(column) or self._open_cipher(key, column)
        return open_with(cipher, sealed, associated_data(user_id, column, row, version), column, row)

    def is_current(self, user_id: str, prefix: bytes) -> bool:
        """True if a value of this user with this beginning is sealed with the key that seals new ones, or with none
        that is known."""
        known = filter(None, (self._keys.get((holder, prefix)) for holder in self._holders(user_id)))
        key = next(known, None)
        return key is None or key is self._current.get(user_id)

    def derive(self, *purpose: str) -> bytes:
        """Return a key of 32 bytes for this purpose, which belongs to no user; the same for every process and master
        key."""
        return derive_key(self.ensure(DERIVED).secret(), *purpose)

    def index_keys(self, identity: str) -> list[bytes]:
        """Return the keys (32 bytes) of the sealed index with this identity: the current one, then earlier ones, with
        which its file may still be sealed."""
        self._current.get(INDEXES) or self._obtain(INDEXES)
        held = sorted((key for key in self._all() if key.holder == INDEXES), key=lambda key: -key.generation)
        return [derive_key(key.secret(), "index", identity) for key in held]

    # What is there

    @property
    def retired(self) -> list[Key]:
        """Return the keys that seal no more, and may still open values."""
        return [key for key in self._all() if key.retired_at is not None]

    @property
    def current(self) -> list[Key]:
        """Return the keys that seal."""
        return [key for key in self._all() if key.retired_at is None]

    @property
    def removals(self) -> Mapping[str, str | None]:
        """Return the holders whose keys were forgotten for good, with whose key seals what is kept of them."""
        return self._removals

    @property
    def is_dirty(self) -> bool:
        """True if uses of keys have to be recorded."""
        return bool(self._short)

    def knows(self, holder: str) -> bool:
        """True if values of this holder are sealed without a question to the store."""
        return holder in self._current or holder in self._removals

    def learn(self, holder: str) -> None:
        """Read the keys of a holder of whom another daemon may have made some."""
        stored = escaped(holder)
        with self._lock:
            self._add(self.store.transact(partial(tables.of_holder, holder=stored)))
            if (key := self._current.get(stored)) is not None:
                self._current[holder] = key

    def load(self) -> None:
        """Read all keys again, after another daemon or a rotation changed them."""
        with self._lock:
            stored = self.store.transact(tables.load, seconds=LONG_SECONDS)
            readable = stored.facts.get(tables.MASTER) == self.master.key_id.hex()
            keys: dict[tuple[str, bytes], Key] = {}
            for row in stored.keys:
                key = self._keys.get((row[0], FORMAT + row[1]))
                # What another master key wraps now stays in use as it was, until that one is known here.
                if key is None or (readable and (key.wrapped, key.master) != (row[3], self.master)):
                    fresh = Key(self.master, *row)
                    if key is not None:
                        fresh.left = key.left
                    key = fresh
                key.retired_at = row[6]
                keys[key.holder, key.prefix] = key
            current = {key.holder: key for key in keys.values() if key.retired_at is None}
            for holder, kept_by in stored.removals.items():
                if kept_by is not None and kept_by in current:
                    current[holder] = current[kept_by]
            # Replaced at once: values are sealed, and compared with the keys, in other threads meanwhile.
            self._keys, self._current = keys, current
            self._removals = dict(stored.removals)
            self._open = {key: None for key in keys.values() if key.is_open}
            self._short = {key: None for key in keys.values() if key.left < 0}
            self._unknown.clear()
            self.facts = stored.facts

    def refresh(self) -> bool:
        """Load again if keys were changed by another daemon; return True if so. Raises `MasterKeyReplaced` if they are
        wrapped with another master key since."""
        version = self.store.transact(lambda connection: tables.fact(connection, tables.VERSION))
        if version == self.facts.get(tables.VERSION):
            return False
        self.load()
        self.check_master()
        return True

    @property
    def stored_master(self) -> tuple[str | None, str | None]:
        """Return the id of the master key that wraps the stored keys, and the reference of it that a rotation
        recorded."""
        return self.facts.get(tables.MASTER), self.facts.get(tables.MASTER_FROM)

    def check_master(self) -> None:
        """Raise `MasterKeyReplaced` if the keys are wrapped with another master key."""
        if self.stored_master[0] != self.master.key_id.hex():
            raise self._replaced_error(*self.stored_master)

    def use(self, master: MasterKey) -> None:
        """Use this master key, which wraps the stored keys."""
        with self._lock:
            self.master = master
            self.load()

    # Changes

    def ensure(self, holder: str) -> Key:
        """Return the holder's current key, made if there is none."""
        return self._current.get(holder) or self._obtain(holder)

    def rotate(self, holders: Iterable[str], now: int) -> int:
        """Give these holders a new key each; the one before opens values until it is forgotten. Returns how many keys
        were retired."""
        chosen = sorted({self._sealing_holder(holder) for holder in holders if holder in self._current})

        def change(connection: Connection) -> None:
            tables.note_change(connection)
            self._require_master(connection)
            # Another daemon may have removed some, which get no key any more.
            there = [holder for holder in chosen if not tables.successor(connection, holder)[0]]
            for holder in there:
                tables.retire(connection, holder, now)
            tables.insert(connection, [self._new_row(holder, self._current[holder].generation + 1) for holder in there])

        with self._lock:
            if chosen:
                self._change(change)
        return len(chosen)

    def forget(self, user_id: str, now: int, *, kept_by: str | None = None) -> None:
        """Forget the keys of a removed user, for good; no values of theirs are sealed or opened any more.

        `kept_by`: a user whose key seals what is kept of theirs. Their own keys are then retired, and forgotten when
        everything is sealed again. Repeating it changes nothing.
        """
        user_id = escaped(user_id)
        if user_id == OWNER or user_id in OF_NO_USER:
            raise UsageError(f"the key of {user_id or 'the process'} cannot be forgotten")
        if kept_by is not None:
            self.ensure(kept_by)

        def change(connection: Connection) -> None:
            tables.note_change(connection)
            self._require_master(connection)
            tables.remove(connection, user_id, kept_by, now)
            indexes = self._current.get(INDEXES)
            if kept_by is None and indexes is not None:
                # Files of indexes hold entries of all users: older copies become unreadable with their key.
                tables.retire(connection, INDEXES, now)
                tables.insert(connection, [self._new_row(INDEXES, indexes.generation + 1)])

        with self._lock:
            if self._removals.get(user_id, "") != kept_by or self._has_key(user_id):
                self._change(change)
            # Also if nothing changed: a process that was killed before it came here left the key in the log.
            self.store.scrub()

    def drop(self, retired: Sequence[Key]) -> None:
        """Forget these retired keys: nothing is sealed with them any more."""

        def change(connection: Connection) -> None:
            tables.note_change(connection)
            tables.delete_keys(connection, [(key.holder, key.key_id) for key in retired])

        with self._lock:
            if retired:
                self._change(change)
                self.store.scrub()

    def rewrap(self, master: MasterKey, reference: str) -> int:
        """Wrap all keys with another master key, at once; return how many. `reference`: where it is read from."""
        # Before the transaction, because it takes long for many keys.
        done = {(key.holder, key.key_id): self._rewrap(key, master) for key in self._all()}

        def change(connection: Connection) -> int:
            tables.note_change(connection)
            self._require_master(connection)
            rows = [Key(self.master, *row) for row in tables.load(connection).keys]
            now = [(row.holder, row.key_id) for row in rows]
            wrapped = [done.get(which) or self._rewrap(row, master) for which, row in zip(now, rows, strict=True)]
            tables.set_wrapped(connection, [(*which, value) for which, value in zip(now, wrapped, strict=True)])
            tables.set_fact(connection, tables.MASTER, master.key_id.hex())
            tables.set_fact(connection, tables.MASTER_FROM, reference)
            return len(rows)

        with self._lock:
            count = self.store.transact(change, seconds=LONG_SECONDS)
            self.use(master)
            self.store.scrub()
        return count

    def set_fact(self, name: str, value: str) -> None:
        """Record a fact about the keys."""
        with self._lock:
            self.store.transact(lambda connection: tables.set_fact(connection, name, value))
            self.facts = {**self.facts, name: value}

    def record_uses(self) -> None:
        """Record how often keys were used, and a block of uses ahead."""
        with self._lock:
            noted, self._short = self._short, {}
            short = list(noted)
            amounts = [(key.holder, key.key_id, BLOCK - key.left) for key in short if key.left < 0]
            if not amounts:
                return
            try:
                totals = self.store.transact(lambda connection: tables.add_seals(connection, amounts))
            except BaseException:
                self._short.update(dict.fromkeys(short))
                raise
            for (holder, key_id, amount), total in zip(amounts, totals, strict=True):
                key = self._keys.get((holder, FORMAT + key_id))
                if key is not None:
                    # With the uses of other daemons.
                    key.seals = max(key.seals + amount, total or 0)
                    key.left += amount

    def close(self) -> None:
        """Record the uses of keys exactly, and close the store."""
        # Without the database approximate numbers have to be enough.
        with suppress(SymbiontError):
            used = [(key.holder, key.key_id, -key.left) for key in self._all() if key.left]
            if used:
                self.store.transact(lambda connection: tables.add_seals(connection, used))
        self.store.close()

    # Inside

    def _obtain(self, holder: str) -> Key:
        """Return the current key of a holder that this process knows none of: one that another daemon made, or a new
        one, which is stored before anything is sealed with it."""
        return _off_loop(partial(self._load_or_create, holder))

    def _load_or_create(self, holder: str) -> Key:
        with self._lock:
            if (key := self._current.get(holder)) is not None:
                return key
            if holder in self._removals:
                raise _forgotten_error()
            named, holder = holder, escaped(holder)
            new = self._new_row(holder, 1)

            def change(connection: Connection) -> tuple[bool, list[tuple[Any, ...]]]:
                self._require_master(connection)
                gone, _ = tables.successor(connection, holder)
                if not gone:
                    tables.insert(connection, [new])
                return gone, tables.of_holder(connection, holder)

            gone, rows = self.store.transact(change)
            if gone:
                self.load()
                if (key := self._current.get(holder)) is None:
                    raise _forgotten_error()
                return key
            self._add(rows)
            self._current[named] = self._current[holder]
            return self._current[named]

    def _find(self, user_id: str, prefix: bytes) -> Key | None:
        """Return the key of which values of this user begin so; None if it does not exist."""
        return None if (user_id, prefix) in self._unknown else _off_loop(partial(self._load_key, user_id, prefix))

    def _load_key(self, user_id: str, prefix: bytes) -> Key | None:
        with self._lock:
            for holder in self._holders(user_id):
                stored = escaped(holder)
                if (stored, prefix) not in self._keys:
                    self._add(self.store.transact(partial(tables.of_holder, holder=stored)))
                if (key := self._keys.get((stored, prefix))) is not None:
                    # Under the name by which it is asked for, too: an escaped one, or one of whom values are kept.
                    self._keys[user_id, prefix] = key
                    return key
            if len(self._unknown) < MOST_OPEN:
                self._unknown.add((user_id, prefix))
            return None

    def _all(self) -> list[Key]:
        # A copy, because another thread may add some. Without the lock, which is held while the store writes.
        return list(dict.fromkeys(self._keys.copy().values()))

    def _holders(self, user_id: str) -> list[str]:
        kept_by = self._removals.get(user_id)
        return [user_id] if kept_by is None else [user_id, kept_by]

    def _has_key(self, user_id: str) -> bool:
        return any(key.holder == user_id for key in self._all())

    def _sealing_holder(self, holder: str) -> str:
        return self._current[holder].holder

    def _add(self, rows: Sequence[tuple[Any, ...]]) -> None:
        for row in rows:
            key = self._keys.setdefault((row[0], FORMAT + row[1]), Key(self.master, *row))
            key.retired_at = row[6]
            if key.retired_at is None:
                self._current[key.holder] = key

    def _change(self, change: Callable[[Connection], None]) -> None:
        self.store.transact(change)
        self.load()

    def _new_row(self, holder: str, generation: int) -> tuple[Any, ...]:
        key_id = os.urandom(KEY_ID_BYTES)
        wrapped = self.master.wrap(new_key(), holder, key_id)
        return holder, key_id, generation, wrapped, 0, milliseconds(SYSTEM), None

    def _rewrap(self, key: Key, master: MasterKey) -> bytes:
        return master.wrap(key.secret(), key.holder, key.key_id)

    def _require_master(self, connection: Connection) -> None:
        stored = tables.lock_master(connection)
        if stored != self.master.key_id.hex():
            raise self._replaced_error(stored, tables.fact(connection, tables.MASTER_FROM))

    def _replaced_error(self, stored: str | None, reference: str | None) -> MasterKeyReplaced:
        hint = f"set SYMBIONT_MASTER_KEY to {reference}, and start again" if reference else "use the new master key"
        return MasterKeyReplaced(
            f"{self.store.label}: the keys are wrapped with master key {stored}, not with {self.master.key_id.hex()}",
            hint=hint,
        )

    def _open_cipher(self, key: Key, column: str) -> AESGCM:
        """Return the cipher of a key for a column, and keep it; of the keys that are unwrapped, the oldest are
        dropped."""
        cipher = key.open(column)
        # A lock of its own: the other one is held while the store writes.
        with self._open_lock:
            self._open[key] = None
            while len(self._open) > MOST_OPEN:
                oldest = next(iter(self._open))
                del self._open[oldest]
                oldest.close()
        return cipher

    def _record(self, key: Key) -> None:
        """Have the uses of a key recorded. Raises KeyExhausted beyond the bound."""
        if key.uses >= BOUND:
            raise KeyExhausted(
                f"a key of {key.holder or 'the process'} was used {key.uses:,} times, the most that is safe",
                hint="`symbi key rotate` makes a new one",
            )
        self._short[key] = None


def _off_loop(function: Callable[[], Result]) -> Result:
    """Return the result of `function`, which asks the store. In a transaction of the event loop another thread runs it,
    and the loop goes on meanwhile, however long a server does not answer."""
    return await_only(asyncio.to_thread(function)) if in_greenlet() else function()


def _forgotten_error() -> KeyForgotten:
    return KeyForgotten("the user was removed, and nothing can be stored for it any more")
