"""The resource `secrets`: values are shown only if the caller asks for them explicitly."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from sqlalchemy import select

from dslc.blocks.values.duration import read_duration
from dslc.blocks.values.invalid import Invalid
from dslc.blocks.values.secret import is_reference
from dslc.blocks.webhook import Webhook
from runtime.api.admin.parameters import optional_text, text, time_json
from runtime.api.admin.state import AdminContext
from runtime.api.admin.tools import TOOL_OPERATIONS
from runtime.database import schema
from runtime.errors import UsageError
from runtime.secrets import generated
from runtime.suggestions import unknown_name
from runtime.tools.webhooks.types import LONGEST_OVERLAP
from runtime.webhooks.routing.route import MountedWebhook

OVERLAP: Final = "24h"


async def show(context: AdminContext, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `value` of the secret `name`. Only generated secrets can be shown."""
    name = text(parameters, "name")
    value = await generated.find(name, context.secrets)
    if value is None:
        async with context.database.read() as connection:
            rows = await connection.execute(select(schema.secrets.c.name))
        raise unknown_name("generated secret", name, (row.name for row in rows))
    return {"name": name, "value": value.decode()}


async def rotate(context: AdminContext, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Give the webhook `name` a new secret; the previous one stays valid for `overlap` (`24h`).

    Only generated secrets can be rotated here: the first secret of the webhook must be `secret://generated/…`, or
    the webhook dynamic, whose new secret is returned.
    """
    name = text(parameters, "name")
    overlap = optional_text(parameters, "overlap") or OVERLAP
    overlap_ms = _milliseconds(overlap)
    entry = context.mounts.get(name)
    if entry is None:
        raise unknown_name("webhook", name, context.mounts)
    if entry.declared is None:
        return await _rotate_dynamic(context, entry, overlap)
    kept = _generated(entry.declared)
    done = await generated.rotate(kept, context.secrets, overlap_ms)
    if done is None:
        raise UsageError(f"the secret {kept} was never generated", hint="it is generated when the webhook is loaded")
    await context.follow_secrets()
    return {
        "webhook": name,
        "webhooks": sorted(each.name for each in context.mounts.values() if _uses(each, kept)),
        "name": kept,
        "previous_secret_until": time_json(done.until),
        "ended": time_json(done.ended),
        "secret": None,
    }


async def _rotate_dynamic(context: AdminContext, entry: MountedWebhook, overlap: str) -> dict[str, Any]:
    done = await TOOL_OPERATIONS["webhook_rotate_secret"](context, {"webhook_id": entry.name, "overlap": overlap})
    until = done["previous_secret_until"]
    return {
        "webhook": entry.name,
        "webhooks": [entry.name],
        "name": None,
        "previous_secret_until": until,
        "ended": None,
        "secret": done["secret"],
    }


def _milliseconds(overlap: str) -> int:
    try:
        length = read_duration(overlap)
    except Invalid as error:
        raise UsageError(f"--overlap: {error}", hint=error.hint) from None
    if length > LONGEST_OVERLAP:
        raise UsageError(f"--overlap: {LONGEST_OVERLAP.days}d is the longest")
    return length // timedelta(milliseconds=1)


def _generated(block: Webhook) -> str:
    """Return the name of the generated secret that the webhook's senders sign with. Raises UsageError with the next
    step."""
    if not block.secret:
        raise UsageError(f"the webhook {block.name} has no secret")
    first = block.secret[0]
    if first.startswith(generated.PREFIX):
        return first.removeprefix(generated.PREFIX)
    if not is_reference(first):
        raise UsageError(
            f"the secret of {block.name} is written in the program, so it is changed there",
            hint=f'add the new one before it: secret ["secret://generated/{block.name}", "…the old one…"]',
        )
    place, mark, field = first.partition("#")
    beside = f"{place}{'_NEW' if place.startswith('secret://env/') else '-new'}{mark}{field}"
    raise UsageError(
        f"the secret of {block.name} is in {first}, so it is rotated there",
        hint=f'put the new one beside it and write secret ["{beside}", "{first}"] until senders have it',
    )


def _uses(entry: MountedWebhook, name: str) -> bool:
    return entry.declared is not None and f"{generated.PREFIX}{name}" in entry.declared.secret
