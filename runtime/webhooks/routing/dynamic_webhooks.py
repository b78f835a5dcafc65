"""Webhooks created through the API: the rows of the table `webhooks`, each owned by a user.

Every change sets a new version in `meta`, last and in the same transaction. So any daemon on the database checks with
one small query if its routes are up to date. On PostgreSQL the other daemons are also notified.
"""

from __future__ import annotations

import secrets
from typing import Any, Final
from uuid import uuid4

from msgspec import Struct
from sqlalchemy import Connection, case, delete, func, select, tuple_

from runtime.clock import Clock, milliseconds
from runtime.crypto import Unsealable
from runtime.database import bulk
from runtime.database.connection import Database
from runtime.database.meta import advance
from runtime.database.notifications import WEBHOOKS, notify
from runtime.database.schema import webhooks
from runtime.database.sealed import Seal
from runtime.errors import Conflict
from runtime.identity import users

PER_USER: Final = 100
"""Maximum number of webhooks of one user."""

PROVIDER: Final = "swarmlet"
UNVERIFIED: Final = b"unverified"
"""Encrypted in place of a secret if unverified requests are accepted; no secret begins with it.

A webhook never changes between the two, so its row never held both, and no old ciphertext turns a verified webhook into
an unverified one. An old secret cannot be distinguished from a database restored as a whole, so this is not checked.
"""
VERSION: Final = "webhooks_version"
"""The row of `meta` with the version of the table: a text that is never used twice."""

_PUBLIC = ("id", "user_id", "title", "agent", "is_active", "created_at", "updated_at", "previous_until")
_SECRET = ("secret", "secret_version")
_COLUMNS = ("id", "user_id", "title", "agent", "secret", "secret_shown", "is_active", "created_at", "updated_at")


class DynamicWebhook(Struct, frozen=True, kw_only=True):
    """A webhook without its secrets. Times are Unix milliseconds."""

    id: str
    """UUID version 4: one cannot be guessed from another."""
    user_id: str
    title: str
    agent: str | None
    """None: its deliveries are only stored."""
    verified: bool
    """False: unverified requests are accepted."""
    is_active: bool
    created_at: int
    updated_at: int
    previous_until: int | None
    """Until when the previous secret is valid too."""


