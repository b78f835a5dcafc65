"""What operators reach: `/readyz`, `/metrics` and `/v1` on their listener, every operation on the admin socket."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import structlog
from aiohttp import web
from aiohttp.web_protocol import RequestPayloadError

from runtime.api import OPERATIONS
from runtime.api.bearer import Bearer
from runtime.api.readiness import not_mounted
from runtime.api.resources import UNVERSIONED
from runtime.api.tool_operations import ToolOperation
from runtime.daemon.house import House
from runtime.daemon.mcp import add_mcp
from runtime.daemon.scrape import Scrape
from runtime.daemon.streamed import LINES, streamed, told
from runtime.daemon.v1 import v1
from runtime.errors import SymbiontError, UsageError
from runtime.memory.progress import Progress
from runtime.tools import TOOLS

log = structlog.get_logger("symbiont.admin")

# A delivery to be signed comes in base64; more than this is no delivery.
LARGEST_REQUEST = 64 * 1024 * 1024


def operators(house: House, serving: Callable[[], bool], *, local: bool) -> web.Application:
    """The operators' listener: how the daemon is, to everybody; `/v1`, `/mcp` and the paths that have no version to
    whoever has a token. `local`: only this machine reaches it, so `/metrics` are everybody's too."""
    bearer = Bearer(house.tokens, house.clock)
    application, handler = _health(house, serving), v1(house, bearer)
    scrape = Scrape(house, bearer, open=local, public=house.settings.metrics_public)
    application.router.add_get("/metrics", scrape)
    application.on_cleanup.append(scrape.close)
    add_mcp(application, house, bearer)
    for path in ("/v1", "/v1/{rest:.*}", *UNVERSIONED):
        application.router.add_route("*", path, handler)
    return application


def admin(house: House, serving: Callable[[], bool]) -> web.Application:
    """The admin socket: only the root's user can open it, so it asks for nothing."""
    application = _health(house, serving, largest=LARGEST_REQUEST)
    application.router.add_post("/v1/{operation}", _operation(house))
    return application


def _health(house: House, serving: Callable[[], bool], *, largest: int = 1024 * 1024) -> web.Application:
    """`largest` is the largest request in bytes."""
    application = web.Application(client_max_size=largest)
    application.on_response_prepare.append(_unnamed)
    application.router.add_get("/healthz", _healthz)
    application.router.add_get("/readyz", _readyz(house, serving))
    return application


async def _unnamed(_request: web.Request, response: web.StreamResponse) -> None:
    """Which software of which version answers is nobody's matter (RFC 9110 section 10.2.4)."""
    response.headers.pop("Server", None)


async def _healthz(_request: web.Request) -> web.Response:
    return web.json_response({"status": "ok"})


def _readyz(house: House, serving: Callable[[], bool]) -> Callable[[web.Request], Any]:
    async def readyz(_request: web.Request) -> web.Response:
        await house.probe_storage()
        state = readiness(house, serving())
        return web.json_response(state, status=200 if state["ready"] else 503)

    return readyz


def readiness(house: House, serving: bool) -> dict[str, Any]:
    """The generation that runs, what of it is not mounted and why, and why the last reload changed nothing."""
    problem = house.problem
    return {
        "ready": serving and house.generation is not None and house.storage_problem is None,
        "generation": house.generation.number if house.generation else 0,
        "webhooks": len(house.table),
        "not_mounted": [
            {"webhook": entry.name, "reason": entry.problem, "declared": entry.origin} for entry in not_mounted(house)
        ],
        "storage": house.storage_problem or "ok",
        "warnings": list(house.generation.warnings) if house.generation else [],
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


def _operation(house: House) -> Callable[[web.Request], Any]:
    async def operate(request: web.Request) -> web.StreamResponse:
        name = request.match_info["operation"]
        operation = OPERATIONS.get(name)
        tool = TOOLS.get(name)
        try:
            if operation is None:
                raise UsageError(f"this daemon has no operation {name!r}", hint="is it older than the command?")
            try:
                parameters = await request.json()
            except (ValueError, RecursionError):
                raise UsageError("the parameters are not JSON") from None
            except (RequestPayloadError, ConnectionError):
                raise UsageError("the parameters did not arrive") from None
            if not isinstance(parameters, dict):
                raise UsageError("the parameters are not a JSON object")
            if isinstance(operation, ToolOperation) and request.headers.get("Accept") == LINES:
                return await streamed(request, partial(_told, house, operation, parameters), operation.tool)
            async with house.pinned():
                return web.json_response(await operation(house, parameters))
        except web.HTTPRequestEntityTooLarge:
            answer = {"message": f"more than {LARGEST_REQUEST:,} bytes were sent", "hint": None, "exit_code": 2}
            return web.json_response({"error": answer}, status=413)
        except SymbiontError as error:
            return web.json_response({"error": told(error, tool)}, status=400)
        except Exception:
            log.exception("an operation failed", operation=name)
            answer = {"message": f"{name} failed; the daemon's log says why", "hint": None, "exit_code": 1}
            return web.json_response({"error": answer}, status=500)

    return operate


async def _told(house: House, operation: ToolOperation, parameters: dict[str, Any], progress: Progress) -> Any:
    async with house.pinned():
        return await operation(house, parameters, progress)
