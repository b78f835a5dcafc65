"""Deliveries for tests."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Table, select, text

from runtime.database.connection import Database
from runtime.webhooks.deliveries.delivery import Candidate, Decision

BODY = b'{"action":"opened"}'


def candidate(provider_delivery_id: str | None = None, *, body: bytes = BODY, **more: Any) -> Candidate:
    """Return a GitHub delivery for the agent `reviewer`."""
    given: dict[str, Any] = {
        "webhook": "github-events",
        "provider": "github",
        "agent": "reviewer",
        "body_sha256": hashlib.sha256(body).hexdigest(),
        **more,
    }
    return Candidate(body=body, provider_delivery_id=provider_delivery_id, **given)


async def rows(database: Database, table: Table, *columns: str) -> Sequence[Any]:
    """Return the rows of `table`, oldest first if it has an id."""
    query = select(*(table.c[name] for name in columns)) if columns else select(table)
    if "id" in table.c:
        query = query.order_by(table.c.id)
    async with database.read() as connection:
        return (await connection.execute(query)).all()


def verdicts(decisions: Sequence[Decision]) -> list[str]:
    return [decision.verdict for decision in decisions]


async def cut_off(database: Database) -> None:
    """Terminate every other connection to this PostgreSQL database on the server."""
    others = text(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE pid <> pg_backend_pid() AND datname = current_database()"
    )
    async with database.read() as connection:
        await connection.execute(others)
