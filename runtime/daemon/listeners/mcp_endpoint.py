"""`/mcp` on the operators' listener: the SDK's streamable HTTP, for callers with a token (MCP 2025-11-25,
transports)."""

from __future__ import annotations

import asyncio
import json
import math
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self
from urllib.parse import parse_qsl

import structlog
from aiohttp import web
from pydantic_core import from_json

from runtime.api.rest.authentication import Authenticator
from runtime.api.rest.problem import Problem, problem_of
from runtime.daemon.listeners.asgi_bridge import bridge
from runtime.daemon.listeners.request_places import RequestBody
from runtime.daemon.program.app import App
from runtime.errors import SymbiontError, UsageError
from runtime.identity.caller import Caller, OutsideOfToken
from runtime.json_bounds import OFF_THE_LOOP, excess
from runtime.suggestions import unknown_name
from runtime.tool_groups import EVERYTHING, ToolChoice

if TYPE_CHECKING:
    from mcp.server.auth.middleware.bearer_auth import AuthorizationContext
    from mcp.server.streamable_http import StreamableHTTPServerTransport
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

log = structlog.get_logger("symbiont.mcp")

PATH: Final = "/mcp"
LARGEST: Final = 16 * 1024 * 1024
"""Bytes of one message."""
BODY_SECONDS: Final = 30
AT_A_TIME: Final = 32
"""Maximum number of running requests. The listener accepts twice as many connections, so others are still answered."""
AT_A_TIME_OF_ONE: Final = 16
"""Maximum number for one token, so that no token blocks the others."""
SESSIONS: Final = 512
SESSIONS_OF_ONE: Final = 64
"""Of one token."""
IDLE_SECONDS: Final = 30 * 60
"""Time after which an unused session is closed, in seconds."""
LOOK_SECONDS: Final = 1.0
"""Interval in seconds between checks of a running request's token."""

_CALLER: Final = "symbiont.caller"
_CHOICE: Final = "symbiont.choice"
_SESSION: Final = "mcp-session-id"
_QUERY: Final = ("tools", "output_schemas")
"""The parameters of the URL."""


def add_mcp(application: web.Application, app: App, bearer: Authenticator) -> None:
    """Serve `/mcp` of `application` from `app`."""
    over_http = McpEndpoint(app, bearer)
    application.router.add_route("*", PATH, over_http)
    application.on_cleanup.append(over_http.close)


class _Choice(NamedTuple):
    """The choice of a client in the URL."""

    tools: ToolChoice | None
    output_schemas: bool

    @classmethod
    def read(cls, query: str, caller: Caller) -> Self:
        """Return the choice in the query of a request. Raises Problem, and `Forbidden` for tools that the caller's
        token does not have."""
        given = parse_qsl(query, keep_blank_values=True)
        values = dict(given)
        try:
            for name in values:
                if name not in _QUERY:
                    raise unknown_name("parameter of the URL", name[:80], _QUERY)
            if len(values) < len(given):
                raise UsageError("the URL has a parameter twice", hint="separate groups of tools by commas")
            if (schemas := values.get("output_schemas", "false")) not in {"true", "false"}:
                raise UsageError("output_schemas in the URL is not one of true and false")
            choice = ToolChoice.read(values["tools"]) if "tools" in values else None
        except UsageError as error:
            raise Problem("malformed", error.line()) from None
        limit = caller.tools
        # `all` is all that the token has.
        if choice is None or limit is None or choice.groups == EVERYTHING.groups:
            return cls(choice, schemas == "true")
        if other := choice.groups - limit.groups:
            raise OutsideOfToken(limit, f"the URL asks for {', '.join(sorted(other))}")
        return cls(choice, schemas == "true")


