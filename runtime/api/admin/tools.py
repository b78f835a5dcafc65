"""Tools and resources as operations: on the admin socket the caller is the root's own user."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from runtime.api.admin.parameters import text
from runtime.api.admin.state import AdminContext
from runtime.memory.indexing.progress import Progress
from runtime.tools.context import no_progress
from runtime.tools.resources import as_json, path_in, read
from runtime.tools.tool import Tool
from runtime.tools.toolset import ALL_TOOLS


class ToolOperation:
    """A tool as an operation, called with flat JSON parameters."""

    def __init__(self, tool: Tool) -> None:
        self.tool = tool

    async def __call__(
        self, context: AdminContext, parameters: Mapping[str, Any], progress: Progress = no_progress
    ) -> dict[str, Any]:
        """Return the tool's result as JSON. Raises SymbiontError."""
        return (await ALL_TOOLS.call(self.tool.name, replace(context, progress=progress), parameters)).model_dump(
            mode="json"
        )


TOOL_OPERATIONS = {name: ToolOperation(tool) for name, tool in ALL_TOOLS.items()}


async def resource_read(context: AdminContext, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the resource with the address `uri`, as JSON in `content`."""
    uri = text(parameters, "uri")
    return {"uri": uri, "content": as_json(await read(context, path_in(uri)))}
