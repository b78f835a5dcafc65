"""The resource `secrets`: values are shown only if the caller asks for them explicitly."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

from pydantic import Field
from sqlalchemy import select

from dslc.blocks.values.quantity import read_duration
from dslc.blocks.values.secret import is_reference
from dslc.blocks.webhook import Webhook
from runtime.api.admin.operation import operation
from runtime.api.admin.parameters import Text, time_json
from runtime.api.admin.state import AdminContext
from runtime.database import schema
from runtime.errors import NotFound, UsageError
from runtime.secrets import generated
from runtime.suggestions import unknown_name
from runtime.tools.webhooks.manage import Overlap, WebhookId
from runtime.webhooks.routing.route import MountedWebhook


@operation()
async def secret_show(context: AdminContext, name: Text) -> dict[str, Any]:
    """Return the `value` of the secret `name`. Only generated secrets can be shown."""
    value = await generated.find(name, context.secrets)
    if value is None:
        async with context.database.read() as connection:
            rows = await connection.execute(select(schema.secrets.c.name))
        raise unknown_name("generated secret", name, (row.name for row in rows))
    return {"name": name, "value": value.decode()}


@operation(changes=True)
async def webhook_secret(context: AdminContext, webhook_id: WebhookId) -> dict[str, Any]:
    """Return the `secret` that an agent gave the webhook `webhook_id`, once. Raises NotFound, and Conflict for one that
    was shown before."""
    secret = await context.webhooks.show_secret(None, webhook_id)
    if secret is None:
        raise NotFound(f"there is no webhook {webhook_id} that was created through the API")
    return {"webhook_id": webhook_id, "secret": secret}


@operation(changes=True)
async def secret_rotate(
    context: AdminContext,
    name: Annotated[Text, Field(description="A webhook that the program declares.")],
    overlap: Overlap = "24h",
) -> dict[str, Any]:
    """Give the webhook `name` a new secret; the previous one stays valid for `overlap`.

    Only generated secrets can be rotated: the first secret of the webhook must be `secret://generated/…`.
    """
    overlap_ms = read_duration(overlap) // timedelta(milliseconds=1)
    entry = context.mounts.get(name)
    if entry is None:
        raise unknown_name("webhook", name, context.mounts)
    if entry.declared is None:
        raise UsageError(f"the secret of {name} is rotated by webhook_rotate_secret")
    kept = _generated_name(entry.declared)
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
    }


def _generated_name(block: Webhook) -> str:
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
