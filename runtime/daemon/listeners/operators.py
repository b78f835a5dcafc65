"""The operators' listener (`/readyz`, `/metrics`, `/v1`, `/mcp`), and all operations on the admin socket."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler

from runtime.api.admin.operations import AdminCall, error_json
from runtime.api.admin.protocol import CLIENT_HEADER, LINES, ROOT_HEADER
from runtime.api.admin.readiness import known_model_checks, server_checks, unmounted_webhooks
from runtime.api.admin.state import Event
from runtime.api.rest.authentication import Authenticator
from runtime.api.rest.endpoints import UNVERSIONED
from runtime.api.rest.problem import Problem
from runtime.daemon.listeners.feed_endpoint import ROUTE as FEED_ROUTE
from runtime.daemon.listeners.feed_endpoint import FeedEndpoint
from runtime.daemon.listeners.mcp_endpoint import add_mcp
from runtime.daemon.listeners.metrics_endpoint import MetricsEndpoint
from runtime.daemon.listeners.origin_check import OriginCheck, problem_response
from runtime.daemon.listeners.progress_stream import Events, stream_answer
from runtime.daemon.listeners.request_places import RequestPlaces
from runtime.daemon.listeners.rest_endpoint import v1
from runtime.daemon.program.app import App
from runtime.database.errors import Unavailable
from runtime.errors import SymbiontError, UsageError
from runtime.http.stream import StreamSender
from runtime.identity.caller import OWNER_CALLER, Caller
from runtime.memory.indexing.progress import Progress
from runtime.tasks.feeds import TaskFeeds
from runtime.tools.context import no_progress

log = structlog.get_logger("symbiont.admin")

# A delivery to be signed is sent in base64; more than this cannot be a delivery.
LARGEST_REQUEST = 64 * 1024 * 1024
TOKEN_SECONDS = 2
"""Seconds for which readiness waits for the database to check a token."""


def operators(app: App, serving: Callable[[], bool], *, local: bool) -> web.Application:
    """Return the application of the operators' listener: readiness for everyone, and `/v1`, `/mcp` and the paths
    without a version for callers with a token, and the calendar feed of tasks. `local`: only this machine reaches it,
    so `/metrics` needs no token."""
    settings = app.state.settings
    bearer = Authenticator(app.state.tokens, app.state.clock)
    streams = StreamSender()
    application, handler = _health(app, serving, bearer), v1(app, bearer, streams)
    application.on_shutdown.append(streams.stop)
    application.middlewares.append(RequestPlaces().middleware)
    application.middlewares.append(
        OriginCheck(settings.admin_listen, settings.public_url, settings.served_names).middleware
    )
    application.middlewares.append(_as_problems)
    scrape = MetricsEndpoint(app, bearer, open=local, public=settings.metrics_public)
    application.router.add_get("/metrics", scrape)
    application.on_cleanup.append(scrape.close)
    add_mcp(application, app, bearer)
    # Before the paths of callers with a token.
    feed = FeedEndpoint(TaskFeeds(app.state.database, app.state.clock), bearer, app.state.clock)
    application.router.add_route("*", FEED_ROUTE, feed.answer)
    for path in ("/v1", "/v1/{rest:.*}", *UNVERSIONED):
        application.router.add_route("*", path, handler)
    return application


def admin(app: App, serving: Callable[[], bool]) -> web.Application:
    """Return the application of the admin socket. Only the root's user can open it, so the only check is that the
    request is for this root."""
    application = _health(app, serving, None, largest=LARGEST_REQUEST)
    identity = app.state.root.identity

    @web.middleware
    async def for_this_root(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.method == "POST" and request.headers.get(ROOT_HEADER) != identity:
            answer = {
                "message": "the request is for another root than the one of this process",
                "hint": None,
                "exit_code": 1,
            }
            return web.json_response({"error": answer}, status=421)
        return await handler(request)

    async def name_root(_request: web.Request, response: web.StreamResponse) -> None:
        response.headers[ROOT_HEADER] = identity

    application.middlewares.append(for_this_root)
    application.on_response_prepare.append(name_root)
    application.router.add_post("/v1/{operation}", _operation(app))
    return application


def _health(
    app: App, serving: Callable[[], bool], bearer: Authenticator | None, *, largest: int = 1024 * 1024
) -> web.Application:
    """Return the application with the health and readiness paths. `bearer`: authenticates requests for details; None if
    everyone may read them. `largest`: maximum bytes of a request."""
    application = web.Application(client_max_size=largest)
    application.on_response_prepare.append(_remove_server_header)
    application.router.add_get("/healthz", _healthz)
    application.router.add_get("/readyz", _readyz(app, serving, bearer))
    return application


@web.middleware
async def _as_problems(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer a path or a method that is not there as every other error is answered."""
    try:
        return await handler(request)
    except web.HTTPNotFound:
        hint = "there are /healthz, /readyz, /metrics, /v1 and /mcp; /v1/openapi.json describes /v1"
        return problem_response(Problem("not_found", "there is nothing at this path", hint=hint))
    except web.HTTPMethodNotAllowed as refused:
        allowed = refused.headers["Allow"]
        return problem_response(Problem("method_not_allowed", f"here are {allowed}", headers=(("Allow", allowed),)))


