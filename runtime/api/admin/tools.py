"""Every tool as an operation: on the admin socket the caller is the root's own user."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from runtime.api.admin.state import AdminContext
from runtime.memory.indexing.progress import Progress
from runtime.tools import TOOLS
from runtime.tools.context import no_progress
from runtime.tools.tool import Tool


class ToolOperation:
    """A tool, called with flat JSON parameters. What takes a while tells `progress`."""

    def __init__(self, tool: Tool) -> None:
        self.tool = tool

    async def __call__(
        self, context: AdminContext, parameters: Mapping[str, Any], progress: Progress = no_progress
    ) -> dict[str, Any]:
        """The tool's result as JSON. Raises SymbiontError."""
        return (await self.tool.call(replace(context, progress=progress), parameters)).model_dump(mode="json")


TOOL_OPERATIONS = {name: ToolOperation(tool) for name, tool in TOOLS.items()}
