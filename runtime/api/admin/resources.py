"""The readables as operations, for who asks the daemon on its admin socket: the caller is the root's own user."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runtime.api.admin.parameters import text
from runtime.api.admin.state import AdminContext
from runtime.tools.resources import as_json, path_in, read


async def resource_read(context: AdminContext, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """What stands at the address `uri`, as JSON in `content`."""
    uri = text(parameters, "uri")
    return {"uri": uri, "content": as_json(await read(context, path_in(uri)))}
