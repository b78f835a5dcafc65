"""The MCP server: maps the protocol's requests to a backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from mcp.server.caching import CacheHint
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

# Not `MCPServer`: its tools are registered once for all callers, from functions whose signatures it parses. Here tools
# are a table that already contains their schemas, and the list depends on the caller. So the server consists of a
# few handlers.
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    PaginatedRequestParams,
    ReadResourceRequestParams,
)

from dslc.version import version
from runtime.mcp import listing
from runtime.mcp.backend import BackendAnswer, BackendFailure, McpBackend
from runtime.mcp.listing import ListedTool
from runtime.mcp.progress_notifications import with_progress
from runtime.tool_groups import COLLECTIONS, READ_ONLY, ToolChoice

Request = ServerRequestContext[Any, Any]


class McpClient(NamedTuple):
    """Client of the server. `choice`: the tools that it is shown; None: the default ones. `output_schemas`: with the
    schemas of their results."""

    backend: McpBackend
    choice: ToolChoice | None = None
    output_schemas: bool = False

    async def effective_choice(self) -> ToolChoice:
        """Return the tools that it is shown, within the limit of its backend."""
        return (self.choice or await self.backend.default_choice()).within(self.backend.limit)

    async def tool_definitions(self) -> Sequence[Mapping[str, Any]]:
        """Return the tools that it is shown, those on SQL tables if there are any, as the protocol lists them."""
        shown = await self.effective_choice()
        if "tables" in shown.groups and not await self.backend.has_tables():
            shown = shown.without("tables")
        return listing.tools(self.backend.may, shown, output_schemas=self.output_schemas)

    async def has(self, group: str, *, read_only: bool) -> bool:
        """True if it is shown the tools of the group that change something, or with `read_only` those that do not."""
        if self.choice is None and self.backend.limit is None and COLLECTIONS.has(group, read_only=read_only):
            # Usual with every program, which may not be loaded yet.
            return True
        return (await self.effective_choice()).has(group, read_only=read_only)


ClientOf = Callable[[Request], McpClient]

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

# The lists change with the program alone; contents may change at any time.
_HINTS: Final[dict[Any, CacheHint]] = {
    "tools/list": CacheHint(ttl_ms=60_000, scope="private"),
    "prompts/list": CacheHint(ttl_ms=60_000, scope="private"),
    "resources/list": CacheHint(ttl_ms=60_000, scope="private"),
    "resources/templates/list": CacheHint(ttl_ms=60_000, scope="private"),
    "resources/read": CacheHint(ttl_ms=0, scope="private"),
}


_INTRODUCTIONS: Final = frozenset({"initialize", "server/discover"})

_DONE: Final = {"resultType": "complete"}
"""Field of each result since the revision of 2026-07-28; the SDK leaves it out for older ones."""


def make_server(client_of: ClientOf) -> Server[Any]:
    """Return a server that calls `client_of` for the client of each request."""
    server: Server[Any] = Server(
        NAME,
        version=version(),
        title="Symbiont memory",
        instructions=INSTRUCTIONS,
        cache_hints=_HINTS,
    )

    async def list_tools(request: Request, _params: PaginatedRequestParams) -> dict[str, Any]:
        return _DONE | {"tools": await client_of(request).tool_definitions()}

    async def call_tool(request: Request, params: CallToolRequestParams) -> dict[str, Any]:
        return await _call_tool(request, client_of(request), params)

    async def list_resources(request: Request, _params: PaginatedRequestParams) -> dict[str, Any]:
        return _DONE | {"resources": [row for row in await _resources(client_of(request)) if "uri" in row]}

    async def list_templates(request: Request, _params: PaginatedRequestParams) -> dict[str, Any]:
        rows = await _resources(client_of(request))
        return _DONE | {"resourceTemplates": [row for row in rows if "uriTemplate" in row]}

    async def read_resource(request: Request, params: ReadResourceRequestParams) -> dict[str, Any]:
        uri, client = str(params.uri), client_of(request)
        if not await _resources(client):
            raise MCPError(RESOURCE_NOT_FOUND, f"Unknown resource: {uri[:200]} (resources belong to collections)")
        answer = await _read_resource(client.backend, uri)
        return _DONE | {"contents": [{"uri": uri, "mimeType": "application/json", "text": answer.text}]}

    # Plain JSON is passed through: the SDK validates every result against the schema of the negotiated version.
    server.add_request_handler("tools/list", PaginatedRequestParams, list_tools)
    server.add_request_handler("tools/call", CallToolRequestParams, call_tool)
    server.add_request_handler("prompts/list", PaginatedRequestParams, _prompts)
    server.add_request_handler("resources/list", PaginatedRequestParams, list_resources)
    server.add_request_handler("resources/templates/list", PaginatedRequestParams, list_templates)
    server.add_request_handler("resources/read", ReadResourceRequestParams, read_resource)

    async def introduce(ctx: Request, call_next: CallNext) -> HandlerResult:
        result = await call_next(ctx)
        if ctx.method in _INTRODUCTIONS and isinstance(result, dict):
            client = client_of(ctx)
            chosen = client.choice or client.backend.limit
            # The instructions describe the tools of collections.
            if chosen is not None and not chosen.within(client.backend.limit).has("collections", read_only=True):
                result.pop("instructions", None)
        return result

    server.middleware.append(introduce)
    return server


async def _prompts(_request: Request, _params: PaginatedRequestParams) -> dict[str, Any]:
    """Return no prompts: some clients drop a server that does not know the method."""
    return _DONE | {"prompts": []}


async def _resources(client: McpClient) -> Sequence[Mapping[str, Any]]:
    return listing.resources(client.backend.may) if await client.has("collections", read_only=True) else ()


async def _call_tool(request: Request, client: McpClient, params: CallToolRequestParams) -> dict[str, Any]:
    """Return a tool's result, or its failure as a result that the model reads. Raises MCPError if it is not listed."""
    backend = client.backend
    row = listing.tool(params.name, backend.may)
    if row is None or not await client.has(row.group, read_only=row.read_only or row.may_read):
        hint = "" if row is None else f" ({_hidden_reason(row, await client.effective_choice(), backend.limit)})"
        raise MCPError(INVALID_PARAMS, f"Unknown tool: {params.name[:200]}{hint}")
    if row.may_read and not row.only_reads(params.arguments or {}) and not await client.has(row.group, read_only=False):
        failure = {
            "code": "forbidden",
            "message": "this may change something, and only reading was chosen",
            "field": "query",
            "hint": "a SELECT is possible",
        }
        return _result(BackendAnswer(BackendFailure(failure).line(), {"error": failure}), failed=True)
    try:
        answer = await with_progress(
            lambda progress: backend.call(params.name, params.arguments or {}, progress),
            request.session.report_progress if request.meta and "progress_token" in request.meta else None,
        )
    except BackendFailure as failed:
        return _result(BackendAnswer(failed.line(), {"error": dict(failed.failure)}), failed=True)
    return _result(answer, failed=False)


