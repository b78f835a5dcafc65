"""The state of the keys, their export, and their rotation."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Annotated, Any, Final

import structlog
from pydantic import Field

from runtime.api.admin.operation import operation
from runtime.api.admin.parameters import Text, time_json
from runtime.api.admin.state import AdminContext
from runtime.clock import milliseconds
from runtime.database.keys import export, tables
from runtime.database.keys.key import BOUND, Key
from runtime.database.keys.ring import DERIVED, INDEXES, OF_NO_USER, PROCESS
from runtime.database.resealing import SETTLED_MS
from runtime.errors import UsageError
from runtime.identity import users

log = structlog.get_logger("symbiont.keys")

MOST_SHOWN: Final = 20
"""Maximum number of keys that `status` lists: the most used ones."""
_NAMES: Final = {PROCESS: "(the process)", INDEXES: "(sealed indexes)", DERIVED: "(derived keys)"}


@operation()
async def key_status(context: AdminContext) -> dict[str, Any]:
    """Return where the keys are, which master key wraps them, how often they were used, and what is being sealed
    again."""
    keys, names = context.database.keys, await users.names(context.database)
    current = sorted(keys.current, key=lambda key: -key.uses)
    return {
        "stored_in": keys.store.label,
        "master_key": {"id": keys.master.key_id.hex(), "from": context.master_key.place},
        "current": len(current),
        "retired": [_key_json(key, names) for key in keys.retired],
        "most_used": [_key_json(key, names) for key in current[:MOST_SHOWN]],
        "bound": BOUND,
        "resealing": resealing_json(context),
        "exported": last_export_json(context),
    }


@operation()
async def key_export(context: AdminContext, file: Text) -> dict[str, Any]:
    """Return all keys, wrapped, to be written to `file`, and their `version`; `before`: the file of the last export, if
    that was another one."""
    keys, before = context.database.keys, last_export_json(context)
    # Read first: then the export of a key that changes meanwhile is known to be older than the change.
    version = keys.facts[tables.VERSION]
    content = await asyncio.to_thread(export.keys_json, keys)
    other = before["file"] if before is not None and before["file"] != file else None
    return {"keys": len(content["keys"]), "content": content, "version": version, "before": other}


@operation(changes=True, repeatable=True)
async def key_export_record(context: AdminContext, file: Text, version: Text) -> dict[str, Any]:
    """Record that the keys of this `version` were written to `file`."""
    record = {"file": file, "at": milliseconds(context.clock), "version": version}
    await asyncio.to_thread(context.database.keys.set_fact, tables.EXPORTED, json.dumps(record))
    log.info("keys_exported", file=file)
    return {}


@operation(changes=True)
async def key_rotate(
    context: AdminContext,
    user: Annotated[Text | None, Field(description="Only the key of this user.")] = None,
    *,
    all: Annotated[bool, Field(description="The keys of all users.")] = False,  # noqa: A002
    master: Annotated[bool, Field(description="The master key, which wraps all others.")] = False,
    to: Annotated[Text | None, Field(description="The reference of the new master key.")] = None,
) -> dict[str, Any]:
    """Give the user `user`, or `all` users, a new key, and seal their values again with it; or, with `master`, wrap all
    keys with a new master key, read from the reference `to`.

    An interrupted re-sealing goes on in the background, and in every later process. The key before is forgotten when
    nothing is sealed with it any more.
    """
    keys = context.database.keys
    if master:
        if user is not None or all:
            raise UsageError("one rotation is of the master key or of users, not of both")
        await context.master_key.rotate(to)
        return {"master_key": keys.master.key_id.hex(), "from": context.master_key.place, "keys": len(keys.current)}
    if (user is None) != all or to is not None:
        raise UsageError("name the user whose key is rotated, or all of them", hint="--user NAME, or --all")
    names = await users.names(context.database)
    held = {key.holder for key in keys.current}
    if user is not None:
        chosen = [await users.find(context.database, user)]
        if not held.intersection(chosen):
            raise UsageError(f"the user {user} has no key yet", hint="it gets one when something of it is stored")
    else:
        chosen = sorted(held - OF_NO_USER)
    count = await asyncio.to_thread(keys.rotate, chosen, milliseconds(context.clock))
    log.info("keys_rotated", users=count)
    await context.resealing.run_if_due(context.progress)
    state = context.resealing.state
    return {
        "rotated": count,
        "sealed_again": 0 if state is None else state.moved,
        "forgotten_after": time_json(milliseconds(context.clock) + SETTLED_MS),
        "users": [users.display_name(names, each) for each in chosen[:MOST_SHOWN]],
    }


def resealing_json(context: AdminContext) -> dict[str, Any] | None:
    """Return the progress of sealing again; None if there is no key but current ones. `due`: False if everything is
    sealed with current keys, and retired ones are only kept for what may be stored late."""
    work = context.resealing
    if not work.waiting:
        return None
    state = work.state
    return {
        "due": work.is_due(),
        "rows": 0 if state is None else state.seen,
        "of": 0 if state is None else max(state.total, state.seen),
        "sealed_again": 0 if state is None else state.moved,
        "unreadable": 0 if state is None else state.unreadable,
    }


def last_export_json(context: AdminContext) -> dict[str, Any] | None:
    """Return when and to which file keys were last exported, and if keys were rotated or forgotten since."""
    facts = context.database.keys.facts
    try:
        record = json.loads(facts[tables.EXPORTED])
    except (KeyError, ValueError):
        return None
    current = record["version"] == facts.get(tables.VERSION)
    return {"file": record["file"], "at": time_json(record["at"]), "current": current}


def _key_json(key: Key, names: Mapping[str, str]) -> dict[str, Any]:
    return {
        "user": _NAMES.get(key.holder) or users.display_name(names, key.holder),
        "id": key.key_id.hex(),
        "generation": key.generation,
        "used": key.uses,
        "created_at": time_json(key.created_at),
        "retired_at": time_json(key.retired_at),
    }
