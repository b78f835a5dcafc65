"""Routes of webhooks created through the API, kept in step with the table `webhooks`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

import structlog
from sqlalchemy import select

from runtime.clock import Clock
from runtime.crypto import Unsealable
from runtime.database.connection import Database
from runtime.database.errors import Unavailable
from runtime.database.meta import current
from runtime.database.schema import webhooks
from runtime.secrets.secret import Secret
from runtime.webhooks.audit.audit import noted_names
from runtime.webhooks.filters.filter import compile_filters
from runtime.webhooks.providers import PROVIDERS
from runtime.webhooks.routing.dynamic_webhooks import PROVIDER, VERSION, DynamicWebhooks
from runtime.webhooks.routing.route import EMPTY_TABLE, MountedWebhook, Route, RouteTable
from runtime.webhooks.verification import prepare, prepare_unverified

log = structlog.get_logger("symbiont.webhooks")

PREFIX: Final = "/webhooks/"
BODY_LIMIT: Final = 256 * 1024
PER_MINUTE: Final = 60
USER_PER_MINUTE: Final = 300
POLL_SECONDS: Final = 1.0
"""Seconds until a change by another daemon is seen here if no notification arrives."""


class DynamicRoutes:
    """The mounted webhooks of one database by id, and the `table` of their routes. `refresh` applies changes; `run`
    looks for them every second."""

    def __init__(
        self, database: Database, clock: Clock, rows: DynamicWebhooks, *, on_change: Callable[[], None] = lambda: None
    ) -> None:
        """`on_change` is called when `mounts` is replaced."""
        self.mounts: Mapping[str, MountedWebhook] = {}
        self.table: RouteTable = EMPTY_TABLE
        self.on_change = on_change
        self._database = database
        self._clock = clock
        self._rows = rows
        self._version: str | None = ""
        self._updated: dict[str, int] = {}
        self._unavailable = False
        self._looking = asyncio.Lock()

    async def refresh(self) -> None:
        """Apply the changes of the table. Raises `Unavailable`; the last mounts then stay."""
        async with self._looking:
            async with self._database.read() as connection:
                version = await current(connection, VERSION)
                if version == self._version:
                    return
                rows = (await connection.execute(select(webhooks))).all()
            mounts = {row.id: self._unchanged_mount(row) or build_dynamic_route(row, self._rows) for row in rows}
            self._warn(mounts)
            self._updated = {row.id: row.updated_at for row in rows}
            self._version, self.mounts, self.table = version, mounts, RouteTable.of(mounts.values())
            self.on_change()

    async def run(self) -> None:
        """Refresh every second, until cancelled; a failure is retried."""
        while True:
            await self._clock.sleep(POLL_SECONDS)
            await self.look()

    async def look(self) -> None:
        """Refresh, but change nothing while the database is unavailable. Also called for a notification from another
        daemon."""
        try:
            await self.refresh()
            self._unavailable = False
        except Unavailable as error:
            if not self._unavailable:
                log.warning("webhook_changes_unreadable", error=str(error))
            self._unavailable = True

    def _unchanged_mount(self, row: Any) -> MountedWebhook | None:
        return self.mounts.get(row.id) if self._updated.get(row.id) == row.updated_at else None

    def _warn(self, mounts: Mapping[str, MountedWebhook]) -> None:
        """Log warnings for the owner of each new or changed webhook."""
        for webhook_id, entry in mounts.items():
            if self.mounts.get(webhook_id) is entry:
                continue
            if entry.problem and entry.route is None and entry.problem != SWITCHED_OFF:
                log.warning("webhook_not_mounted", webhook=webhook_id, reason=entry.problem)
            elif entry.route is not None and not entry.route.verified:
                log.warning("webhook_unverified", webhook=webhook_id, user_id=entry.user_id)


SWITCHED_OFF: Final = "switched off"


def build_dynamic_route(row: Any, rows: DynamicWebhooks) -> MountedWebhook:
    """Build the webhook of a row with all columns; it has no route if it is switched off or its secret cannot be
    decrypted."""
    secrets: tuple[Secret, ...] = ()
    route, problem = None, None
    try:
        if row.is_active:
            untils = (None, None if row.previous_until is None else row.previous_until / 1000)
            secrets = tuple(
                Secret(value, "created through the API, encrypted", until=until)
                for value, until in zip(rows.secrets_of(row), untils, strict=False)
            )
            route = _route(row, secrets)
        else:
            problem = SWITCHED_OFF
    except Unsealable as error:
        problem = error.line()
    return MountedWebhook(
        name=row.id,
        path=f"{PREFIX}{row.id}",
        agent=row.agent or None,
        provider=PROVIDER,
        origin="created through the API",
        secret_origins=tuple(dict.fromkeys(secret.origin for secret in secrets)),
        route=route,
        problem=problem,
        user_id=row.user_id,
        title=row.title,
    )


def _route(row: Any, secrets: tuple[Secret, ...]) -> Route:
    provider = PROVIDERS[PROVIDER]
    verifier = prepare(provider, secrets) if secrets else prepare_unverified(provider)
    return Route(
        name=row.id,
        path=f"{PREFIX}{row.id}",
        agent=row.agent or None,
        methods=frozenset(verifier.provider.methods),
        verifier=verifier,
        secrets=secrets,
        filters=compile_filters((), decoded=True),
        noted_headers=noted_names(),
        body_limit=BODY_LIMIT,
        public_url=None,
        keep_body=True,
        verified=bool(secrets),
        user_id=row.user_id,
        per_minute=PER_MINUTE,
        user_per_minute=USER_PER_MINUTE,
    )
