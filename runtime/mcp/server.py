"""The MCP server: maps the protocol's requests to a backend."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from importlib import metadata
from typing import Any, Final, TypeVar

from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext

# Not `MCPServer`: its tools are registered once for all callers, from functions whose signatures it parses. Here tools
# are a table that already contains their schemas, and the list depends on the caller. So the server consists of four
# handlers.
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    PaginatedRequestParams,
    ReadResourceRequestParams,
)

from runtime.mcp import listing
from runtime.mcp.backend import BackendAnswer, BackendFailure, McpBackend
from runtime.mcp.progress_notifications import with_progress

T = TypeVar("T")

Request = ServerRequestContext[Any, Any]
BackendOf = Callable[[Request], McpBackend]

NAME: Final = "symbiont"

INSTRUCTIONS: Final = """\
A persistent memory in collections, stored on this machine.
1. `search` before you answer: by meaning and by words, narrowed by project_id, memory_type, tags and time_range.
2. `push` texts that are worth storing, with project_id, tags and a memory_type: episodic (an event), semantic (a \
statement) or procedural (instructions). Existing texts are not stored twice.
3. `get`, `update` and `forget` work on one item by its memory_id; `summarize` turns the episodes of a time range into \
one semantic item.
The resources projects, projects/{project_id}/tags and memory-types list the values for filters; `get-collections` \
lists the collections. An error names the wrong field and shows a correct example: correct the call and repeat it.
"""

RESOURCE_NOT_FOUND: Final = -32002
"""MCP 2025-11-25, resources, error handling."""

# The list stays the same while the process runs; contents may change at any time.
_HINTS: Final[dict[Any, CacheHint]] = {
    "tools/list": CacheHint(ttl_ms=60_000, scope="private"),
    "resources/list": CacheHint(ttl_ms=60_000, scope="private"),
    "resources/templates/list": CacheHint(ttl_ms=60_000, scope="private"),
    "resources/read": CacheHint(ttl_ms=0, scope="private"),
}


_DONE: Final = {"resultType": "complete"}
"""Field of each result since the revision of 2026-07-28; the SDK leaves it out for older ones."""


def make_server(backend_of: BackendOf) -> Server[Any]:
    """Return a server that calls `backend_of` for the backend of each request."""
    server: Server[Any] = Server(
        NAME,
        version=metadata.version("symbiont"),
        title="Symbiont memory",
        instructions=INSTRUCTIONS,
        cache_hints=_HINTS,
    )

    async def list_tools(request: Request, _params: PaginatedRequestParams) -> dict[str, Any]:
        return _DONE | {"tools": listing.tools(backend_of(request).may)}

    async def call_tool(request: Request, params: CallToolRequestParams) -> dict[str, Any]:
        return await _called(request, backend_of(request), params)

    async def list_resources(request: Request, _params: PaginatedRequestParams) -> dict[str, Any]:
        return _DONE | {"resources": [row for row in listing.resources(backend_of(request).may) if "uri" in row]}

    async def list_templates(request: Request, _params: PaginatedRequestParams) -> dict[str, Any]:
        rows = listing.resources(backend_of(request).may)
        return _DONE | {"resourceTemplates": [row for row in rows if "uriTemplate" in row]}

    async def read_resource(request: Request, params: ReadResourceRequestParams) -> dict[str, Any]:
        uri = str(params.uri)
        answer = await _asked(backend_of(request).read(uri), absent=RESOURCE_NOT_FOUND)
        return _DONE | {"contents": [{"uri": uri, "mimeType": "application/json", "text": answer.text}]}

    # Plain JSON is passed through: the SDK validates every result against the schema of the negotiated version.
    server.add_request_handler("tools/list", PaginatedRequestParams, list_tools)
    server.add_request_handler("tools/call", CallToolRequestParams, call_tool)
    server.add_request_handler("resources/list", PaginatedRequestParams, list_resources)
    server.add_request_handler("resources/templates/list", PaginatedRequestParams, list_templates)
    server.add_request_handler("resources/read", ReadResourceRequestParams, read_resource)
    return server


async def _called(request: Request, backend: McpBackend, params: CallToolRequestParams) -> dict[str, Any]:
    """Return a tool's result, or its failure as a result that the model reads. Raises MCPError if it is not listed."""
    if listing.tool(params.name, backend.may) is None:
        raise MCPError(INVALID_PARAMS, f"Unknown tool: {params.name[:200]}")
    try:
        answer = await with_progress(
            lambda progress: backend.call(params.name, params.arguments or {}, progress),
            request.session.report_progress if request.meta and "progress_token" in request.meta else None,
        )
    except BackendFailure as failed:
        return _result(BackendAnswer(failed.line(), {"error": dict(failed.failure)}), failed=True)
    return _result(answer, failed=False)


def _result(answer: BackendAnswer, *, failed: bool) -> dict[str, Any]:
    return _DONE | {
        "content": [{"type": "text", "text": answer.text}],
        "structuredContent": answer.content,
        "isError": failed,
    }


async def _asked(work: Coroutine[Any, Any, T], *, absent: int = INVALID_PARAMS) -> T:
    """Return the result of `work`. Raises its failure as an error of the protocol, with the code `absent` if the
    call was wrong."""
    try:
        return await with_progress(lambda _: work, None)
    except BackendFailure as failed:
        code = absent if failed.failure.get("code") == "invalid_params" else INTERNAL_ERROR
        raise MCPError(code, failed.line(), {"error": dict(failed.failure)}) from None
