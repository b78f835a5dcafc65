"""Every tool as an operation: on the admin socket the caller is the root's own user."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runtime.api.admin.state import App
from runtime.identity.caller import OWNER_CALLER
from runtime.memory.indexing.progress import Progress
from runtime.tools import TOOLS
from runtime.tools.context import Context, untold
from runtime.tools.tool import Tool


class ToolOperation:
    """A tool, called with flat JSON parameters. What takes a while tells `progress`."""

    def __init__(self, tool: Tool) -> None:
        self.tool = tool

    async def __call__(self, app: App, parameters: Mapping[str, Any], progress: Progress = untold) -> dict[str, Any]:
        """The tool's result as JSON. Raises SymbiontError."""
        return (await self.tool.call(Context(OWNER_CALLER, app, progress), parameters)).model_dump(mode="json")


TOOL_OPERATIONS = {name: ToolOperation(tool) for name, tool in TOOLS.items()}