class McpEndpoint:
    """The handler of `/mcp`. The SDK is loaded at the first authenticated request."""

    def __init__(self, app: App, bearer: Authenticator) -> None:
        self._app = app
        self._bearer = bearer
        self._running_requests: Counter[str] = Counter()
        self._starting: asyncio.Future[StreamableHTTPSessionManager] | None = None
        self._running: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        """Answer `request`. Checks are made in the order of this function's lines."""
        try:
            caller = await self._bearer.caller(request.headers.getall("Authorization", ()), request.remote)
            choice = _Choice.read(request.rel_url.raw_query_string, caller)
        except Problem as problem:
            return _problem(problem)
        except SymbiontError as error:
            return _problem(problem_of(error))
        if request.method not in {"POST", "DELETE"}:
            # The server never sends first, so there is no stream to open with GET.
            return _refusal(405, "only POST and DELETE are supported", Allow="POST, DELETE")
        token = caller.token_id or ""
        if self._running_requests.total() >= AT_A_TIME or self._running_requests[token] >= AT_A_TIME_OF_ONE:
            return _refusal(503, "too many requests are running", **{"Retry-After": "1"})
        self._running_requests[token] += 1
        message = RequestBody(request, BODY_SECONDS)
        try:
            body = await message.read(LARGEST)
            manager = await self._manager()
            large = len(body) > OFF_THE_LOOP
            if (what := await asyncio.to_thread(_excess, body) if large else _excess(body)) is not None:
                return _refusal(400, f"the message is not accepted: {what}")
            return await self._serve(manager, request, body, caller, choice)
        except Problem as problem:
            return _problem(problem)
        finally:
            message.release()
            self._running_requests[token] -= 1
            self._running_requests += Counter()  # drops counts of zero

    async def _serve(
        self,
        manager: StreamableHTTPSessionManager,
        request: web.Request,
        body: bytes,
        caller: Caller,
        choice: _Choice,
    ) -> web.StreamResponse:
        user = {"user": _user(caller), _CALLER: caller, _CHOICE: choice}
        async with self._watch_token(request, lambda: self._end_session(manager, request, user)):
            return await bridge(manager.handle_request, request, body, user)

    @asynccontextmanager
    async def _watch_token(self, request: web.Request, end: Callable[[], Any]) -> AsyncIterator[None]:
        """End the session and close the connection when the token becomes invalid."""

        async def watch() -> None:
            while True:
                await asyncio.sleep(LOOK_SECONDS)
                try:
                    await self._bearer.caller(request.headers.getall("Authorization", ()), request.remote)
                except Problem:
                    await end()
                    if request.transport is not None:
                        request.transport.abort()
                    return
                except SymbiontError:
                    # The database is unavailable; the token is checked again later.
                    continue

        watching = asyncio.create_task(watch(), name="the token of a request")
        try:
            yield
        finally:
            watching.cancel()

    async def _end_session(
        self, manager: StreamableHTTPSessionManager, request: web.Request, user: dict[str, Any]
    ) -> None:
        """Cancel the running requests of the request's session, as its client would."""
        session = request.headers.get(_SESSION)
        if session is None:
            return

        async def nothing() -> dict[str, Any]:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def discard(_message: Any) -> None:
            return

        headers = [(_SESSION.encode(), session.encode("latin-1", errors="replace"))]
        scope = {"type": "http", "method": "DELETE", "path": PATH, "headers": headers, "query_string": b"", **user}
        try:
            await manager.handle_request(scope, nothing, discard)
        except Exception:
            log.exception("mcp_session_end_failed")

    async def _manager(self) -> StreamableHTTPSessionManager:
        if self._starting is None or (self._running is not None and self._running.done()):
            self._starting = asyncio.get_running_loop().create_future()
            self._running = asyncio.create_task(self._run(self._starting), name="mcp")
        return await asyncio.shield(self._starting)

    async def _run(self, started: asyncio.Future[StreamableHTTPSessionManager]) -> None:
        """Keep the sessions until `close`: they belong to the task that created their task group."""
        try:
            # Loading takes more than a second, during which deliveries are answered.
            manager = await asyncio.to_thread(_make_manager, self._app)
            async with manager.run():
                started.set_result(manager)
                await self._stop.wait()
        except Exception as error:
            if started.done():
                log.exception("mcp_sessions_ended")
            else:
                started.set_exception(error)

    async def close(self, _application: web.Application) -> None:
        """End every session."""
        self._stop.set()
        if self._running is not None:
            await asyncio.gather(self._running, return_exceptions=True)


def _excess(body: bytes) -> str | None:
    """Return the reason why a message is not read; None if it is. The SDK would write all of one that is not of the
    protocol into its answer, several times."""
    from mcp_types import jsonrpc_message_adapter

    if (what := excess(body)) is not None or not body:
        return what
    try:
        # Not `validate_json`: each of its errors has a copy of the message.
        jsonrpc_message_adapter.validate_python(from_json(body), by_name=False)
    except ValueError:
        return "it is not a message of JSON-RPC 2.0"
    return None


def _make_manager(app: App) -> StreamableHTTPSessionManager:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    from runtime.mcp.local_backend import LocalBackend
    from runtime.mcp.server import McpClient, Request, make_server

    def client_of(request: Request) -> McpClient:
        assert request.request is not None
        scope = request.request.scope
        return McpClient(LocalBackend(app.open_context, scope[_CALLER]), *scope[_CHOICE])

    class Manager(StreamableHTTPSessionManager):
        """The SDK's session manager, with a limit on the sessions of each token. At a limit the session that was unused
        for the longest time ends, because many clients open one for each task and end none."""

        def _admit_session(self, requestor: AuthorizationContext | None) -> StreamableHTTPServerTransport | None:
            theirs = [session for session, owner in self._session_owners.items() if owner == requestor]
            if len(theirs) >= SESSIONS_OF_ONE:
                return super()._admit_session(requestor) if self._end_unused(theirs) else None
            if len(self._server_instances) >= SESSIONS:
                self._end_unused(list(self._server_instances))
            return super()._admit_session(requestor)

        def _end_unused(self, sessions: Sequence[str]) -> bool:
            """End the session that was unused for the longest time. False: all answer a request."""
            scopes = ((session, self._server_instances[session].idle_scope) for session in sessions)
            unused = [(session, scope) for session, scope in scopes if scope is not None and scope.deadline < math.inf]
            if not unused:
                return False
            session, scope = min(unused, key=lambda each: each[1].deadline)
            del self._server_instances[session], self._session_owners[session]
            scope.cancel()
            return True

    server = make_server(client_of)
    return Manager(server, max_request_body_size=LARGEST, max_sessions=SESSIONS, session_idle_timeout=IDLE_SECONDS)


def _user(caller: Caller) -> Any:
    """Return the user that the SDK binds a session to: the token that opened it."""
    from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
    from mcp.server.auth.provider import AccessToken

    assert caller.token_id is not None
    held: list[str] = sorted(caller.scopes)
    return AuthenticatedUser(AccessToken(token="", client_id=caller.token_id, scopes=held, subject=caller.user_id))


def _problem(problem: Problem) -> web.Response:
    return _refusal(problem.status, problem.detail, **dict(problem.headers))


def _refusal(status: int, message: str, **headers: str) -> web.Response:
    """Return an answer that belongs to no request, in the form of the SDK's own (JSON-RPC 2.0, section 5)."""
    body = {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": message}}
    more = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", **headers}
    return web.Response(status=status, text=json.dumps(body), content_type="application/json", headers=more)
