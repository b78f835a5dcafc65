"""Backends of the protocol: an open root in this process, or the process that owns the root."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from runtime.tool_groups import ToolChoice

if TYPE_CHECKING:
    from runtime.identity.caller import Scope

Progress = Callable[[str, int, int], None]
"""Called with the name of a step, the amount done, and the total."""


class BackendAnswer(NamedTuple):
    """A result as JSON text, and as a value."""

    text: str
    content: Any


class McpBackend(Protocol):
    """Tools and resources for one caller, as `listing` lists them."""

    @property
    def limit(self) -> ToolChoice | None:
        """The only tools that the caller has; None: all."""

    def may(self, scope: Scope) -> bool:
        """True if the caller has the scope. Does not wait."""

    async def default_choice(self) -> ToolChoice:
        """Return the tools of a client that chose none."""

    async def has_tables(self) -> bool:
        """Return False if users have no SQL tables."""

    async def call(self, name: str, arguments: Mapping[str, Any], progress: Progress | None) -> BackendAnswer:
        """Return the answer of a tool that is listed for the caller. Raises BackendFailure."""

    async def read(self, uri: str) -> BackendAnswer:
        """Return the content of a resource. Raises BackendFailure."""


class BackendFailure(Exception):  # noqa: N818 - it says what is the case
    """The call failed. `failure`: its code, message, and where known field, hint and example, as JSON."""

    def __init__(self, failure: Mapping[str, Any]) -> None:
        super().__init__(failure.get("message", ""))
        self.failure = failure

    def line(self) -> str:
        """All fields in one line, for a model to read."""
        failure = self.failure
        where = f"{failure['field']}: " if failure.get("field") else ""
        hint = f" ({failure['hint']})" if failure.get("hint") else ""
        text, example = f"{failure['code']}: {where}{failure['message']}{hint}", failure.get("example")
        if "results" in failure:
            text = f"{text.rstrip('.')}. Results: {json.dumps(failure['results'], ensure_ascii=False)}"
        if example is None:
            return text
        return f"{text.rstrip('.')}. For example: {json.dumps(example, ensure_ascii=False)}"
