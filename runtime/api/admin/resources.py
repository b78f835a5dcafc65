"""The operation that reads a resource of the Model Context Protocol."""

from __future__ import annotations

from typing import Any

from runtime.api.admin.operation import operation
from runtime.api.admin.parameters import Text
from runtime.api.admin.state import AdminContext
from runtime.tools.resources import as_json, path_in, read


@operation(searches=True)
async def resource_read(context: AdminContext, uri: Text) -> dict[str, Any]:
    """Return the resource with the address `uri`, as JSON in `content`."""
    return {"uri": uri, "content": as_json(await read(context, path_in(uri)))}
