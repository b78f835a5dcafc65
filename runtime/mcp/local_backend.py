"""Backend of an open root: the tables of tools and resources, for one caller."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import structlog

from runtime.agents.reply.arguments import client_arguments
from runtime.errors import SymbiontError
from runtime.identity.caller import Caller, Scope
from runtime.mcp.backend import BackendAnswer, BackendFailure, Progress
from runtime.tool_groups import ToolChoice, groups_of
from runtime.tools import resources
from runtime.tools.context import OpenContext, no_progress
from runtime.tools.failure import failure_of
from runtime.tools.toolset import ALL_TOOLS

log = structlog.get_logger("symbiont.mcp")


class LocalBackend:
    """`McpBackend` in the process that owns the root."""

    def __init__(self, open_context: OpenContext, caller: Caller) -> None:
        self._open_context = open_context
        self._caller = replace(caller, via="agent")
        self._tools = ALL_TOOLS.allowed_to(caller)

    @property
    def limit(self) -> ToolChoice | None:
        """See `McpBackend`."""
        return self._caller.tools

    def may(self, scope: Scope) -> bool:
        """See `McpBackend`."""
        return self._caller.may(scope)

    async def default_choice(self) -> ToolChoice:
        """See `McpBackend`."""
        if self._caller.tools is not None:
            return self._caller.tools
        async with self._open_context(self._caller, no_progress) as context:
            return groups_of(context.program)

    async def has_tables(self) -> bool:
        """See `McpBackend`."""
        async with self._open_context(self._caller, no_progress) as context:
            return context.no_tables is None

    async def call(self, name: str, arguments: Mapping[str, Any], progress: Progress | None) -> BackendAnswer:
        """See `McpBackend`."""
        try:
            async with self._open_context(self._caller, progress or no_progress) as context:
                if (tool := self._tools.get(name)) is not None:
                    context.switches.need(tool.stopped_by)
                    arguments = client_arguments(arguments, tool.schema)
                text = (await self._tools.call(name, context, arguments)).model_dump_json()
        except SymbiontError as error:
            raise BackendFailure(failure_of(error, self._tools.get(name), self._caller).json()) from None
        except Exception:
            raise _unexpected_failure(name) from None
        return BackendAnswer(text, json.loads(text))

    async def read(self, uri: str) -> BackendAnswer:
        """See `McpBackend`."""
        try:
            async with self._open_context(self._caller, no_progress) as context:
                found = await resources.read(context, resources.path_in(uri))
                text = found.model_dump_json()
        except SymbiontError as error:
            raise BackendFailure(failure_of(error, None, self._caller).json()) from None
        except Exception:
            raise _unexpected_failure(uri[:200]) from None
        return BackendAnswer(text, json.loads(text))


def _unexpected_failure(what: str) -> BackendFailure:
    """Convert an unexpected exception: the log has its details, the model gets a short message."""
    log.exception("tool_call_failed", called=what)
    return BackendFailure({"code": "provider_unavailable", "message": f"{what} failed; see the log"})
