"""The table `users`: each has an id, to which all data refers, and a name for people.

Ids are random and never reused, so a new user with the name of a removed one has no access to its data. People and
programs write names (commands, parameters), which are resolved there and shown in output. `owner` is the id and the
name of the user who always exists, without a row.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final
from uuid import uuid4

from sqlalchemy import Connection, bindparam, delete, func, select

from runtime.database import bulk
from runtime.database.connection import Database
from runtime.database.schema import OWNER, task_feeds, tokens, users
from runtime.errors import Conflict, NotFound, UsageError
from runtime.suggestions import unknown_name

ID: Final = "id:"
"""Prefix of an id where a name is expected. Names contain no colon."""

# Built once: building a statement takes longer than running it.
_EXISTING: Final = (
    select(users.c.user_id)
    .where(users.c.user_id == bindparam("user"), users.c.name.is_not(None))
    .with_for_update(read=True)
)
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?", re.ASCII)


def valid_name(name: str) -> str:
    """Return `name`. Raises UsageError if it is not a valid user name."""
    if _NAME.fullmatch(name) is None:
        raise UsageError(
            f"{name[:80]!r} is not a valid user name",
            hint="use 1 to 64 lower-case letters, digits, `.`, `_` and `-`; begin and end with a letter or digit",
        )
    return name


async def add(database: Database, name: str, now: int) -> str:
    """Add the user `name` and return its id. `now`: Unix milliseconds. Raises UsageError for the name, Conflict if it
    is taken."""
    valid_name(name)
    user_id, columns = str(uuid4()), ("user_id", "name", "created_at")
    # An existing user does not change; two daemons may get the same request at once.
    made = 0
    if name != OWNER:
        rows = [(user_id, name, now)]
        made = await database.transact(lambda connection: bulk.insert(connection, users, columns, rows, ignore=True))
    if not made:
        raise Conflict(f"the user {name} exists already")
    return user_id


async def names(database: Database) -> dict[str, str]:
    """Return every user's name by id, `owner` first."""
    query = select(users.c.user_id, users.c.name).where(users.c.name.is_not(None)).order_by(users.c.name)
    async with database.read() as connection:
        return {OWNER: OWNER, **{row.user_id: row.name for row in await connection.execute(query)}}


async def find(database: Database, name: str) -> str:
    """Return the id of the user `name`; for `id:ID` return ID, even if that user was removed. Raises UsageError with
    the nearest names."""
    if name.startswith(ID):
        return name.removeprefix(ID)
    known = {each: user_id for user_id, each in (await names(database)).items()}
    if name not in known:
        raise unknown_name("user", name, known)
    return known[name]


def display_name(known: Mapping[str, str], user_id: str) -> str:
    """Return the user's name, or `id:ID`, which `find` accepts, for a user that is not in `known`, such as a removed
    one."""
    return known.get(user_id, f"{ID}{user_id}")


async def overview(database: Database, now: int) -> list[dict[str, Any]]:
    """Return every user with `id`, `created_at` (Unix milliseconds; None for `owner`) and the number of valid
    tokens."""
    good = (tokens.c.revoked_at.is_(None)) & (tokens.c.expires_at.is_(None) | (tokens.c.expires_at > now))
    query = select(users).where(users.c.name.is_not(None)).order_by(users.c.name)
    async with database.read() as connection:
        counted = await connection.execute(
            select(tokens.c.user_id, func.count().label("count")).where(good).group_by(tokens.c.user_id)
        )
        counts = {row.user_id: row.count for row in counted}
        rows = (await connection.execute(query)).all()
    all_users = [(OWNER, OWNER, None), *((row.user_id, row.name, row.created_at) for row in rows)]
    return [
        {"id": user_id, "user": name, "created_at": made, "tokens": counts.get(user_id, 0)}
        for user_id, name, made in all_users
    ]


def removals(connection: Connection, user_ids: Collection[str]) -> dict[str, str | None]:
    """Return those of these ids that are of no user: None for one of whom nothing is kept, OWNER for one whose data was
    kept and is sealed with the owner's key."""
    rows = {row.user_id: row for row in connection.execute(select(users))}
    absent = {each: None for each in user_ids if each not in rows}
    removed = [rows[each] for each in user_ids if each in rows and rows[each].name is None]
    return absent | {row.user_id: OWNER if row.removed_at is None else None for row in removed}


def exists(connection: Connection, user_id: str) -> bool:
    """True if the user exists; it cannot be removed until the end of the transaction."""
    if user_id == OWNER:
        return True
    return connection.execute(_EXISTING, {"user": user_id}).first() is not None


def require(connection: Connection, user_id: str) -> None:
    """Raise NotFound unless the user exists, as `exists` does."""
    if not exists(connection, user_id):
        raise removed_error()


def removed_error() -> NotFound:
    """Return the error for a user who was removed."""
    return NotFound("there is no such user any more")


def remove(connection: Connection, user_id: str, now: int | None = None) -> int | None:
    """Remove the user with its tokens, and that of its calendar feed. Returns the number of tokens, None if there is no
    such user.

    `now` (Unix milliseconds): record that the user's data, which may have been kept until now, has to be deleted: see
    `unfinished_removals`. None: it is kept, under the id.
    """
    if now is None:
        change = users.update().where(users.c.name.is_not(None)).values(name=None)
    else:
        change = users.update().where(users.c.removed_at.is_(None)).values(name=None, removed_at=now)
    if not connection.execute(change.where(users.c.user_id == user_id)).rowcount:
        return None
    connection.execute(delete(task_feeds).where(task_feeds.c.user_id == user_id))
    return connection.execute(delete(tokens).where(tokens.c.user_id == user_id)).rowcount


async def unfinished_removals(database: Database) -> dict[str, int]:
    """Return the ids of removed users whose data may not be deleted completely, and when they were removed (Unix
    milliseconds)."""
    query = select(users.c.user_id, users.c.removed_at).where(users.c.removed_at.is_not(None))
    async with database.read() as connection:
        return {row.user_id: row.removed_at for row in await connection.execute(query)}


async def finish_removal(database: Database, user_id: str) -> None:
    """Record that all data of this removed user was deleted."""
    chosen = (users.c.user_id == user_id, users.c.removed_at.is_not(None))
    await database.transact(lambda connection: connection.execute(delete(users).where(*chosen)))
