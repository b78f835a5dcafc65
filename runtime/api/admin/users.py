"""Operations on users."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any

import structlog
from sqlalchemy import Connection

from runtime.api.admin.keys.keys import exported_json
from runtime.api.admin.parameters import flag, optional_text, text, time_json
from runtime.api.admin.state import AdminContext
from runtime.api.admin.user_removal import Erased, erase, remove_rows
from runtime.clock import milliseconds
from runtime.database.schema import OWNER
from runtime.errors import NotFound, UsageError
from runtime.identity import users
from runtime.identity.user_settings import NO_LIMIT, UserSettings
from runtime.models.budgets.limits import LIMITS, NANO, LimitName, Total, read_limit
from runtime.suggestions import unknown_name
from runtime.threads.run import BUDGET_EXCEEDED
from runtime.threads.turns import parking

log = structlog.get_logger("symbiont.users")


async def add(context: AdminContext, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Create the user `name`."""
    name = text(parameters, "name")
    user_id = await users.add(context.database, name, milliseconds(context.clock))
    # Already now: the first delivery of the user does not wait for it.
    await asyncio.to_thread(context.database.keys.ensure, user_id)
    log.info("user_added", user_id=user_id)
    return {"user": name, "id": user_id}


async def list_users(context: AdminContext, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return every user, `owner` first, with the limits that are set for each."""
    found = await users.overview(context.database, milliseconds(context.clock))
    settings = await context.user_settings.all()

    def limits(user_id: str) -> dict[str, Any]:
        own = settings.get(user_id, UserSettings())
        return {name: _shown(name, getattr(own, name)) for name in LIMITS}

    rows = [{**row, "created_at": time_json(row["created_at"]), "limits": limits(row["id"])} for row in found]
    return {"users": rows}


async def show(context: AdminContext, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the user `name` with its limits: `set` for it alone, `most` as they hold, and how much is used."""
    user_id = await users.find(context.database, text(parameters, "name"))
    return await _with_limits(context, user_id)


async def change(context: AdminContext, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Set limits of the user `name` over all agents: a number, `none`, or `default` for that of the process. Turns
    that wait because of a limit are tried again. Returns the user as `show` does."""
    user_id = await users.find(context.database, text(parameters, "name"))
    changes: dict[str, int | None] = {
        name: _limit(name, given) for name in LIMITS if (given := optional_text(parameters, name)) is not None
    }
    if not changes:
        raise UsageError("nothing is to be set", hint="name a limit")
    now = milliseconds(context.clock)

    def wake(connection: Connection) -> None:
        parking.wake(connection, BUDGET_EXCEEDED, now, user_id=user_id)

    await context.user_settings.change(user_id, changes, wake)
    context.on_queued()
    log.info("user_limits_set", user_id=user_id, **changes)
    return await _with_limits(context, user_id)


def _limit(name: LimitName, given: str) -> int | None:
    return {"default": None, "none": NO_LIMIT}[given] if given in {"default", "none"} else read_limit(name, given)


async def _with_limits(context: AdminContext, user_id: str) -> dict[str, Any]:
    known = await users.overview(context.database, milliseconds(context.clock))
    row = next((each for each in known if each["id"] == user_id), None)
    if row is None:
        raise NotFound("there is no such user any more")
    own = await context.user_settings.of(user_id)
    budgets = context.budgets
    assert budgets is not None
    limits = await budgets.of_user(user_id)
    state = (await budgets.states({Total.of_user(user_id): limits}))[Total.of_user(user_id)]
    return {
        **row,
        "created_at": time_json(row["created_at"]),
        "limits": {
            name: {"set": _shown(name, getattr(own, name)), "most": _shown(name, getattr(limits, name))}
            for name in LIMITS
        },
        "used": {"tokens": state.used.tokens, "cost": state.used.cost / NANO, "runs": state.runs},
        "reserved": {"tokens": state.reserved.tokens, "cost": state.reserved.cost / NANO},
    }


def _shown(name: LimitName, limit: int | None) -> float | str | None:
    """Return a limit as JSON: a number, US dollars for costs; `none` for a user without one."""
    if limit is None:
        return None
    if limit == NO_LIMIT:
        return "none"
    return limit / NANO if name == "cost_per_day" else limit


async def remove(context: AdminContext, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Remove the user `name`, or `id:ID`, with its tokens and webhooks, and all its data in memories and in the
    database unless `keep` is true. Data that is kept belongs to the id, which is never used again.

    The user's tokens are invalid at once. The key of the user is forgotten before the data is deleted; with `keep` the
    data is sealed again with the owner's key first, in the background. An interrupted removal is completed by the
    process that owns the root next, or by the same again; without the name, by `id:ID`. `removed` is false if there was
    no such user any more.
    """
    name, keep = text(parameters, "name"), flag(parameters, "keep")
    user_id = await users.find(context.database, name)
    if user_id == OWNER:
        raise UsageError(f"{OWNER} always exists and cannot be removed")
    at, known = milliseconds(context.clock), await users.names(context.database)
    if user_id not in known and (keep or not name.startswith(users.ID)):
        raise unknown_name("user", name, known.values())
    if keep:
        # Before the user's name is free: an interrupted removal can be repeated by name.
        await asyncio.to_thread(context.database.keys.forget, user_id, at, kept_by=OWNER)
    change = partial(remove_rows, user_id=user_id, now=None if keep else at)
    removed = await context.database.transact(change)
    tokens, webhooks = removed or (0, 0)
    log.info("user_removed", user_id=user_id, tokens=tokens, webhooks=webhooks, kept=keep)
    # The user is removed; if the database is unavailable now, the routes follow as soon as it is available.
    await context.routes.look()
    erased = Erased() if keep else await erase(context, user_id)
    return {
        "user": name,
        "id": user_id,
        "removed": removed is not None,
        "tokens": tokens,
        "webhooks": webhooks,
        "kept": keep,
        "items": erased.items,
        "rows": erased.rows,
        "problems": erased.problems,
        "exported": exported_json(context),
    }
