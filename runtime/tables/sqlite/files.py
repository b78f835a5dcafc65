"""The file of each user's tables, and its key, in the user's row of `user_storage`.

The name in the row is what makes a file the user's: a copy with a new key is complete before its name is stored.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, select

from runtime.crypto import PREFIX_BYTES, KeyForgotten, Unsealable
from runtime.database import bulk
from runtime.database.connection import Database
from runtime.database.schema import user_storage
from runtime.database.sealed import Seal
from runtime.tables.sqlite.messages import Size
from runtime.tables.storage import UserStorage

KEY_BYTES: Final = 32
_COLUMNS: Final = ("name", "secret", "secret_version")
_SIZE: Final = ("table_count", "table_bytes")
_YIELDING: Final = 100
"""Rows that are opened before other tasks run."""


class TableFile(NamedTuple):
    """The file of a user. `maker`: which key of the user was in use when this one was made. `size`: what is in it, as
    far as the row says."""

    name: str
    key: bytes
    maker: bytes
    size: Size = Size(0, 0)

    def __repr__(self) -> str:
        return f"TableFile({self.name})"


class TableFiles:
    """The files of all users. Every method raises `Unavailable`."""

    def __init__(self, database: Database, storage: UserStorage) -> None:
        self._database = database
        self._storage = storage
        self._seal = Seal(database.keys, user_storage.c.secret)

    async def find(self, user_id: str) -> TableFile | None:
        """Return the file of a user; None if there is none. Raises `Unsealable` if its key cannot be read."""
        query = select(*(user_storage.c[name] for name in (*_COLUMNS, *_SIZE)))
        async with self._database.read() as connection:
            row = (await connection.execute(query.where(user_storage.c.user_id == user_id))).first()
        return None if row is None or row.name is None else self._table_file(user_id, row)

    async def add(self, user_id: str) -> TableFile:
        """Return the file of a user, whose row has a name and a key for it now. Raises NotFound for a user who was
        removed."""

        def add(connection: Connection) -> TableFile:
            self._storage.ensure(connection, user_id)
            row = _row(connection, user_id)
            if row.name is not None:
                return self._table_file(user_id, row)
            return self._store(connection, user_id, self.new(user_id), row.secret_version)

        return await self._database.transact(add)

    def new(self, user_id: str) -> TableFile:
        """Return a name and a key that no file has yet."""
        maker = self._database.keys.ensure(user_id).prefix
        return TableFile(secrets.token_hex(16), os.urandom(KEY_BYTES), maker)

    async def replace(self, user_id: str, old: TableFile, new: TableFile) -> bool:
        """Make `new` the file of a user instead of `old`; False if `old` is not any more."""

        def replace(connection: Connection) -> bool:
            row = _row(connection, user_id)
            if row is None or row.name != old.name:
                return False
            self._store(connection, user_id, new, row.secret_version)
            return True

        return await self._database.transact(replace)

    async def name(self, user_id: str) -> str | None:
        """Return the name of the file of a user; None if there is none. It needs no key."""
        query = select(user_storage.c.name).where(user_storage.c.user_id == user_id)
        async with self._database.read() as connection:
            return await connection.scalar(query)

    async def forget(self, user_id: str) -> None:
        """Forget the file of a user."""

        def forget(connection: Connection) -> None:
            row = _row(connection, user_id)
            if row is not None:
                columns = (*_COLUMNS, *_SIZE)
                values = (user_id, None, None, row.secret_version + 1, 0, 0)
                bulk.update(connection, user_storage, ("user_id",), columns, [values])

        await self._database.transact(forget)

    async def names(self, *, filled: bool = False) -> set[str]:
        """Return the names of all files; `filled`: of those with tables."""
        query = select(user_storage.c.name).where(user_storage.c.name.is_not(None))
        async with self._database.read() as connection:
            return set(await connection.scalars(query.where(user_storage.c.table_count > 0) if filled else query))

    async def of_earlier_keys(self) -> list[str]:
        """Return the users whose file has a key that was made before their own key was rotated."""
        query = select(user_storage.c.user_id, *(user_storage.c[name] for name in (*_COLUMNS, *_SIZE)))
        async with self._database.read() as connection:
            rows = (await connection.execute(query.where(user_storage.c.name.is_not(None)))).all()
        found = []
        for number, row in enumerate(rows):
            if self._is_of_earlier_key(row):
                found.append(row.user_id)
            if number % _YIELDING == 0:
                await asyncio.sleep(0)
        return found

    def _is_of_earlier_key(self, row: Any) -> bool:
        try:
            return self._table_file(row.user_id, row).maker != self._database.keys.ensure(row.user_id).prefix
        except (Unsealable, KeyForgotten):
            # Nobody can open this file.
            return False

    def _table_file(self, user_id: str, row: Any) -> TableFile:
        content = self._seal.open(bytes(row.secret), row="", user_id=user_id, version=row.secret_version)
        key, maker = content[:KEY_BYTES], content[KEY_BYTES : KEY_BYTES + PREFIX_BYTES]
        return TableFile(row.name, key, maker, Size(row.table_count, row.table_bytes))

    def _store(self, connection: Connection, user_id: str, file: TableFile, version: int) -> TableFile:
        sealed = self._seal.close(file.key + file.maker, row="", user_id=user_id, version=version + 1)
        bulk.update(connection, user_storage, ("user_id",), _COLUMNS, [(user_id, file.name, sealed, version + 1)])
        return file


def _row(connection: Connection, user_id: str) -> Any:
    query = select(*(user_storage.c[name] for name in (*_COLUMNS, *_SIZE)))
    return connection.execute(query.where(user_storage.c.user_id == user_id)).first()
