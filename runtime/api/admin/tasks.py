"""Operations on the tasks of a user: their names, their time zone and their calendar feed."""

from __future__ import annotations

from typing import Annotated, Any, Final

import structlog
from pydantic import Field

from runtime.api.admin.operation import operation
from runtime.api.admin.parameters import time_json
from runtime.api.admin.state import AdminContext
from runtime.errors import UsageError
from runtime.identity.user_settings import read_settings
from runtime.tasks.feeds import TaskFeeds
from runtime.tasks.id_lookup import find_task

log = structlog.get_logger("symbiont.tasks")

DEFAULT_ADDRESS: Final = "127.0.0.1:8081"
"""The operators' listener of a daemon without settings."""


@operation()
async def task_find(context: AdminContext, names: Annotated[list[str], Field(min_length=1)]) -> dict[str, Any]:
    """Return the ids of the tasks that `names` names, each by its id or the end of it."""
    found = [await find_task(context.database, context.caller.user_id, name) for name in names]
    return {"task_ids": list(dict.fromkeys(found))}


@operation()
async def task_zone(context: AdminContext) -> dict[str, Any]:
    """Return the time zone of the user, a name of the IANA database; null for that of the machine."""
    found = (await read_settings(context.database, context.caller.user_id)).zone
    return {"time_zone": None if found is None else str(found)}


@operation(changes=True)
async def task_feed(
    context: AdminContext,
    events: Annotated[
        bool, Field(description="The URL of the dated tasks as events, for programs that show no to-dos.")
    ] = False,
    rotate: Annotated[bool, Field(description="Make a new URL; the one before is refused from now on.")] = False,
    off: Annotated[bool, Field(description="Switch the feed off: its URL is refused from now on.")] = False,
) -> dict[str, Any]:
    """Return the URL of the calendar feed of the user; it is made if there is none, and null if it is off."""
    user_id, feeds = context.caller.user_id, TaskFeeds(context.database, context.clock)
    if off:
        if rotate:
            raise UsageError("a feed is rotated or switched off")
        was_on = await feeds.close(user_id)
        log.info("task_feed_closed", user_id=user_id)
        return {"url": None, "was_on": was_on}
    found = await (feeds.rotate(user_id) if rotate else feeds.open(user_id))
    if rotate:
        log.info("task_feed_rotated", user_id=user_id)
    address = context.daemon.addresses.get("admin", DEFAULT_ADDRESS)
    return {
        "url": f"http://{address}{found.path}{'?as=events' if events else ''}",
        "serving": "admin" in context.daemon.addresses,
        "created_at": time_json(found.created_at),
        "used_at": time_json(found.used_at),
    }