def _hidden_reason(row: ListedTool, shown: ToolChoice, limit: ToolChoice | None) -> str:
    """Return why a tool is not shown, and how a client gets it."""
    if limit is not None and not row.is_in(limit):
        return f"it is one of {row.group}, and this token is limited to the tools {limit}"
    more = ToolChoice.of({*shown.words, row.group} - ({READ_ONLY} if not row.read_only else set()))
    return f"it is one of {row.group}: start `symbi mcp` with --tools {more}, or end the URL of /mcp with ?tools={more}"


def _result(answer: BackendAnswer, *, failed: bool) -> dict[str, Any]:
    return _DONE | {
        "content": [{"type": "text", "text": answer.text}],
        "structuredContent": answer.content,
        "isError": failed,
    }


async def _read_resource(backend: McpBackend, uri: str) -> BackendAnswer:
    """Return the content of a resource. Raises a failure as an error of the protocol."""
    try:
        return await with_progress(lambda _: backend.read(uri), None)
    except BackendFailure as failed:
        codes = {"not_found": RESOURCE_NOT_FOUND, "invalid_params": INVALID_PARAMS, "forbidden": INVALID_PARAMS}
        code = codes.get(str(failed.failure.get("code")), INTERNAL_ERROR)
        raise MCPError(code, failed.line(), {"error": dict(failed.failure)}) from None
