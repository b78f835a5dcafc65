"""The resource `users`: who may be given tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import structlog
from sqlalchemy import Connection

from runtime.api.house import House
from runtime.api.moments import told
from runtime.api.parameters import text
from runtime.clock import milliseconds
from runtime.database.schema import OWNER
from runtime.errors import UsageError
from runtime.identity import users
from runtime.names import unknown
from runtime.webhooks import made

log = structlog.get_logger("symbiont.users")


async def add(house: House, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Make the user `name`."""
    name = text(parameters, "name")
    await users.add(house.database, name, milliseconds(house.clock))
    log.info("a user was added", user_id=name)
    return {"user": name}


async def list_users(house: House, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Every user, `owner` first."""
    found = await users.overview(house.database, milliseconds(house.clock))
    return {"users": [{**row, "created_at": told(row["created_at"])} for row in found]}


async def remove(house: House, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Remove the user `name` with its tokens and webhooks, all or none; what was accepted is run all the same."""
    name = text(parameters, "name")
    if name == OWNER:
        raise UsageError(f"{OWNER} is always there and cannot be removed")

    def gone(connection: Connection) -> tuple[int, int] | None:
        tokens = users.remove(connection, name)
        return None if tokens is None else (tokens, made.delete_all(connection, name))

    removed = await house.database.transact(gone)
    if removed is None:
        raise unknown("user", name, await users.names(house.database))
    log.info("a user was removed", user_id=name, tokens=removed[0], webhooks=removed[1])
    # It is done; should the database not answer now, the routes follow as soon as it does.
    await house.made_routes.look()
    return {"user": name, "tokens": removed[0], "webhooks": removed[1]}