class DynamicWebhooks:
    """The webhooks of one database. Each method takes the id of the user who owns the webhook; webhooks of other users
    are not found. None: webhooks of all users."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._secret = Seal(database.keys, webhooks.c.secret)
        self._previous = Seal(database.keys, webhooks.c.previous_secret)

    async def create(
        self, user_id: str, title: str, agent: str | None, *, verified: bool, shown: bool = True
    ) -> tuple[DynamicWebhook, str | None]:
        """Create a webhook; return it and its secret, which is stored only encrypted (None if unverified requests are
        accepted). `shown`: a person gets the secret now; otherwise `show_secret` returns it once.

        Raises Conflict if the user already has 100, NotFound if the user does not exist.
        """
        webhook_id, now = str(uuid4()), milliseconds(self._clock)
        secret = make_secret() if verified else None
        plain = UNVERIFIED if secret is None else secret.encode()
        sealed = self._secret.close(plain, row=webhook_id, user_id=user_id, version=0)
        row = (webhook_id, user_id, title, agent or "", sealed, shown, True, now, now)

        def insert(connection: Connection) -> DynamicWebhook:
            users.require(connection, user_id)
            # Before the count: concurrent transactions wait here, so the count stays correct.
            _advance_version(connection)
            mine = select(func.count()).select_from(webhooks).where(webhooks.c.user_id == user_id)
            if connection.execute(mine).scalar_one() >= PER_USER:
                raise Conflict(f"a user may have {PER_USER} webhooks", hint="delete one that is no longer needed")
            bulk.insert(connection, webhooks, _COLUMNS, [row])
            return self._webhook_by_id(connection, webhook_id)

        return await self._database.transact(insert), secret

    async def page(self, user_id: str | None, limit: int, after: tuple[int, str] | None = None) -> list[DynamicWebhook]:
        """Return up to `limit` webhooks of the user, oldest first, after `after`: the (created_at, id) of one."""
        query = select(*_columns()).where(*_owned_by(user_id))
        if after is not None:
            query = query.where(tuple_(webhooks.c.created_at, webhooks.c.id) > after)
        async with self._database.read() as connection:
            rows = await connection.execute(query.order_by(webhooks.c.created_at, webhooks.c.id).limit(limit))
            return [self._webhook(row) for row in rows]

    async def get(self, user_id: str | None, webhook_id: str) -> DynamicWebhook | None:
        """Return the user's webhook, or None."""
        async with self._database.read() as connection:
            row = (await connection.execute(_query(webhook_id).where(*_owned_by(user_id)))).first()
        return None if row is None else self._webhook(row)

    async def change(
        self, user_id: str | None, webhook_id: str, *, title: str | None = None, is_active: bool | None = None
    ) -> DynamicWebhook | None:
        """Set the given values; return the changed webhook, or None if there is none."""
        given = {"title": title, "is_active": is_active}
        values, now = {k: v for k, v in given.items() if v is not None}, milliseconds(self._clock)

        def update(connection: Connection) -> DynamicWebhook | None:
            chosen = webhooks.update().where(webhooks.c.id == webhook_id, *_owned_by(user_id))
            if not connection.execute(chosen.values(**values, updated_at=_update_time(now))).rowcount:
                return None
            _advance_version(connection)
            return self._webhook_by_id(connection, webhook_id)

        return await self._database.transact(update)

    async def delete(self, user_id: str | None, webhook_id: str) -> bool:
        """Delete the webhook; its accepted deliveries still run. False if there is none."""

        def remove(connection: Connection) -> bool:
            chosen = delete(webhooks).where(webhooks.c.id == webhook_id, *_owned_by(user_id))
            gone = connection.execute(chosen).rowcount > 0
            if gone:
                _advance_version(connection)
            return gone

        return await self._database.transact(remove)

    async def show_secret(self, user_id: str | None, webhook_id: str) -> str | None:
        """Return the newest secret, if nobody has seen it; afterwards it has been seen. None if there is no such
        webhook. Raises Conflict for one that was seen, and if there is none; `Unsealable`."""

        def show(connection: Connection) -> str | None:
            chosen = webhooks.c.id == webhook_id
            query = select(*webhooks.c["id", "user_id", "secret_shown", *_SECRET]).where(chosen, *_owned_by(user_id))
            row = connection.execute(query.with_for_update()).first()
            if row is None:
                return None
            secret = self._open_secret(row)
            if secret == UNVERIFIED:
                raise _no_secret()
            if row.secret_shown:
                raise Conflict(
                    "the secret of this webhook was shown before",
                    hint=f"`symbi webhook rotate {webhook_id}` makes another one and shows it",
                )
            connection.execute(webhooks.update().where(chosen).values(secret_shown=True))
            return secret.decode()

        return await self._database.transact(show)

    async def rotate(
        self, user_id: str | None, webhook_id: str, overlap_ms: int, *, shown: bool = True
    ) -> tuple[DynamicWebhook, str] | None:
        """Set a new secret; the previous one stays valid for `overlap_ms` milliseconds, an older one does not. `shown`:
        as of `create`.

        Returns None if there is no such webhook. Raises Conflict if it has no secret.
        """
        now, secret = milliseconds(self._clock), make_secret()

        def rotate(connection: Connection) -> DynamicWebhook | None:
            chosen = webhooks.c.id == webhook_id
            query = select(webhooks.c.id, webhooks.c.user_id, *webhooks.c[*_SECRET]).where(chosen, *_owned_by(user_id))
            row = connection.execute(query.with_for_update()).first()
            if row is None:
                return None
            old, version = self._open_secret(row), row.secret_version + 1
            if old == UNVERIFIED:
                raise _no_secret()
            where: dict[str, Any] = {"row": webhook_id, "user_id": row.user_id, "version": version}
            kept = self._previous.close(old, **where) if overlap_ms else None
            connection.execute(
                webhooks.update()
                .where(chosen)
                .values(
                    secret=self._secret.close(secret.encode(), **where),
                    secret_shown=shown,
                    previous_secret=kept,
                    secret_version=version,
                    previous_until=now + overlap_ms if kept else None,
                    updated_at=_update_time(now),
                )
            )
            _advance_version(connection)
            return self._webhook_by_id(connection, webhook_id)

        rotated = await self._database.transact(rotate)
        return None if rotated is None else (rotated, secret)

    def secrets_of(self, row: Any) -> list[bytes]:
        """Return the secrets of a row with all columns, newest first; none if it accepts unverified requests. Raises
        `Unsealable`."""
        newest = self._open_secret(row)
        if newest == UNVERIFIED:
            return []
        if row.previous_secret is None:
            return [newest]
        where = {"row": row.id, "user_id": row.user_id, "version": row.secret_version}
        return [newest, self._previous.open(row.previous_secret, **where)]

    def _open_secret(self, row: Any) -> bytes:
        """Return the secret, or UNVERIFIED. Raises `Unsealable`, also if the column is empty: write access to the
        database must not be enough to make a webhook accept unsigned requests."""
        if row.secret is None:
            raise Unsealable("its secret is missing", hint="delete the webhook and create another one")
        return self._secret.open(row.secret, row=row.id, user_id=row.user_id, version=row.secret_version)

    def _webhook_by_id(self, connection: Connection, webhook_id: str) -> DynamicWebhook:
        return self._webhook(connection.execute(_query(webhook_id)).one())

    def _webhook(self, row: Any) -> DynamicWebhook:
        fields = {name: getattr(row, name) for name in _PUBLIC}
        try:
            verified = self._open_secret(row) != UNVERIFIED
        except Unsealable:
            verified = True  # It accepts no request.
        return DynamicWebhook(
            **{**fields, "agent": row.agent or None, "verified": verified, "is_active": bool(row.is_active)}
        )


def _no_secret() -> Conflict:
    return Conflict("this webhook accepts unverified requests and has no secret", hint="create another one")


def make_secret() -> str:
    """Return `whsec_` and 32 random bytes in base64url; the whole text is the key."""
    return f"whsec_{secrets.token_urlsafe(32)}"


def delete_all(connection: Connection, user_id: str) -> int:
    """Delete every webhook of a user who is removed; return how many."""
    gone = connection.execute(delete(webhooks).where(webhooks.c.user_id == user_id)).rowcount
    if gone:
        _advance_version(connection)
    return gone


def _advance_version(connection: Connection) -> None:
    advance(connection, VERSION)
    notify(connection, WEBHOOKS)


def _update_time(now: int) -> Any:
    """Return `updated_at` of a change: always later than the previous one, even if the clock was set back."""
    return case((webhooks.c.updated_at >= now, webhooks.c.updated_at + 1), else_=now)


def _columns() -> list[Any]:
    return [webhooks.c[name] for name in (*_PUBLIC, *_SECRET)]


def _owned_by(user_id: str | None) -> list[Any]:
    return [] if user_id is None else [webhooks.c.user_id == user_id]


def _query(webhook_id: str) -> Any:
    return select(*_columns()).where(webhooks.c.id == webhook_id)
