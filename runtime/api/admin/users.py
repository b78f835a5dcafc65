"""Operations on users."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import structlog
from sqlalchemy import Connection

from runtime.api.admin.parameters import flag, text, time_json
from runtime.api.admin.state import AdminContext
from runtime.api.admin.user_removal import Erased, erase
from runtime.clock import milliseconds
from runtime.database.schema import OWNER
from runtime.errors import UsageError
from runtime.identity import users
from runtime.suggestions import unknown_name
from runtime.webhooks.routing import dynamic_webhooks

log = structlog.get_logger("symbiont.users")


async def add(context: AdminContext, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Create the user `name`."""
    name = text(parameters, "name")
    user_id = await users.add(context.database, name, milliseconds(context.clock))
    log.info("user_added", user_id=user_id)
    return {"user": name, "id": user_id}


async def list_users(context: AdminContext, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return every user, `owner` first."""
    found = await users.overview(context.database, milliseconds(context.clock))
    return {"users": [{**row, "created_at": time_json(row["created_at"])} for row in found]}


async def remove(context: AdminContext, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Remove the user `name`, or `id:ID`, with its tokens and webhooks, and all its data in memories and in the
    database unless `keep` is true. Data that is kept belongs to the id, which is never used again.

    The user's tokens are invalid at once. An interrupted removal is completed by the process that owns the root
    next, or by `id:ID`.
    """
    name, keep = text(parameters, "name"), flag(parameters, "keep")
    user_id = await users.find(context.database, name)
    if user_id == OWNER:
        raise UsageError(f"{OWNER} always exists and cannot be removed")
    now = None if keep else milliseconds(context.clock)

    def gone(connection: Connection) -> tuple[int, int] | None:
        tokens = users.remove(connection, user_id, now)
        return None if tokens is None else (tokens, dynamic_webhooks.delete_all(connection, user_id))

    removed = await context.database.transact(gone)
    if removed is None and (keep or not name.startswith(users.ID)):
        raise unknown_name("user", name, (await users.names(context.database)).values())
    tokens, webhooks = removed or (0, 0)
    log.info("user_removed", user_id=user_id, tokens=tokens, webhooks=webhooks, kept=keep)
    # The user is removed; if the database is unavailable now, the routes follow as soon as it is available.
    await context.routes.look()
    erased = Erased() if keep else await erase(context, user_id)
    return {
        "user": name,
        "id": user_id,
        "tokens": tokens,
        "webhooks": webhooks,
        "kept": keep,
        "items": erased.items,
        "rows": erased.rows,
        "problems": erased.problems,
    }
