"""The name and the password of each user's role, in the row of the user in `user_storage`."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from sqlalchemy import Connection, func, select, update

from runtime.crypto import Unsealable
from runtime.database.connection import Database
from runtime.database.schema import user_storage
from runtime.database.sealed import Seal
from runtime.identity import users
from runtime.tables.errors import TablesUnavailable
from runtime.tables.storage import UserStorage

_POOL_LOCK: Final = 0x73796D6201
"""Advisory lock of who takes a role from the pool."""


class Login(NamedTuple):
    """Name and password of a user's role. `name`: of the role, and of its schema."""

    name: str
    password: str

    def __repr__(self) -> str:
        return f"Login({self.name})"


class Logins:
    """Reads and writes the logins of all users. Its methods raise `Unavailable`."""

    def __init__(self, database: Database, storage: UserStorage) -> None:
        self._database = database
        self._storage = storage
        self._seal = Seal(database.keys, user_storage.c.secret)

    async def find(self, user_id: str) -> Login | None:
        """Return the login of a user; None if the user has no tables yet."""
        await self._database.learn_keys(user_id)
        async with self._database.read() as connection:
            return await connection.run_sync(self._stored_login, user_id)

    async def claim(self, user_id: str, new_name: Callable[[], str], pool: Sequence[str] | None) -> Login:
        """Return the login of a user; a new one if there is none, or if its password cannot be read.

        `pool`: names of prepared roles, of which one that nobody has is taken; None: roles can be created. Raises
        NotFound for a user who was removed.
        """
        await self._database.learn_keys(user_id)

        def take(connection: Connection) -> Login:
            self._storage.ensure(connection, user_id)
            users.require(connection, user_id)
            known = self._stored_login(connection, user_id)
            if known is not None:
                return known
            row = connection.execute(
                select(user_storage.c.name, user_storage.c.secret_version).where(user_storage.c.user_id == user_id)
            ).one()
            name = row.name or (new_name() if pool is None else _free_role(connection, pool))
            login, version = Login(name, secrets.token_urlsafe(32)), row.secret_version + 1
            sealed = self._seal.close(login.password.encode(), row="", user_id=user_id, version=version)
            connection.execute(
                update(user_storage)
                .where(user_storage.c.user_id == user_id)
                .values(name=name, secret=sealed, secret_version=version)
            )
            return login

        return await self._database.transact(take)

    async def has_login(self, user_id: str, name: str) -> bool:
        """Return whether the user exists, and has the login of this name."""

        def read(connection: Connection) -> bool:
            row = connection.execute(select(user_storage.c.name).where(user_storage.c.user_id == user_id)).first()
            return row is not None and row.name == name and users.exists(connection, user_id)

        return await self._database.transact(read)

    async def forget(self, user_id: str, name: str) -> None:
        """Delete the login of a user, whose tables are gone."""

        def clear(connection: Connection) -> None:
            connection.execute(
                update(user_storage)
                .where(user_storage.c.user_id == user_id, user_storage.c.name == name)
                .values(name=None, secret=None, table_count=0, table_bytes=0)
            )

        await self._database.transact(clear)

    def _stored_login(self, connection: Connection, user_id: str) -> Login | None:
        columns = (user_storage.c.name, user_storage.c.secret, user_storage.c.secret_version)
        row = connection.execute(select(*columns).where(user_storage.c.user_id == user_id)).first()
        if row is None or row.name is None or row.secret is None:
            return None
        try:
            opened = self._seal.open(row.secret, row="", user_id=user_id, version=row.secret_version)
        except Unsealable:
            return None
        return Login(row.name, opened.decode())


def _free_role(connection: Connection, pool: Sequence[str]) -> str:
    connection.execute(select(func.pg_advisory_xact_lock(_POOL_LOCK)))
    taken = set(connection.execute(select(user_storage.c.name).where(user_storage.c.name.is_not(None))).scalars())
    free = [name for name in pool if name not in taken]
    if not free:
        raise TablesUnavailable(
            "all prepared roles of PostgreSQL are in use",
            hint="prepare more with the SQL that `symbi database grant-sql` prints",
        )
    return free[0]
