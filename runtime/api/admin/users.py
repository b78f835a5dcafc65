"""Operations on users."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, Final
from zoneinfo import available_timezones

import structlog
from pydantic import Field
from sqlalchemy import Connection

from runtime.api.admin.keys.keys import last_export_json
from runtime.api.admin.operation import operation
from runtime.api.admin.parameters import Text, attributes, time_json
from runtime.api.admin.state import AdminContext
from runtime.api.admin.user_removal import ErasureResult, erase, remove_rows
from runtime.clock import milliseconds
from runtime.database.schema import OWNER
from runtime.errors import UsageError
from runtime.identity import users
from runtime.identity.user_settings import NO_LIMIT, UserSettings
from runtime.models.budgets.limits import LIMITS, NANO, LimitName, Total, read_limit
from runtime.suggestions import unknown_name
from runtime.tables.quota import TIERS, read_storage
from runtime.tables.storage import StorageUsage, UserStorage, used_percent
from runtime.tasks.days import move_days
from runtime.threads.run import BUDGET_EXCEEDED
from runtime.threads.turns import parking

log = structlog.get_logger("symbiont.users")


@operation(changes=True)
async def user_add(context: AdminContext, name: Text) -> dict[str, Any]:
    """Create the user `name`."""
    user_id = await users.add(context.database, name, milliseconds(context.clock))
    # Already now: the first delivery of the user does not wait for it.
    await asyncio.to_thread(context.database.keys.ensure, user_id)
    log.info("user_added", user_id=user_id)
    return {"user": name, "id": user_id}


@operation()
async def user_list(context: AdminContext) -> dict[str, Any]:
    """Return every user, `owner` first, with the limits that are set for each, and what it has stored."""
    found = await users.overview(context.database, milliseconds(context.clock))
    settings, stored = await context.user_settings.all(), await _storage(context).all()

    def more(user_id: str) -> dict[str, Any]:
        own = settings.get(user_id, UserSettings())
        return {
            "limits": {name: _limit_json(name, getattr(own, name)) for name in LIMITS},
            **_storage_json(context, own, stored.get(user_id, StorageUsage())),
        }

    return {"users": [{**row, "created_at": time_json(row["created_at"]), **more(row["id"])} for row in found]}


@operation()
async def user_show(context: AdminContext, name: Text) -> dict[str, Any]:
    """Return the user `name` with its limits: `set` for it alone, `most` as they hold, and how much is used."""
    return await _user_json(context, await users.find(context.database, name))


@operation(changes=True, repeatable=True)
async def user_set(
    context: AdminContext,
    name: Text,
    *,
    tokens_per_day: Annotated[
        Text | None, Field(description="Maximum tokens of requests and replies per day (UTC).")
    ] = None,
    cost_per_day: Annotated[Text | None, Field(description="Maximum cost per day (UTC) in US dollars.")] = None,
    runs_per_hour: Annotated[
        Text | None, Field(description="Maximum number of runs that begin per hour (UTC).")
    ] = None,
    tier: Annotated[Text | None, Field(description="What the user may store: free, pro or enterprise.")] = None,
    storage: Annotated[
        Text | None, Field(description="Bytes of tables and key-value store together, such as 100MB.")
    ] = None,
    time_zone: Annotated[Text | None, Field(description="Time zone of the user, such as Europe/Berlin.")] = None,
) -> dict[str, Any]:
    """Change settings of the user `name`; `default` is that of the process: limits over all agents, a number or `none`;
    the `tier`, and the `storage` instead of that of the tier; the `time_zone`. Turns that wait because of a limit are
    tried again, and days at whose end tasks are due end in the new time zone. Returns the user as `user_show` does."""
    user_id = await users.find(context.database, name)
    limits = {"tokens_per_day": tokens_per_day, "cost_per_day": cost_per_day, "runs_per_hour": runs_per_hour}
    others = {"tier": tier, "storage": storage, "time_zone": time_zone}
    changes: dict[str, int | str | None] = {
        **{each: _limit(each, text) for each in LIMITS if (text := limits[each]) is not None},
        **{each: None if text == "default" else _READ[each](text) for each, text in others.items() if text is not None},
    }
    if not changes:
        raise UsageError("nothing is to be set", hint="name a setting, such as --tier or --tokens-per-day")
    now = milliseconds(context.clock)

    def follow(connection: Connection) -> None:
        parking.wake(connection, BUDGET_EXCEEDED, now, user_id=user_id)
        if (zone := changes.get("time_zone", 0)) != 0:
            assert not isinstance(zone, int)
            move_days(connection, user_id, UserSettings(time_zone=zone).zone)

    await context.user_settings.change(user_id, changes, follow)
    context.daemon.on_queued()
    log.info("user_settings_changed", user_id=user_id, **changes)
    return await _user_json(context, user_id)


def _limit(name: LimitName, given: str) -> int | None:
    return {"default": None, "none": NO_LIMIT}[given] if given in {"default", "none"} else read_limit(name, given)


def _tier(given: str) -> str:
    if given not in TIERS:
        raise unknown_name("tier", given, TIERS)
    return given


def _time_zone(given: str) -> str:
    # Not opened by its name, which may be one of a file.
    zones = available_timezones()
    if given not in zones:
        raise unknown_name("time zone", given[:80], zones)
    return given


_READ: Final[Mapping[str, Callable[[str], int | str]]] = {
    "tier": _tier,
    "storage": read_storage,
    "time_zone": _time_zone,
}
"""Settings that are no limits of agents, and what reads each."""


async def _user_json(context: AdminContext, user_id: str) -> dict[str, Any]:
    known = await users.overview(context.database, milliseconds(context.clock))
    row = next((each for each in known if each["id"] == user_id), None)
    if row is None:
        raise users.removed_error()
    own = await context.user_settings.of(user_id)
    budgets = context.limits.budgets
    assert budgets is not None
    limits = await budgets.of_user(user_id)
    state = (await budgets.states({Total.of_user(user_id): limits}))[Total.of_user(user_id)]
    return {
        **row,
        "created_at": time_json(row["created_at"]),
        "limits": {
            name: {"set": _limit_json(name, getattr(own, name)), "most": _limit_json(name, getattr(limits, name))}
            for name in LIMITS
        },
        "used": {"tokens": state.used.tokens, "cost": state.used.cost / NANO, "runs": state.runs},
        "reserved": {"tokens": state.reserved.tokens, "cost": state.reserved.cost / NANO},
        **_storage_json(context, own, await _storage_usage(context, user_id)),
    }


def _storage(context: AdminContext) -> UserStorage:
    assert context.limits.storage is not None
    return context.limits.storage


async def _storage_usage(context: AdminContext, user_id: str) -> StorageUsage:
    """Return what a user has stored; with a daemon, whose memories are all open, without texts that were deleted."""
    if context.limits.texts is not None and context.daemon.cancel_run is not None:
        await context.limits.texts.measure(user_id, context.memories)
    return await _storage(context).usage(user_id)


def _storage_json(context: AdminContext, own: UserSettings, stored: StorageUsage) -> dict[str, Any]:
    """Return the tier of a user, `set` for it alone and as it holds, and of its storage what is used; and the time
    zone."""
    storage = _storage(context)
    quota = storage.quota_of(own)
    return {
        "tier": {"set": own.tier, "holds": storage.tier_of(own)},
        "storage": {
            "set": own.storage,
            "most": {"tables": quota.tables, "rows": quota.rows, "bytes": quota.storage, "texts": quota.texts},
            **attributes(stored, "tables", "table_bytes", "kv_bytes", "text_bytes"),
            "used_percent": used_percent(stored, quota),
            "created_at": time_json(stored.created_at),
            "accessed_at": time_json(stored.accessed_at),
        },
        "time_zone": own.time_zone,
    }


def _limit_json(name: LimitName, limit: int | None) -> float | str | None:
    """Return a limit as JSON: a number, US dollars for costs; `none` for a user without one."""
    if limit is None:
        return None
    if limit == NO_LIMIT:
        return "none"
    return limit / NANO if name == "cost_per_day" else limit


@operation(changes=True, searches=True)
async def user_remove(
    context: AdminContext,
    name: Text,
    keep: Annotated[
        bool, Field(description="Keep its data, encrypted with the owner's key, for administrators.")
    ] = False,
) -> dict[str, Any]:
    """Remove the user `name`, or `id:ID`, with its tokens and webhooks, and all its data in memories, in SQL tables and
    in the database unless `keep` is true. Data that is kept belongs to the id, which is never used again.

    The user's tokens are invalid at once. The key of the user is forgotten before the data is deleted; with `keep` the
    data is sealed again with the owner's key first, in the background. An interrupted removal is completed by the
    process that owns the root next, or by the same again; without the name, by `id:ID`. `removed` is false if there was
    no such user any more.
    """
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
    erased = ErasureResult() if keep else await erase(context, user_id)
    return {
        "user": name,
        "id": user_id,
        "removed": removed is not None,
        "tokens": tokens,
        "webhooks": webhooks,
        "kept": keep,
        **attributes(erased, "items", "tables", "rows", "problems"),
        "exported": last_export_json(context),
    }
