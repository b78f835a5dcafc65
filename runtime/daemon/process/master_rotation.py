"""Rotation of the master key: all keys of users are wrapped with another one, at once, while the daemon runs.

The new key is on disk before anything is wrapped with it. The store of keys says which of the two is right, so the next
start completes what was interrupted, or takes it back.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

import structlog

from runtime.clock import Clock
from runtime.crypto import MasterKey
from runtime.daemon.process import master_key
from runtime.daemon.process.root import DATABASE_FILE, Root
from runtime.daemon.process.settings import ProcessSettings
from runtime.database import meta
from runtime.database.connection import Database
from runtime.database.resealing import Progress, Resealing
from runtime.errors import Conflict, UsageError

log = structlog.get_logger("symbiont.keys")


async def open_database(root: Root, settings: ProcessSettings) -> Database:
    """Open the database with the root's master key, or with the next one if a rotation was interrupted after all keys
    were wrapped with it. Raises UsageError."""
    key, url = master_key.load(root, settings.master_key, os.environ), settings.database or root.state / DATABASE_FILE
    pending = master_key.pending(root) if settings.master_key is None else None
    if pending is None:
        return await Database.open(url, key)
    try:
        database = await Database.open(url, key)
    except UsageError as error:
        try:
            database = await Database.open(url, pending)
        except UsageError:
            raise error from None
        master_key.adopt(root)
    else:
        master_key.discard(root)
    return database


class MasterKeySource:
    """Where the master key of an open database is read from; it can be rotated.

    `reference`: None for the file of the root. `changed` is called after it changed, to record it. `resealing`: seals
    again what it sealed itself in earlier versions.
    """

    def __init__(
        self,
        root: Root,
        database: Database,
        clock: Clock,
        reference: str | None,
        changed: Callable[[], None],
    ) -> None:
        self.reference = reference
        self.resealing = Resealing(database, clock)
        self._root = root
        self._database = database
        self._changed = changed

    @property
    def place(self) -> str:
        """Return where it is read from, for messages."""
        return master_key.place(self._root, self.reference)

    async def rotate(self, to: str | None, progress: Progress) -> None:
        """Wrap all keys with the master key at the reference `to`, or with a new one in the file of the root. Raises
        UsageError, Conflict, and `Unavailable`; then the master key is the one before."""
        keys = self._database.keys
        if to is None and self.reference is not None:
            raise UsageError(
                f"the master key is read from {self.reference}, which symbi does not write",
                hint="store a new key elsewhere, and name it with --to secret://…",
            )
        if keys.first_format:
            # Values of the first format are sealed with the master key itself.
            await self.resealing.complete(progress)
            if keys.first_format:
                raise Conflict("some values could not be sealed again yet", hint="try again in a minute")
        new = master_key.prepare(self._root) if to is None else master_key.load(self._root, to, os.environ)
        if new.key_id == keys.master.key_id:
            raise UsageError(f"{to} holds the present master key", hint="store a new key there, or elsewhere")
        count = await asyncio.to_thread(keys.rewrap, new, to or "")
        if to is None:
            master_key.adopt(self._root)
        else:
            master_key.discard(self._root, current=self.reference is None)
        await self._settle(to)
        log.info("master_key_rotated", keys=count, master_key=new.key_id.hex())

    async def follow(self) -> None:
        """Use the master key to which another daemon rotated. Raises `MasterKeyReplaced` if this process cannot read
        it."""
        keys = self._database.keys
        stored, reference = keys.master_stored
        for each in dict.fromkeys((self.reference, reference or None)):
            # Of this process, if its own rotation was stored and the answer lost.
            found = master_key.pending(self._root) if each is None else self._read(each)
            if found is not None and found.key_id.hex() == stored:
                await asyncio.to_thread(keys.use, found)
                if each is None:
                    master_key.adopt(self._root)
                await self._settle(each)
                log.info("master_key_followed", master_key=stored)
                return
        keys.check_master()

    def _read(self, reference: str) -> MasterKey | None:
        try:
            return master_key.load(self._root, reference, os.environ)
        except UsageError:
            return None

    async def _settle(self, reference: str | None) -> None:
        """Record the present master key, with which the keys are wrapped now."""
        own = self._database.keys.master.key_id.hex()
        self.reference = reference
        self._changed()
        await self._database.transact(lambda connection: meta.put(connection, meta.MASTER_KEY_ID, own))
