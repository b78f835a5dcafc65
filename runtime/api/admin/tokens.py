"""Operations on tokens, which authenticate users on the operators' listener."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

import structlog
from pydantic import Field

from dslc.blocks.values.quantity import read_duration
from runtime.api.admin.operation import operation
from runtime.api.admin.parameters import Text, time_json
from runtime.api.admin.state import AdminContext
from runtime.errors import NotFound, UsageError
from runtime.identity import users
from runtime.identity.caller import Scope
from runtime.tool_groups import EVERYTHING, ToolChoice

log = structlog.get_logger("symbiont.tokens")

LONGEST_LABEL = 64
LONGEST_LIFE = timedelta(days=36_500)


@operation(changes=True)
async def token_create(
    context: AdminContext,
    label: Annotated[str, Field(description="A label to recognize the token in the list.")] = "",
    scopes: Annotated[
        list[Scope], Field(description="The permissions; each scope includes those before it.", max_length=3)
    ] = ["read"],  # noqa: B006 - never changed
    tools: Annotated[
        Text | None,
        Field(
            description="The only tools of the token, on /v1 and /mcp: collections, memory, agents, webhooks, tasks, "
            "tables, kv, approvals; `read-only` leaves out what changes something."
        ),
    ] = None,
    expires: Annotated[Text | None, Field(description="How long the token is valid, such as 90d.")] = None,
) -> dict[str, Any]:
    """Create a token of the user; its text is returned once."""
    if len(label) > LONGEST_LABEL or not label.isprintable():
        raise UsageError(f"a label is one line of at most {LONGEST_LABEL} characters")
    choice, allowed, user_id = _tools(tools), frozenset(scopes) or frozenset({"read"}), context.caller.user_id
    made = await context.tokens.create(
        user_id, label=label, scopes=allowed, lifetime_ms=_lifetime(expires), tools=choice
    )
    if made is None:
        raise NotFound("there is no such user any more")
    limit = None if choice is None else str(choice)
    log.info("token_created", token=made.token_id, user_id=user_id, scopes=sorted(allowed), tools=limit)
    user = users.display_name(await users.names(context.database), user_id)
    return {"id": made.token_id, "user": user, "token": made.token, "expires_at": time_json(made.expires_at)}


@operation()
async def token_list(context: AdminContext, user: Text | None = None) -> dict[str, Any]:
    """Return every token (of `user`), invalid ones included; never the token itself."""
    user_id = None if user is None else await users.find(context.database, user)
    known = await users.names(context.database)
    return {
        "tokens": [
            {
                "id": row["id"],
                "user": users.display_name(known, row["user_id"]),
                "label": row["label"],
                "scopes": row["scopes"].split(),
                "tools": None if row["tools"] is None else row["tools"].split(),
                "state": row["state"],
                **{name: time_json(row[name]) for name in ("created_at", "expires_at", "revoked_at", "used_at")},
            }
            for row in await context.tokens.rows(user_id)
        ]
    }


@operation(changes=True)
async def token_revoke(
    context: AdminContext,
    token_id: Annotated[Text, Field(description="An id, its unique prefix, or the token itself.")],
) -> dict[str, Any]:
    """Revoke a token. Every daemon refuses it from now on."""
    revoked = await context.tokens.revoke(token_id)
    log.info("token_revoked", token=revoked)
    return {"id": revoked}


def _tools(given: str | None) -> ToolChoice | None:
    """Return the tools to which the token is limited; None: all."""
    choice = EVERYTHING if given is None else ToolChoice.read(given)
    return None if choice == EVERYTHING else choice


def _lifetime(expires: str | None) -> int | None:
    if expires is None:
        return None
    try:
        lifetime = read_duration(expires)
    except ValueError as error:
        raise UsageError(f"expires: {error}", hint="such as 90d") from None
    if not timedelta() < lifetime <= LONGEST_LIFE:
        raise UsageError(
            "expires: a token is valid for more than zero seconds and at most a hundred years", hint="such as 90d"
        )
    return lifetime // timedelta(milliseconds=1)
