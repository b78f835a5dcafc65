"""The table `users`: each has an id, on which everything hangs, and a name for people.

An id is random and given once, so that a new user of a removed one's name has nothing of theirs. Names are looked up
where people and programs write them (commands, parameters), and shown where people read them. `owner` is the id and the
name of the user who is always there, without a row.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from uuid import uuid4

from sqlalchemy import Connection, delete, func, select

from runtime.database import bulk
from runtime.database.connection import Database
from runtime.database.schema import OWNER, tokens, users
from runtime.errors import Conflict, UsageError
from runtime.suggestions import unknown_name

ID: Final = "id:"
"""What stands before an id where a name is asked for. No name holds a colon."""

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?", re.ASCII)


def valid_name(name: str) -> str:
    """`name` itself. Raises UsageError when no user can be called so."""
    if _NAME.fullmatch(name) is None:
        raise UsageError(
            f"{name[:80]!r} cannot be a user's name",
            hint="1 to 64 lower-case letters, digits, `.`, `_` and `-`, the first and last a letter or digit",
        )
    return name


async def add(database: Database, name: str, now: int) -> str:
    """Make the user `name`, and return its id. `now`: Unix milliseconds. Raises UsageError for the name, Conflict when
    it is taken."""
    valid_name(name)
    user_id, columns = str(uuid4()), ("user_id", "name", "created_at")
    # An existing user stays as it is; two daemons may be asked at the same moment.
    made = 0
    if name != OWNER:
        rows = [(user_id, name, now)]
        made = await database.transact(lambda connection: bulk.insert(connection, users, columns, rows, ignore=True))
    if not made:
        raise Conflict(f"there is a user {name} already")
    return user_id


async def names(database: Database) -> dict[str, str]:
    """Every user's name by id, `owner` first."""
    query = select(users.c.user_id, users.c.name).where(users.c.name.is_not(None)).order_by(users.c.name)
    async with database.read() as connection:
        return {OWNER: OWNER, **{row.user_id: row.name for row in await connection.execute(query)}}


async def find(database: Database, name: str) -> str:
    """The id of the user `name`; of `id:ID` it is ID, whoever has it or had it. Raises UsageError with the nearest
    names."""
    if name.startswith(ID):
        return name.removeprefix(ID)
    known = {each: user_id for user_id, each in (await names(database)).items()}
    if name not in known:
        raise unknown_name("user", name, known)
    return known[name]


def display_name(known: Mapping[str, str], user_id: str) -> str:
    """The user's name; for one that is none of the `known` ones, such as a removed one, what `find` takes for it."""
    return known.get(user_id, f"{ID}{user_id}")


async def overview(database: Database, now: int) -> list[dict[str, Any]]:
    """Every user with `id`, `created_at` (Unix milliseconds; None for `owner`) and the number of tokens that are
    good."""
    good = (tokens.c.revoked_at.is_(None)) & (tokens.c.expires_at.is_(None) | (tokens.c.expires_at > now))
    query = select(users).where(users.c.name.is_not(None)).order_by(users.c.name)
    async with database.read() as connection:
        counted = await connection.execute(
            select(tokens.c.user_id, func.count().label("count")).where(good).group_by(tokens.c.user_id)
        )
        counts = {row.user_id: row.count for row in counted}
        rows = (await connection.execute(query)).all()
    everybody = [(OWNER, OWNER, None), *((row.user_id, row.name, row.created_at) for row in rows)]
    return [
        {"id": user_id, "user": name, "created_at": made, "tokens": counts.get(user_id, 0)}
        for user_id, name, made in everybody
    ]


def exists(connection: Connection, user_id: str) -> bool:
    """Whether there is a user with this id; inside a transaction it stays until the end."""
    if user_id == OWNER:
        return True
    query = select(users.c.user_id).where(users.c.user_id == user_id, users.c.name.is_not(None))
    return connection.execute(query.with_for_update(read=True)).first() is not None


def remove(connection: Connection, user_id: str, now: int | None = None) -> int | None:
    """Remove the user and its tokens: how many of those there were, None when there is no such user.

    `now` (Unix milliseconds): when it is to be remembered that what is theirs has to be deleted (see `removed`).
    """
    chosen = (users.c.user_id == user_id, users.c.name.is_not(None))
    if now is None:
        gone = connection.execute(delete(users).where(*chosen)).rowcount
    else:
        gone = connection.execute(users.update().where(*chosen).values(name=None, removed_at=now)).rowcount
    if not gone:
        return None
    return connection.execute(delete(tokens).where(tokens.c.user_id == user_id)).rowcount


async def removed(database: Database) -> dict[str, int]:
    """The ids of removed users of whom something may still be there, and when they were removed (Unix milliseconds)."""
    query = select(users.c.user_id, users.c.removed_at).where(users.c.removed_at.is_not(None))
    async with database.read() as connection:
        return {row.user_id: row.removed_at for row in await connection.execute(query)}


async def forget_removed(database: Database, user_id: str) -> None:
    """Nothing of this removed user is left."""
    chosen = (users.c.user_id == user_id, users.c.removed_at.is_not(None))
    await database.transact(lambda connection: connection.execute(delete(users).where(*chosen)))
