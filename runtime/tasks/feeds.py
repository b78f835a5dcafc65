"""The calendar feeds of users: the token in the URL of each, which opens nothing else."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Row, delete, select, text, update

from runtime.clock import Clock, milliseconds
from runtime.database import bulk
from runtime.database.connection import Database
from runtime.database.errors import Unavailable
from runtime.database.schema import TASK_IS_OPEN, task_feeds, tasks
from runtime.database.sealed import Seal
from runtime.identity import users
from runtime.identity.tokens import is_token, make_token, token_hash
from runtime.tasks.calendar import Form, calendar_of
from runtime.tasks.rows import COLUMNS, TaskRows

PATH: Final = "/v1/tasks/feed"
USED_MS: Final = 600_000
"""Maximum delay of `used_at`: a feed that is read all the time is written once in ten minutes."""

_COLUMNS: Final = ("user_id", "hash", "token", "version", "created_at", "used_at")
MOST: Final = 500
"""Tasks in a feed."""
ENDED_DAYS: Final = 30
"""Days for which a task that is completed or cancelled is in a feed."""
_ID: Final = COLUMNS.index("id")
_VERSION: Final = COLUMNS.index("version")
_ROW: Final = ""
"""Name of a sealed row: the primary key without the user's id."""


class Feed(NamedTuple):
    """A user's feed. Times are Unix milliseconds."""

    token: str
    created_at: int
    used_at: int | None

    def __repr__(self) -> str:
        return f"Feed({self.created_at})"

    @property
    def path(self) -> str:
        """The path of its URL."""
        return f"{PATH}/{self.token}.ics"


class FeedUser(NamedTuple):
    """The user whose feed a token opens. `version`: grows with each new token of the user."""

    user_id: str
    version: int


class FeedContent(NamedTuple):
    """The tasks of a feed, still sealed."""

    user: FeedUser
    rows: Sequence[tuple[Any, ...]]

    def tag(self, form: Form) -> str:
        """Return the entity tag of the calendar (RFC 9110 section 8.8.3)."""
        versions = [(row[_ID], row[_VERSION]) for row in self.rows]
        return f'"{hashlib.sha256(repr((form, self.user, versions)).encode()).hexdigest()[:32]}"'


class TaskFeeds:
    """The feeds of one database. A token is stored as its hash, and sealed, so that its URL can be shown again."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._seal = Seal(database.keys, task_feeds.c.token)
        self._rows = TaskRows(database.keys)

    async def open(self, user_id: str) -> Feed:
        """Return the feed of a user; it is made if there is none. Raises NotFound for a user who was removed,
        `Unsealable` and `Unavailable`."""
        return await self._write(user_id, lambda connection, row: self._feed(row) or self._renew(connection, user_id))

    async def rotate(self, user_id: str) -> Feed:
        """Give the feed of a user a new token: the URL before is refused from now on. Raises as `open` does."""
        return await self._write(user_id, lambda connection, row: self._renew(connection, user_id, row))

    async def close(self, user_id: str) -> bool:
        """Delete the feed of a user; False if there was none. Raises `Unavailable`."""

        def remove(connection: Connection) -> bool:
            return bool(connection.execute(delete(task_feeds).where(task_feeds.c.user_id == user_id)).rowcount)

        return await self._database.transact(remove)

    async def user_of(self, token: str) -> FeedUser | None:
        """Return the user whose feed a token opens; None for a wrong one. Raises `Unavailable`.

        The database is queried each time, so that every daemon refuses an old token at once. The query is by hash, so
        its timing reveals nothing about the token.
        """
        if not is_token(token):
            return None
        chosen = task_feeds.c.hash == token_hash(token)
        query = select(task_feeds.c.user_id, task_feeds.c.version, task_feeds.c.used_at).where(chosen)
        async with self._database.read() as connection:
            row = (await connection.execute(query)).first()
        if row is None:
            return None
        now = milliseconds(self._clock)
        if now - (row.used_at or 0) >= USED_MS:
            used = update(task_feeds).where(chosen).values(used_at=now)
            with suppress(Unavailable):
                # A full disk does not keep a calendar from being read.
                await self._database.transact(lambda connection: connection.execute(used))
        return FeedUser(row.user_id, row.version)

    async def content(self, user: FeedUser) -> FeedContent:
        """Return the tasks of the feed of a user: open tasks, the next due first, then the newest without a due
        date, and those that ended in the last `ENDED_DAYS` days, the newest first; `MOST` in all. Raises
        `Unavailable`."""
        since = milliseconds(self._clock) - ENDED_DAYS * 86_400_000
        query = select(*(tasks.c[name] for name in COLUMNS)).where(tasks.c.user_id == user.user_id)
        still = query.where(text(TASK_IS_OPEN))
        dated = still.where(tasks.c.due_at.is_not(None)).order_by(tasks.c.due_at, tasks.c.id)
        undated = still.where(tasks.c.due_at.is_(None)).order_by(tasks.c.id.desc())
        has_ended = tasks.c.status.in_(("completed", "cancelled"))
        ended = query.where(has_ended, tasks.c.updated_at >= since).order_by(tasks.c.updated_at.desc(), tasks.c.id)
        rows: list[tuple[Any, ...]] = []
        async with self._database.read() as connection:
            for each in (dated, undated, ended):
                rows += [tuple(row) for row in await connection.execute(each.limit(MOST - len(rows)))]
        await self._database.learn_keys(user.user_id)
        return FeedContent(user, rows)

    def calendar(self, content: FeedContent, form: Form) -> bytes:
        """Return the calendar of a feed. It takes a while: to be called in a thread. Raises `Unsealable`."""
        return calendar_of(map(self._rows.task, content.rows), form)

    async def _write(self, user_id: str, change: Callable[[Connection, Row[tuple[object, ...]] | None], Feed]) -> Feed:
        await self._database.learn_keys(user_id)
        query = select(task_feeds).where(task_feeds.c.user_id == user_id).with_for_update()

        def write(connection: Connection) -> Feed:
            users.require(connection, user_id)
            return change(connection, connection.execute(query).first())

        return await self._database.transact(write)

    def _feed(self, row: Row[tuple[object, ...]] | None) -> Feed | None:
        if row is None:
            return None
        token = self._seal.open(row.token, row=_ROW, user_id=row.user_id, version=row.version)
        return Feed(token.decode(), row.created_at, row.used_at)

    def _renew(self, connection: Connection, user_id: str, row: Row[tuple[object, ...]] | None = None) -> Feed:
        token, now = make_token(), milliseconds(self._clock)
        version = 1 if row is None else row.version + 1
        sealed = self._seal.close(token.encode(), row=_ROW, user_id=user_id, version=version)
        connection.execute(delete(task_feeds).where(task_feeds.c.user_id == user_id))
        bulk.insert(connection, task_feeds, _COLUMNS, [(user_id, token_hash(token), sealed, version, now, None)])
        return Feed(token, now, None)
