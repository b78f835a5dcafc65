"""Webhooks made at run time: the rows of the table `webhooks`, each its user's own.

Every change renews the version that stands in `meta`, last and in the same transaction: whoever knows the version knows
whether its routes are those of the table, with one small query, whichever daemon on the database made the change. On
PostgreSQL the others are woken too.
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
from runtime.errors import Conflict, NotFound
from runtime.identity import users

PER_USER: Final = 100
"""Webhooks that one user may have."""

PROVIDER: Final = "swarmlet"
UNVERIFIED: Final = b"unverified"
"""What is sealed in place of a secret where unverified requests are accepted; no secret begins so.

A webhook is one or the other for as long as it is there, so its row never held both: no old ciphertext opens one that
is verified. What an old secret opens cannot be told from a database that was restored whole, so nothing here tries to.
"""
VERSION: Final = "webhooks_version"
"""The row of `meta` with the version of the table: text that no other version has."""

_PUBLIC = ("id", "user_id", "title", "agent", "is_active", "created_at", "updated_at", "previous_until")
_COLUMNS = ("id", "user_id", "title", "agent", "secret", "is_active", "created_at", "updated_at")


class DynamicWebhook(Struct, frozen=True, kw_only=True):
    """A webhook without its secrets. Times are Unix milliseconds."""

    id: str
    """UUID version 4: nobody guesses one from another."""
    user_id: str
    title: str
    agent: str | None
    """None: its deliveries are only kept."""
    verified: bool
    """False: unverified requests are accepted."""
    is_active: bool
    created_at: int
    updated_at: int
    previous_until: int | None
    """Until when the secret before this one is good too."""


class DynamicWebhooks:
    """The table of one database. Each method takes whose webhooks are meant, by the user's id: another's are not there.
    None: everybody's."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._secret = Seal(database.master_key, webhooks.c.secret)
        self._previous = Seal(database.master_key, webhooks.c.previous_secret)

    async def create(
        self, user_id: str, title: str, agent: str | None, *, verified: bool
    ) -> tuple[DynamicWebhook, str | None]:
        """A new webhook and its secret, which is nowhere else in clear; None when unverified requests are accepted.

        Raises Conflict when the user has 100 already, NotFound when there is no such user any more.
        """
        webhook_id, now = str(uuid4()), milliseconds(self._clock)
        secret = make_secret() if verified else None
        plain = UNVERIFIED if secret is None else secret.encode()
        sealed = self._secret.close(plain, row=webhook_id, user_id=user_id)
        row = (webhook_id, user_id, title, agent or "", sealed, True, now, now)

        def insert(connection: Connection) -> DynamicWebhook:
            if not users.exists(connection, user_id):
                raise NotFound(f"there is no user {user_id}")
            # Before the count: whoever else makes one waits here, so that the count holds.
            _renew(connection)
            mine = select(func.count()).select_from(webhooks).where(webhooks.c.user_id == user_id)
            if connection.execute(mine).scalar_one() >= PER_USER:
                raise Conflict(f"a user may have {PER_USER} webhooks", hint="delete one that is not needed any more")
            bulk.insert(connection, webhooks, _COLUMNS, [row])
            return self._required(connection, webhook_id)

        return await self._database.transact(insert), secret

    async def page(self, user_id: str | None, limit: int, after: tuple[int, str] | None = None) -> list[DynamicWebhook]:
        """Up to `limit` of the user's webhooks, oldest first, from behind `after`: (created_at, id) of one."""
        query = select(*_shown()).where(*_owned(user_id))
        if after is not None:
            query = query.where(tuple_(webhooks.c.created_at, webhooks.c.id) > after)
        async with self._database.read() as connection:
            rows = await connection.execute(query.order_by(webhooks.c.created_at, webhooks.c.id).limit(limit))
            return [self._webhook(row) for row in rows]

    async def get(self, user_id: str | None, webhook_id: str) -> DynamicWebhook | None:
        """The user's webhook, or None."""
        async with self._database.read() as connection:
            row = (await connection.execute(_query(webhook_id).where(*_owned(user_id)))).first()
        return None if row is None else self._webhook(row)

    async def change(
        self, user_id: str | None, webhook_id: str, *, title: str | None = None, is_active: bool | None = None
    ) -> DynamicWebhook | None:
        """Set what is given; the webhook as it is then, or None."""
        given = {"title": title, "is_active": is_active}
        return await self._update(user_id, webhook_id, {k: v for k, v in given.items() if v is not None})

    async def delete(self, user_id: str | None, webhook_id: str) -> bool:
        """Delete it; what it accepted is run all the same. False when there is none."""

        def remove(connection: Connection) -> bool:
            chosen = delete(webhooks).where(webhooks.c.id == webhook_id, *_owned(user_id))
            gone = connection.execute(chosen).rowcount > 0
            if gone:
                _renew(connection)
            return gone

        return await self._database.transact(remove)

    async def rotate(self, user_id: str | None, webhook_id: str, overlap_ms: int) -> tuple[DynamicWebhook, str] | None:
        """Give it a new secret; the one before is good for `overlap_ms` milliseconds more, and an older one no longer.

        None when there is no such webhook. Raises Conflict when it has no secret.
        """
        now, secret = milliseconds(self._clock), make_secret()

        def rotate(connection: Connection) -> DynamicWebhook | None:
            chosen = webhooks.c.id == webhook_id
            query = select(webhooks.c.user_id, webhooks.c.secret).where(chosen, *_owned(user_id))
            row = connection.execute(query.with_for_update()).first()
            if row is None:
                return None
            old = self._opened(row.secret, webhook_id, row.user_id)
            if old == UNVERIFIED:
                raise Conflict("this webhook accepts unverified requests and has no secret", hint="make another one")
            kept = self._previous.close(old, row=webhook_id, user_id=row.user_id) if overlap_ms else None
            connection.execute(
                webhooks.update()
                .where(chosen)
                .values(
                    secret=self._secret.close(secret.encode(), row=webhook_id, user_id=row.user_id),
                    previous_secret=kept,
                    previous_until=now + overlap_ms if kept else None,
                    updated_at=_later(now),
                )
            )
            _renew(connection)
            return self._required(connection, webhook_id)

        rotated = await self._database.transact(rotate)
        return None if rotated is None else (rotated, secret)

    def secrets_of(self, row: Any) -> list[bytes]:
        """The secrets in a whole `row`, the newest first; none when it accepts unverified requests. Raises
        `Unsealable`."""
        newest = self._opened(row.secret, row.id, row.user_id)
        if newest == UNVERIFIED:
            return []
        if row.previous_secret is None:
            return [newest]
        return [newest, self._previous.open(row.previous_secret, row=row.id, user_id=row.user_id)]

    async def _update(self, user_id: str | None, webhook_id: str, values: dict[str, Any]) -> DynamicWebhook | None:
        now = milliseconds(self._clock)

        def update(connection: Connection) -> DynamicWebhook | None:
            chosen = webhooks.update().where(webhooks.c.id == webhook_id, *_owned(user_id))
            if not connection.execute(chosen.values(**values, updated_at=_later(now))).rowcount:
                return None
            _renew(connection)
            return self._required(connection, webhook_id)

        return await self._database.transact(update)

    def _opened(self, sealed: bytes | None, webhook_id: str, user_id: str) -> bytes:
        """The secret, or UNVERIFIED. Raises `Unsealable`, also where there is nothing: whoever can write to the
        database must not make a webhook accept what nobody signed."""
        if sealed is None:
            raise Unsealable(
                "its secret is missing", hint="delete it and make another one; only sealed data say that it needs none"
            )
        return self._secret.open(sealed, row=webhook_id, user_id=user_id)

    def _required(self, connection: Connection, webhook_id: str) -> DynamicWebhook:
        return self._webhook(connection.execute(_query(webhook_id)).one())

    def _webhook(self, row: Any) -> DynamicWebhook:
        fields = row._asdict()
        try:
            verified = self._opened(fields.pop("secret"), row.id, row.user_id) != UNVERIFIED
        except Unsealable:
            verified = True  # It accepts nothing.
        return DynamicWebhook(
            **{**fields, "agent": row.agent or None, "verified": verified, "is_active": bool(row.is_active)}
        )


def make_secret() -> str:
    """`whsec_` and 32 random bytes in base64url: the whole text is the key."""
    return f"whsec_{secrets.token_urlsafe(32)}"


def delete_all(connection: Connection, user_id: str) -> int:
    """Delete every webhook of a user who goes; how many there were."""
    gone = connection.execute(delete(webhooks).where(webhooks.c.user_id == user_id)).rowcount
    if gone:
        _renew(connection)
    return gone


def _renew(connection: Connection) -> None:
    advance(connection, VERSION)
    notify(connection, WEBHOOKS)


def _later(now: int) -> Any:
    """`updated_at` of a change: never the one before it, even when the clock stands still or was set back."""
    return case((webhooks.c.updated_at >= now, webhooks.c.updated_at + 1), else_=now)


def _shown() -> list[Any]:
    return [*(webhooks.c[name] for name in _PUBLIC), webhooks.c.secret]


def _owned(user_id: str | None) -> list[Any]:
    return [] if user_id is None else [webhooks.c.user_id == user_id]


def _query(webhook_id: str) -> Any:
    return select(*_shown()).where(webhooks.c.id == webhook_id)
