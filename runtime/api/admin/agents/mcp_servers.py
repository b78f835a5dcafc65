"""Operations on MCP servers: show, inspect, approve, test, log in. An agent has none of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

import structlog

from dslc.blocks.mcp import McpServer
from dslc.blocks.values.quantity import format_duration
from runtime.api.admin.operation import operation
from runtime.api.admin.parameters import Text, time_json
from runtime.api.admin.state import AdminContext
from runtime.clock import milliseconds
from runtime.errors import Conflict, SymbiontError, UsageError
from runtime.suggestions import unknown_name
from runtime.tool_servers.approvals import Approval, Facts, tool_changes
from runtime.tool_servers.approvals import identity as identity_of
from runtime.tool_servers.connection import opened
from runtime.tool_servers.definition import ToolDefinition, digest_of
from runtime.tool_servers.errors import ServerAway
from runtime.tool_servers.server import ProgramServer
from runtime.tools.model.names import model_name
from runtime.tools.model.schema import model_schema
from runtime.tools.server_tool import ServerTool

if TYPE_CHECKING:
    from runtime.tool_servers.session import Session, ToolListing

log = structlog.get_logger("symbiont.mcp")

Answer = TypeVar("Answer")


@operation()
async def mcp_server_list(context: AdminContext) -> dict[str, Any]:
    """Return the servers of the program."""
    return {"servers": [_row(server) for _, server in sorted(context.mcp.servers.items())]}


@operation()
async def mcp_server_show(context: AdminContext, server: Text) -> dict[str, Any]:
    """Return the server `server`: what is approved of it, and its tools."""
    found = _server(context, server)
    return {
        **_row(found),
        "block": dict(found.facts),
        "digest": digest_of(dict(found.facts)),
        "login": _has_login(found.block),
        "approved_at": None if found.approval is None else time_json(found.approval.at),
        "tools": [_tool(found, tool) for tool in found.offered],
        "not_offered": _tools_not_offered(found),
    }


@operation()
async def mcp_server_inspect(context: AdminContext, server: Text, digest: Text) -> dict[str, Any]:
    """Start or call the server `server` and return its tools, to be approved. `digest`: of the block that the person
    has seen. Raises Conflict if it is another one now, ServerAway."""
    found, facts = _unchanged_server(context, server, digest)
    listed = await _with_session(context, found, lambda session: session.tools())
    context.mcp.registry.inspected[server] = (facts, listed.tools)
    before = () if found.approval is None else found.approval.tools
    changes = tool_changes(before, listed.tools)
    return {
        "server": server,
        "tools": [{**_tool(found, tool), "name": tool.name} for tool in listed.tools],
        "refused": list(listed.refused),
        "new": list(changes.new),
        "changed": [_change(name, before, listed.tools) for name in changes.changed],
        "gone": list(changes.gone),
        "identity": identity_of(facts, listed.tools),
    }


@operation(changes=True)
async def mcp_server_approve(context: AdminContext, server: Text, identity: Text) -> dict[str, Any]:
    """Approve the server `server` as it was inspected last. `identity`: of what the person has seen."""
    found = _server(context, server)
    facts, tools = context.mcp.registry.inspected.get(server, ({}, ()))
    if identity_of(facts, tools) != identity or facts != found.facts:
        raise Conflict(f"{server} has changed meanwhile", hint=f"symbi mcp-server approve {server}")
    context.mcp.registry.approvals.store(server, Approval(facts, tools, milliseconds(context.clock)))
    del context.mcp.registry.inspected[server]
    log.info("mcp_server_approved", server=server, tools=len(tools))
    await context.mcp.follow_approvals()
    return {"server": server, "tools": len(tools)}


@operation()
async def mcp_server_test(context: AdminContext, server: Text) -> dict[str, Any]:
    """Connect to the approved server `server` anew, and return what it says. Raises ServerAway."""
    found = _server(context, server)
    if found.approval is None or found.differences:
        what = "has changed since it was approved" if found.differences else "is not approved"
        raise UsageError(f"{server} {what}", hint=f"symbi mcp-server approve {server}")
    began = time.monotonic()

    async def name_and_tools(session: Session) -> tuple[str, ToolListing]:
        return session.server_label, await session.tools()

    shown, listed = await _with_session(context, found, name_and_tools)
    seconds = round(time.monotonic() - began, 3)
    changes = tool_changes(found.approval.tools, listed.tools)
    return {
        "server": server,
        "says": shown,
        "seconds": seconds,
        "tools": len(listed.tools),
        "differences": changes.lines,
        "refused": list(listed.refused),
    }


@operation(changes=True)
async def mcp_server_login_begin(
    context: AdminContext, server: Text, digest: Text, redirect_uri: Text
) -> dict[str, Any]:
    """Begin a login to the server `server`; return the address for the browser, which comes back to `redirect_uri`.
    `digest`: as for `inspect`."""
    from runtime.tool_servers.login import LoginAttempt
    from runtime.tool_servers.session import Session

    found, _ = _unchanged_server(context, server, digest)
    block, place = found.block, found.address
    if block.url is None or not _has_login(block):
        raise UsageError(f"{block.name} has no login", hint="only a server with `url` and without `token` has one")
    if not redirect_uri.startswith("http://127.0.0.1:"):
        raise UsageError("the browser can only come back to this machine")
    if place is None:
        raise _missing_secrets_error(found)
    if (before := context.mcp.registry.attempts.pop(block.name, None)) is not None:
        await before.close()
    attempt = context.mcp.registry.attempts[block.name] = LoginAttempt(
        context.mcp.registry.logins, block.name, block.url, redirect_uri
    )
    seconds = block.start_timeout.total_seconds()

    def use(auth: Any) -> Any:
        return Session.open(place, seconds=seconds, auth=auth, on_end=_ignore, on_change=lambda: None, on_line=_ignore)

    return {"server": server, "address": await attempt.begin(use)}


@operation(changes=True)
async def mcp_server_login_end(
    context: AdminContext, server: Text, code: Text, state: Text | None = None, iss: Text | None = None
) -> dict[str, Any]:
    """Finish a login with what the browser brought: `code`, `state` and `iss`."""
    found = _server(context, server)
    attempt = context.mcp.registry.attempts.pop(server, None)
    if attempt is None:
        raise UsageError(f"no login to {server} has begun", hint=f"symbi mcp-server login {server}")
    await attempt.end(code, state, iss)
    log.info("mcp_server_login", server=server)
    if found.connection is not None:
        found.connection.restart()
    return {"server": server}


def _has_login(block: McpServer) -> bool:
    """Return True for a service whose block has no token of its own."""
    return block.url is not None and block.token is None


def _ignore(_text: str) -> None:
    pass


def _server(context: AdminContext, name: str) -> ProgramServer:
    """Return the server called `name`. Raises NotFound."""
    found = context.mcp.servers.get(name)
    if found is None:
        raise unknown_name("mcp block", name, context.mcp.servers)
    return found


def _unchanged_server(context: AdminContext, name: str, digest: str) -> tuple[ProgramServer, Facts]:
    """Return the server called `name`, and what is approved of its block. Raises Conflict if this is not what the
    person has seen, which `digest` identifies."""
    server = _server(context, name)
    facts = server.facts
    if digest_of(dict(facts)) != digest:
        raise Conflict(f"the block of {server.block.name} has changed meanwhile", hint="look at it again")
    return server, facts


async def _with_session(
    context: AdminContext, server: ProgramServer, use: Callable[[Session], Coroutine[Any, Any, Answer]]
) -> Answer:
    """Return what `use` returns for a connection of its own. Raises SymbiontError."""
    from runtime.tool_servers.session import failure_reason

    if server.address is None:
        raise _missing_secrets_error(server)
    auth = await context.mcp.registry.authentication(server.block)()
    seconds, began = server.block.start_timeout.total_seconds(), time.monotonic()
    answer: list[Answer] = []
    failure: SymbiontError | None = None
    try:
        async with opened(server.address, seconds, auth) as session:
            # Errors inside would leave as those of the SDK's tasks.
            try:
                async with asyncio.timeout(seconds - (time.monotonic() - began)):
                    answer.append(await use(session))
            except TimeoutError:
                failure = ServerAway(f"it did not list its tools within {format_duration(seconds)} after its start")
            except SymbiontError as error:
                failure = error
    except SymbiontError as error:
        failure = error
    except Exception as error:
        if not answer:
            failure = ServerAway(failure_reason(server.address, error))
    if failure is not None:
        raise ServerAway(f"{server.block.name} is away: {failure}", hint=failure.hint)
    return answer[0]


def _missing_secrets_error(server: ProgramServer) -> SymbiontError:
    return SymbiontError(f"{server.block.name} cannot be started: {'; '.join(server.missing)}")


def _row(server: ProgramServer) -> dict[str, Any]:
    connection = server.connection
    changes = server.changes
    return {
        "server": server.block.name,
        "kind": "command" if server.block.command is not None else "url",
        "state": server.state,
        "says": "" if connection is None else connection.server_label,
        "problem": None if connection is None else connection.problem,
        "missing_secrets": list(server.missing),
        "differences": [*server.differences, *([] if changes is None else changes.lines)],
        "refused": list(server.refused),
        "offered": len(server.offered),
    }


def _tool(server: ProgramServer, tool: ToolDefinition) -> dict[str, Any]:
    """Return a tool by its whole name, and `model`: what a language model reads of it, to the letter."""
    row = ServerTool(server, tool)
    read = model_schema(row, model_name(row.name))
    model = {"name": read.name, "description": read.description, "parameters": read.parameters}
    return {**tool.to_json(), "name": row.name, "model": model}


def _tools_not_offered(server: ProgramServer) -> list[dict[str, Any]]:
    """Return the tools that agents do not have, each with the reason."""
    changes = server.changes
    if changes is None:
        return []
    kinds = {"new": changes.new, "changed": changes.changed, "gone": changes.gone}
    found = [{"name": name, "reason": kind} for kind, names in kinds.items() for name in names]
    return [*found, *({"name": "", "reason": line} for line in server.refused)]


def _change(name: str, before: tuple[ToolDefinition, ...], after: tuple[ToolDefinition, ...]) -> dict[str, Any]:
    """Return the tool before and after a change."""
    old, new = ({tool.name: tool for tool in each}[name] for each in (before, after))
    return {"name": name, "before": old.to_json(), "after": new.to_json()}
