"""Operations on tokens, which authenticate users on the operators' listener."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import structlog

from dslc.blocks.values.duration import read_duration
from runtime.api.admin.parameters import optional_text, text, time_json
from runtime.api.admin.state import AdminContext
from runtime.database.schema import OWNER
from runtime.errors import UsageError
from runtime.identity import users
from runtime.identity.caller import SCOPES, Scope
from runtime.suggestions import unknown_name
from runtime.tool_groups import EVERYTHING, ToolChoice

log = structlog.get_logger("symbiont.tokens")

LONGEST_LABEL = 64
LONGEST_LIFE = timedelta(days=36_500)


async def create(context: AdminContext, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Create a token of `user` with `scopes`, a `label`, valid for the duration `expires`, with the groups in `tools`
    alone; its text is returned once."""
    user = optional_text(parameters, "user") or OWNER
    label = optional_text(parameters, "label") or ""
    if len(label) > LONGEST_LABEL or not label.isprintable():
        raise UsageError(f"a label is one line of at most {LONGEST_LABEL} characters")
    lifetime = _lifetime(optional_text(parameters, "expires"))
    scopes = _scopes(parameters)
    tools = _tools(optional_text(parameters, "tools"))
    user_id = await users.find(context.database, user)
    made = await context.tokens.create(user_id, label=label, scopes=scopes, lifetime_ms=lifetime, tools=tools)
    if made is None:
        raise unknown_name("user", user, (await users.names(context.database)).values())
    limit = None if tools is None else str(tools)
    log.info("token_created", token=made.token_id, user_id=user_id, scopes=sorted(scopes), tools=limit)
    return {"id": made.token_id, "user": user, "token": made.token, "expires_at": time_json(made.expires_at)}


async def list_tokens(context: AdminContext, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return every token (of `user`), invalid ones included; never the token itself."""
    user = optional_text(parameters, "user")
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


async def revoke(context: AdminContext, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Revoke the token whose id begins with `id`."""
    revoked = await context.tokens.revoke(text(parameters, "id"))
    log.info("token_revoked", token=revoked)
    return {"id": revoked}


def _scopes(parameters: Mapping[str, Any]) -> frozenset[Scope]:
    given = parameters.get("scopes") or ["read"]
    if not isinstance(given, list) or not all(scope in SCOPES for scope in given):
        raise UsageError(f"scopes is not a list of {', '.join(SCOPES)}")
    return frozenset(given)


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
