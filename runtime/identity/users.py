"""The table `users`. The one called `owner` is always there, without a row."""

from __future__ import annotations

import re
from typing import Any

from sqlalchemy import Connection, delete, func, select

from runtime.database import Database, bulk
from runtime.database.schema import OWNER, tokens, users
from runtime.errors import Conflict, UsageError

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?", re.ASCII)


def valid_name(name: str) -> str:
    """`name` itself. Raises UsageError when no user can be called so."""
    if _NAME.fullmatch(name) is None:
        raise UsageError(
            f"{name[:80]!r} cannot be a user's name",
            hint="1 to 64 lower-case letters, digits, `.`, `_` and `-`, the first and last a letter or digit",
        )
    return name


async def add(database: Database, name: str, now: int) -> None:
    """Make the user `name`. `now`: Unix milliseconds. Raises UsageError for the name, Conflict when it is taken."""
    valid_name(name)
    row = (name, now)
    # An existing user stays as it is; two daemons may be asked at the same moment.
    made = 0
    if name != OWNER:
        made = await database.transact(
            lambda connection: bulk.insert(connection, users, ("user_id", "created_at"), [row], ignore=True)
        )
    if not made:
        raise Conflict(f"there is a user {name} already")


async def names(database: Database) -> list[str]:
    """Every user's name, `owner` first."""
    async with database.read() as connection:
        found = await connection.scalars(select(users.c.user_id).order_by(users.c.user_id))
        return [OWNER, *found]


async def overview(database: Database, now: int) -> list[dict[str, Any]]:
    """Every user with `created_at` (Unix milliseconds; None for `owner`) and the number of tokens that are good."""
    good = (tokens.c.revoked_at.is_(None)) & (tokens.c.expires_at.is_(None) | (tokens.c.expires_at > now))
    async with database.read() as connection:
        counted = await connection.execute(
            select(tokens.c.user_id, func.count().label("count")).where(good).group_by(tokens.c.user_id)
        )
        counts = {row.user_id: row.count for row in counted}
        rows = (await connection.execute(select(users).order_by(users.c.user_id))).all()
    everybody = [(OWNER, None), *((row.user_id, row.created_at) for row in rows)]
    return [{"user": name, "created_at": made, "tokens": counts.get(name, 0)} for name, made in everybody]


def is_there(connection: Connection, name: str) -> bool:
    """Whether there is a user `name`; inside a transaction it stays until the end."""
    if name == OWNER:
        return True
    found = connection.execute(select(users.c.user_id).where(users.c.user_id == name).with_for_update(read=True))
    return found.first() is not None


def remove(connection: Connection, name: str) -> int | None:
    """Remove the user `name` and its tokens: how many of those there were, None when there is no such user."""
    if not connection.execute(delete(users).where(users.c.user_id == name)).rowcount:
        return None
    return connection.execute(delete(tokens).where(tokens.c.user_id == name)).rowcount
