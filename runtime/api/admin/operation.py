"""Operation: a typed function that only the admin socket and commands call, declared as tools are."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from runtime.api.admin.state import AdminContext
from runtime.tools.tool import LARGEST_ITEMS, Tool, ToolProperties

Function = Callable[..., Awaitable[Any]]
"""`async def name(context: AdminContext, …)`, with annotated parameters as for a tool. It acts for the user
`context.caller.user_id`. Returns a JSON object, raises SymbiontError."""


class Operation(Tool):
    """A function that is no tool: no agent and no client of HTTP calls it."""

    async def __call__(self, context: AdminContext, given: Mapping[str, Any]) -> dict[str, Any]:
        """Call the function with `given`, JSON values by name. Raises WrongParameters, and what the function raises."""
        answer: Any = await self._run(context, given)
        result: dict[str, Any] = answer
        return result


def operation(
    *, changes: bool = False, searches: bool = False, repeatable: bool | None = None, largest: int = LARGEST_ITEMS
) -> Callable[[Function], Operation]:
    """Return the decorator of an operation. `changes`: it stores something. `searches`: it reads the indexes of
    memories, which must be open. `repeatable`: calling it again changes nothing more; true of reading. `largest`:
    maximum bytes of the parameters as JSON."""
    properties = ToolProperties(
        "admin", people=True, read_only=not changes, indexes=searches, idempotent=repeatable, largest=largest
    )
    return lambda function: Operation(function, properties)
