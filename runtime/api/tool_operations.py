"""Every tool as an operation: on the admin socket the caller is the root's own user."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from runtime.api.house import House
from runtime.identity import OWNER_CALLER
from runtime.tools import TOOLS, Context, Tool


def _operation(tool: Tool) -> Callable[[House, Mapping[str, Any]], Awaitable[dict[str, Any]]]:
    async def operate(house: House, parameters: Mapping[str, Any]) -> dict[str, Any]:
        return (await tool.call(Context(OWNER_CALLER, house), parameters)).model_dump(mode="json")

    return operate


TOOL_OPERATIONS = {name: _operation(tool) for name, tool in TOOLS.items()}
