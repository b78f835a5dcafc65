"""Rotation of the master key: all keys of users are wrapped with another one, at once, while the daemon runs.

The new key is on disk before anything is wrapped with it. The store of keys says which of the two is right, so the next
start completes what was interrupted, or takes it back.
"""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import structlog

from runtime.crypto import MasterKey
from runtime.daemon.process import master_key
from runtime.daemon.process.root import DATABASE_FILE, PROGRAM_FILE, Root, adopting
from runtime.daemon.process.settings import ProcessSettings
from runtime.database.connection import Database
from runtime.database.drivers.sqlite import is_empty
from runtime.database.location import locate
from runtime.database.migrate import DatabaseUnexpected, ExpectedDatabase, empty
from runtime.errors import UsageError

log = structlog.get_logger("symbiont.keys")

KEYS_FILE: Final = "keys.db"
"""The keys of users in the root: see `runtime.database.drivers.key_stores.keys_file`."""


async def open_database(
    root: Root, settings: ProcessSettings, *, changes: bool = True, replaces: bool = False
) -> Database:
    """Open the database of the root, which is created only for a root that never had one.

    `changes`: False does not upgrade it. `replaces`: it is created for a root that lost its own, or becomes
    that of the root. A foreign root is adopted if its database opens. Raises UsageError.
    """
    url, traces = settings.database or root.state / DATABASE_FILE, root.traces()
    known = root.read(PROGRAM_FILE).get("database_id")
    expected = ExpectedDatabase(
        id=known if isinstance(known, str) and not replaces else None,
        creates=replaces or not traces,
        replaces=replaces,
        migrates=changes,
    )
    try:
        with adopting(root, os.environ):
            return await _open(root, settings, url, expected)
    except DatabaseUnexpected as error:
        raise _lost_error(root, locate(url).label, error.what, traces) from None


def _lost_error(root: Root, label: str, what: str, traces: Sequence[str]) -> UsageError:
    """Return the error for a root whose database is not there, with what is left of it."""
    folder, before = shlex.quote(str(root.folder)), root.read(PROGRAM_FILE).get("database")
    had = f" ({before})" if isinstance(before, str) and before.isprintable() and before != label else ""
    if what == "another":
        message = f"{label} is another database than the one that {root.folder} had{had}"
        new = f"to use this one from now on: symbi database create --root {folder}"
    else:
        left = [*traces, *([KEYS_FILE] if (root.state / KEYS_FILE).exists() else [])]
        message = f"{label} is missing or empty, but {root.folder} had a database{had}: {', '.join(left)} are there"
        new = f"to go on without its data, with new webhook secrets: symbi database create --root {folder}"
    return UsageError(message, hint=f"put the database back; {new}")


async def _open(root: Root, settings: ProcessSettings, url: str | Path, expected: ExpectedDatabase) -> Database:
    """Open the database with the root's master key, or with the next one if a rotation was interrupted after all keys
    were wrapped with it. Raises UsageError."""
    path = locate(url).path
    if path is not None and not expected.creates and is_empty(path):
        # Before a missing master key is created or reported.
        raise empty(str(path))
    key = master_key.load(root, settings.master_key, os.environ, replaces=expected.replaces)
    pending = master_key.pending(root) if settings.master_key is None else None
    if pending is None:
        return await Database.open(url, key, expected)
    try:
        database = await Database.open(url, key, expected)
    except UsageError as error:
        try:
            database = await Database.open(url, pending, expected)
        except UsageError:
            raise error from None
        master_key.adopt(root)
    else:
        master_key.discard(root)
    return database


class MasterKeySource:
    """The source of the master key of an open database; it can be rotated.

    `reference`: None for the file of the root. `changed` is called after it changed, to record it.
    """

    def __init__(self, root: Root, database: Database, reference: str | None, changed: Callable[[], None]) -> None:
        self.reference = reference
        self._root = root
        self._database = database
        self._changed = changed
        self._replacing = asyncio.Lock()

    async def problem(self) -> str | None:
        """Return the reason why the next start will not have the master key, in one line; None if it will."""
        async with self._replacing:
            try:
                found = await asyncio.to_thread(master_key.load, self._root, self.reference, os.environ)
            except UsageError as error:
                return error.line()
            return None if found.key_id == self._database.keys.master.key_id else f"{self.place} holds another key"

    @property
    def place(self) -> str:
        """Return the place that it is read from, for messages."""
        return master_key.place(self._root, self.reference)

    async def rotate(self, to: str | None) -> None:
        """Wrap all keys with the master key at the reference `to`, or with a new one in the file of the root. Raises
        UsageError and `Unavailable`; then the master key is the one before."""
        keys = self._database.keys
        if to is None and self.reference is not None:
            raise UsageError(
                f"the master key is read from {self.reference}, which symbi does not write",
                hint="store a new key elsewhere, and name it with --to secret://…",
            )
        async with self._replacing:
            new = master_key.prepare(self._root) if to is None else master_key.load(self._root, to, os.environ)
            if new.key_id == keys.master.key_id:
                raise UsageError(f"{to} holds the present master key", hint="store a new key there, or elsewhere")
            count = await asyncio.to_thread(keys.rewrap, new, to or "")
            if to is None:
                master_key.adopt(self._root)
            else:
                master_key.discard(self._root, current=self.reference is None)
            self._settle(to)
        log.info("master_key_rotated", keys=count, master_key=new.key_id.hex())

    async def follow(self) -> None:
        """Use the master key to which another daemon rotated. Raises `MasterKeyReplaced` if this process cannot read
        it."""
        keys = self._database.keys
        stored, reference = keys.stored_master
        for each in dict.fromkeys((self.reference, reference or None)):
            # Of this process, if its own rotation was stored and the answer lost.
            found = master_key.pending(self._root) if each is None else self._load_if_possible(each)
            if found is not None and found.key_id.hex() == stored:
                await asyncio.to_thread(keys.use, found)
                if each is None:
                    master_key.adopt(self._root)
                self._settle(each)
                log.info("master_key_followed", master_key=stored)
                return
        keys.check_master()

    def _load_if_possible(self, reference: str) -> MasterKey | None:
        try:
            return master_key.load(self._root, reference, os.environ)
        except UsageError:
            return None

    def _settle(self, reference: str | None) -> None:
        """Record where the present master key is, with which the keys are wrapped now."""
        self.reference = reference
        self._changed()
