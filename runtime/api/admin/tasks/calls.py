"""Operations that call the tools on tasks for a user by name; only the root's own user may."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from runtime.api.admin.agents.lookup import user_of
from runtime.api.admin.parameters import text, unicode
from runtime.api.admin.state import AdminContext
from runtime.errors import UsageError
from runtime.identity.user_settings import read_settings
from runtime.tasks.names import find_task
from runtime.tools.toolset import ALL_TOOLS

TOOLS: Final = frozenset(name for name in ALL_TOOLS if name.startswith("task_"))
READING: Final = frozenset(name for name in TOOLS if ALL_TOOLS[name].read_only)


async def read(context: AdminContext, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of the tool `tool` for the user `user`, with `arguments`. The tool changes nothing."""
    return await _call(context, parameters, READING)


async def write(context: AdminContext, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of the tool `tool` for the user `user`, with `arguments`."""
    return await _call(context, parameters, TOOLS)


async def _call(context: AdminContext, parameters: Mapping[str, Any], allowed: frozenset[str]) -> dict[str, Any]:
    name, arguments = text(parameters, "tool"), parameters.get("arguments")
    if name not in allowed or not isinstance(arguments, dict):
        raise UsageError("the parameters do not name a tool of tasks with its arguments")
    user_id = await user_of(context, parameters)
    of_user = replace(context, caller=replace(context.caller, user_id=user_id))
    return (await ALL_TOOLS.call(name, of_user, arguments)).model_dump(mode="json")


async def find(context: AdminContext, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ids of the tasks of the user `user` that `names` names, each by its id or the end of it."""
    names, user_id = parameters.get("names"), await user_of(context, parameters)
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise UsageError("names is not a list of text")
    found = [await find_task(context.database, user_id, unicode(name, "names")) for name in names]
    return {"task_ids": list(dict.fromkeys(found))}


async def zone(context: AdminContext, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the time zone of the user `user`, a name of the IANA database; null for that of the machine."""
    found = (await read_settings(context.database, await user_of(context, parameters))).zone
    return {"time_zone": None if found is None else str(found)}