async def _remove_server_header(_request: web.Request, response: web.StreamResponse) -> None:
    """Remove the header that names the server software (RFC 9110 section 10.2.4)."""
    response.headers.pop("Server", None)


async def _healthz(_request: web.Request) -> web.Response:
    return web.json_response({"status": "ok"})


def _readyz(app: App, serving: Callable[[], bool], bearer: Authenticator | None) -> Callable[[web.Request], Any]:
    async def readyz(request: web.Request) -> web.Response:
        try:
            detailed = bearer is None or await _may_read(request, bearer)
        except Problem as problem:
            return problem_response(problem)
        state = readiness(app, serving())
        status = 200 if state["ready"] else 503
        if not detailed:
            # Without a valid token the answer has no names of webhooks, paths or locations of secrets.
            return web.json_response({"ready": state["ready"]}, status=status)
        # Deliveries are stored while a model is away, and calls fail alone while a server is: only warnings here.
        state["warnings"] += [*app.state.switches.reasons, *_known_warnings(app)]
        return web.json_response(state, status=status)

    return readyz


def _known_warnings(app: App) -> list[str]:
    """Return the checks of models and MCP servers that are not GREEN, and what was last seen RED, as lines.

    Models that could not be opened are among the warnings of the generation. Nothing is asked for a probe:
    `runtime.daemon.program.upkeep.look_at_models` does that.
    """
    checks = known_model_checks([model for model in app.models if model.client is not None])
    checks += server_checks(app.generation.servers, app.generation.program)
    shown = [*(each for each in checks if each.status != "GREEN"), *app.red_checks]
    return [f"{each.check}: {each.text}" for each in shown]


async def _may_read(request: web.Request, bearer: Authenticator) -> bool:
    """Return True if the request has a valid token, which is not limited to some tools. Raises Problem for an invalid
    one. While the database is unavailable no token can be checked, and the answer is False."""
    sent = request.headers.getall("Authorization", ())
    try:
        async with asyncio.timeout(TOKEN_SECONDS):
            if not sent:
                return False
            caller = await bearer.caller(sent, request.remote)
            return caller.may("read") and caller.tools is None
    except (Unavailable, TimeoutError):
        return False


def readiness(app: App, serving: bool) -> dict[str, Any]:
    """Return the running generation, its webhooks that are not mounted, and the problem of the last reload."""
    problem = app.problem
    return {
        "ready": serving and app.generation.number > 0 and app.storage_problem is None,
        "generation": app.generation.number,
        "webhooks": len(app.table),
        "not_mounted": [
            {"webhook": entry.name, "reason": entry.problem, "declared": entry.origin}
            for entry in unmounted_webhooks(app.mounts)
        ],
        "storage": app.storage_problem or "ok",
        "removed": list(app.removed),
        "warnings": list(app.generation.warnings),
        "last_error": None
        if problem is None
        else {
            "message": problem.message,
            "code": problem.code,
            "file": problem.file,
            "line": problem.line,
            "column": problem.column,
        },
    }


def _operation(app: App) -> Callable[[web.Request], Any]:
    async def operate(request: web.Request) -> web.StreamResponse:
        name = request.match_info["operation"]
        tool = AdminCall(name, {}).tool
        try:
            call = AdminCall.read(name, await _envelope(request))
            caller = OWNER_CALLER
            if request.headers.get(CLIENT_HEADER) == "mcp":
                app.state.switches.need(call.target.stopped_by)
                caller = replace(caller, via="agent")
            if request.headers.get("Accept") == LINES:
                events = Events()
                return await stream_answer(request, partial(_run, app, caller, call, events.tell), tool, events)
            return web.json_response(await _run(app, caller, call, None))
        except web.HTTPRequestEntityTooLarge:
            answer = {"message": f"the request has more than {LARGEST_REQUEST:,} bytes", "hint": None, "exit_code": 2}
            return web.json_response({"error": answer}, status=413)
        except SymbiontError as error:
            return web.json_response({"error": error_json(error, tool)}, status=400)
        except Exception:
            log.exception("operation_failed", operation=name)
            answer = {"message": f"{name} failed; see the daemon's log", "hint": None, "exit_code": 1}
            return web.json_response({"error": answer}, status=500)

    return operate


async def _envelope(request: web.Request) -> object:
    """Return the user and the parameters of a call. Raises UsageError."""
    try:
        return await request.json()
    except (ValueError, RecursionError):
        raise UsageError("the parameters are not JSON") from None
    except (web.RequestPayloadError, ConnectionError):
        raise UsageError("the parameters did not arrive") from None


async def _run(
    app: App,
    caller: Caller,
    call: AdminCall,
    tell: Callable[[Event], None] | None,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Return the answer of a call. `tell`: takes its events."""
    async with app.pinned():
        context = replace(app.admin_context(), caller=caller, progress=progress)
        if tell is not None:
            context = replace(context, tell=tell)
        return await call.answer(context)
