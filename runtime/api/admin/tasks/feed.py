"""The operation on the calendar feed of a user's tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import structlog

from runtime.api.admin.agents.lookup import user_of
from runtime.api.admin.parameters import flag, time_json
from runtime.api.admin.state import AdminContext
from runtime.errors import UsageError
from runtime.tasks.feeds import TaskFeeds

log = structlog.get_logger("symbiont.tasks")

DEFAULT_ADDRESS: Final = "127.0.0.1:8081"
"""The operators' listener of a daemon without settings."""


async def feed(context: AdminContext, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the URL of the calendar feed of the user `user`; it is made if there is none. `rotate`: with a new token.
    `off`: delete it, and return null."""
    user_id, feeds = await user_of(context, parameters), TaskFeeds(context.database, context.clock)
    rotates = flag(parameters, "rotate")
    if flag(parameters, "off"):
        if rotates:
            raise UsageError("a feed is rotated or switched off")
        was_on = await feeds.close(user_id)
        log.info("task_feed_closed", user_id=user_id)
        return {"url": None, "was_on": was_on}
    found = await (feeds.rotate(user_id) if rotates else feeds.open(user_id))
    if rotates:
        log.info("task_feed_rotated", user_id=user_id)
    return {
        "url": f"http://{context.addresses.get('admin', DEFAULT_ADDRESS)}{found.path}",
        "serving": "admin" in context.addresses,
        "created_at": time_json(found.created_at),
        "used_at": time_json(found.used_at),
    }
