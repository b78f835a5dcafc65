"""Operations on MCP servers: show, inspect, approve, test, log in. An agent has none of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import structlog

from dslc.blocks.mcp import McpServer
from runtime.api.admin.parameters import optional_text, text, time_json
from runtime.api.admin.state import AdminContext
from runtime.clock import milliseconds
from runtime.errors import Conflict, SymbiontError, UsageError
from runtime.suggestions import unknown_name
from runtime.tool_servers.approvals import Approval, Facts, compared, identity
from runtime.tool_servers.connection import opened
from runtime.tool_servers.definition import ToolDefinition, digest_of
from runtime.tool_servers.errors import ServerAway
from runtime.tool_servers.server import ProgramServer

if TYPE_CHECKING:
    from runtime.tool_servers.session import Listed, Session

log = structlog.get_logger("symbiont.mcp")

Answer = TypeVar("Answer")


async def list_servers(context: AdminContext, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the servers of the program."""
    return {"servers": [_row(server) for _, server in sorted(context.servers.items())]}


async def show(context: AdminContext, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the server `server`: what is approved of it, and its tools."""
    server = _server(context, parameters)
    return {
        **_row(server),
        "block": dict(server.facts),
        "digest": digest_of(dict(server.facts)),
        "login": _has_login(server.block),
        "approved_at": None if server.approval is None else time_json(server.approval.at),
        "tools": [_tool(server, tool) for tool in server.offered],
        "not_offered": _not_offered(server),
    }


async def inspect(context: AdminContext, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Start or call the server `server` and return its tools, to be approved. `digest`: of the block that the person
    has seen. Raises Conflict if it is another one now, ServerAway."""
    server, facts = _seen(context, parameters)
    listed = await _with_session(context, server, lambda session: session.tools())
    context.registry.inspected[server.block.name] = (facts, listed.tools)
    before = () if server.approval is None else server.approval.tools
    changes = compared(before, listed.tools)
    return {
        "server": server.block.name,
        "tools": [tool.to_json() for tool in listed.tools],
        "refused": list(listed.refused),
        "new": list(changes.new),
        "changed": [_change(name, before, listed.tools) for name in changes.changed],
        "gone": list(changes.gone),
        "identity": identity(facts, listed.tools),
    }


async def approve(context: AdminContext, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Approve the server `server` as it was inspected last. `identity`: of what the person has seen."""
    server, seen = _server(context, parameters), text(parameters, "identity")
    name = server.block.name
    facts, tools = context.registry.inspected.get(name, ({}, ()))
    if identity(facts, tools) != seen or facts != server.facts:
        raise Conflict(f"{name} has changed meanwhile", hint=f"symbi mcp-server approve {name}")
    context.registry.approvals.store(name, Approval(facts, tools, milliseconds(context.clock)))
    del context.registry.inspected[name]
    log.info("mcp_server_approved", server=name, tools=len(tools))
    await context.follow_approvals()
    return {"server": name, "tools": len(tools)}


async def test(context: AdminContext, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Connect to the approved server `server` anew, and return what it says. Raises ServerAway."""
    server = _server(context, parameters)
    if server.approval is None or server.differences:
        what = "has changed since it was approved" if server.differences else "is not approved"
        raise UsageError(f"{server.block.name} {what}", hint=f"symbi mcp-server approve {server.block.name}")
    began = time.monotonic()

    async def looked(session: Session) -> tuple[str, Listed]:
        return session.shown, await session.tools()

    shown, listed = await _with_session(context, server, looked)
    seconds = round(time.monotonic() - began, 3)
    changes = compared(server.approval.tools, listed.tools)
    return {
        "server": server.block.name,
        "says": shown,
        "seconds": seconds,
        "tools": len(listed.tools),
        "differences": changes.lines,
        "refused": list(listed.refused),
    }


async def login_begin(context: AdminContext, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Begin a login to the server `server`; return the address for the browser, which comes back to `redirect_uri`.
    `digest`: as for `inspect`."""
    from runtime.tool_servers.login import LoginAttempt
    from runtime.tool_servers.session import Session

    server, _ = _seen(context, parameters)
    block, place, redirect_uri = server.block, server.place, text(parameters, "redirect_uri")
    if block.url is None or not _has_login(block):
        raise UsageError(f"{block.name} has no login", hint="only a server with `url` and without `token` has one")
    if not redirect_uri.startswith("http://127.0.0.1:"):
        raise UsageError("the browser can only come back to this machine")
    if place is None:
        raise _secretless(server)
    if (before := context.registry.attempts.pop(block.name, None)) is not None:
        await before.close()
    attempt = context.registry.attempts[block.name] = LoginAttempt(
        context.registry.logins, block.name, block.url, redirect_uri
    )
    seconds = block.start_timeout.total_seconds()

    def use(auth: Any) -> Any:
        return Session.open(
            place, seconds=seconds, auth=auth, on_end=_nothing, on_change=lambda: None, on_line=_nothing
        )

    return {"server": block.name, "address": await attempt.begin(use)}


async def login_end(context: AdminContext, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Finish a login with what the browser brought: `code`, `state` and `iss`."""
    server = _server(context, parameters)
    name = server.block.name
    attempt = context.registry.attempts.pop(name, None)
    if attempt is None:
        raise UsageError(f"no login to {name} has begun", hint=f"symbi mcp-server login {name}")
    await attempt.end(text(parameters, "code"), optional_text(parameters, "state"), optional_text(parameters, "iss"))
    log.info("mcp_server_login", server=name)
    if server.connection is not None:
        server.connection.restart()
    return {"server": name}


def _has_login(block: McpServer) -> bool:
    """Return True for a service whose block has no token of its own."""
    return block.url is not None and block.token is None


def _nothing(_text: str) -> None:
    pass


def _server(context: AdminContext, parameters: Mapping[str, Any]) -> ProgramServer:
    """Return the server of the parameter `server`. Raises NotFound."""
    name = text(parameters, "server")
    found = context.servers.get(name)
    if found is None:
        raise unknown_name("mcp block", name, context.servers)
    return found


def _seen(context: AdminContext, parameters: Mapping[str, Any]) -> tuple[ProgramServer, Facts]:
    """Return the server of the parameter `server`, and what is approved of its block. Raises Conflict if this is not
    what the person has seen, which `digest` identifies."""
    server, digest = _server(context, parameters), text(parameters, "digest")
    facts = server.facts
    if digest_of(dict(facts)) != digest:
        raise Conflict(f"the block of {server.block.name} has changed meanwhile", hint="look at it again")
    return server, facts


async def _with_session(
    context: AdminContext, server: ProgramServer, use: Callable[[Session], Coroutine[Any, Any, Answer]]
) -> Answer:
    """Return what `use` returns for a connection of its own. Raises SymbiontError."""
    from runtime.tool_servers.session import broken

    if server.place is None:
        raise _secretless(server)
    auth = await context.registry.authentication(server.block)()
    seconds, began = server.block.start_timeout.total_seconds(), time.monotonic()
    answer: list[Answer] = []
    failure: SymbiontError | None = None
    try:
        async with opened(server.place, seconds, auth) as session:
            # Errors inside would leave as those of the SDK's tasks.
            try:
                async with asyncio.timeout(seconds - (time.monotonic() - began)):
                    answer.append(await use(session))
            except TimeoutError:
                failure = ServerAway(f"it did not list its tools within {seconds:g} s after its start")
            except SymbiontError as error:
                failure = error
    except SymbiontError as error:
        failure = error
    except Exception as error:
        if not answer:
            failure = ServerAway(broken(server.place, error))
    if failure is not None:
        raise ServerAway(f"{server.block.name} is away: {failure}", hint=failure.hint)
    return answer[0]


def _secretless(server: ProgramServer) -> SymbiontError:
    return SymbiontError(f"{server.block.name} cannot be started: {'; '.join(server.missing)}")


def _row(server: ProgramServer) -> dict[str, Any]:
    connection = server.connection
    changes = server.changes
    return {
        "server": server.block.name,
        "kind": "command" if server.block.command is not None else "url",
        "state": server.state,
        "says": "" if connection is None else connection.shown,
        "problem": None if connection is None else connection.problem,
        "missing_secrets": list(server.missing),
        "differences": [*server.differences, *([] if changes is None else changes.lines)],
        "offered": len(server.offered),
    }


def _tool(server: ProgramServer, tool: ToolDefinition) -> dict[str, Any]:
    return {**tool.to_json(), "name": f"{server.block.name}.{tool.name}"}


def _not_offered(server: ProgramServer) -> list[dict[str, Any]]:
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
