"""`/v1`: one request from its token to its answer, in the order of `_answer`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, NamedTuple

import structlog

from runtime.api.rest.authentication import Authenticator
from runtime.api.rest.endpoints import ENDPOINTS, Endpoint, resource_path
from runtime.api.rest.event_stream import CONTENT_TYPE as EVENTS
from runtime.api.rest.event_stream import accepts_events, error_event, progress_events
from runtime.api.rest.input_parsing import read_object, read_query
from runtime.api.rest.openapi import describe
from runtime.api.rest.problem import CONTENT_TYPE, Problem, problem_of
from runtime.errors import SymbiontError
from runtime.identity.caller import Caller
from runtime.memory.indexing.progress import Progress
from runtime.switches import ALL_ON, Switches
from runtime.tools import resources
from runtime.tools.context import OpenContext, no_progress
from runtime.tools.tool import Tool
from runtime.tools.toolset import ALL_TOOLS

log = structlog.get_logger("symbiont.api")

DESCRIPTION = "/v1/openapi.json"

# Answers contain secrets and data of one caller; none is a page.
_HEADERS = (("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff"))


class ApiRequest(NamedTuple):
    """A request. `path` and `query`: as sent. `read` returns the body, and raises Problem if it has more bytes than
    its argument."""

    method: str
    path: str
    query: str
    authorization: Sequence[str]
    content_type: str | None
    accept: str | None
    source: str | None
    read: Callable[[int], Awaitable[bytes]]


class ApiResponse(NamedTuple):
    """An answer. `content_type` is None if there is no body. `stream`: the body in chunks, to be closed by the sender,
    in place of `body`."""

    status: int
    content_type: str | None
    body: bytes
    headers: tuple[tuple[str, str], ...]
    stream: AsyncGenerator[bytes] | None = None


class RestHandler:
    """Serves `/v1` to callers with a token."""

    def __init__(self, open_context: OpenContext, bearer: Authenticator, switches: Switches = ALL_ON) -> None:
        self._open_context = open_context
        self._bearer = bearer
        self._switches = switches

    async def answer(self, call: ApiRequest) -> ApiResponse:
        """Answer `call`; raises nothing unless the request is cancelled."""
        try:
            return await self._answer(call)
        except Problem as problem:
            return _refusal(problem)
        except SymbiontError as error:
            return _refusal(_problem(error, call))
        except Exception:
            log.exception("request_failed", method=call.method, path=call.path)
            return _refusal(Problem("internal", "see the daemon's log"))

    async def _answer(self, call: ApiRequest) -> ApiResponse:
        caller = await self._bearer.caller(call.authorization, call.source)
        if call.path == DESCRIPTION and call.method in {"GET", "HEAD"}:
            caller.need("read")
            return ApiResponse(200, "application/json", describe(ENDPOINTS), _HEADERS)
        if (path := resource_path(call.path)) is not None:
            return await self._read(call, path, caller)
        endpoint, in_path = _find(call)
        try:
            caller.need(endpoint.tool.scope)
            self._switches.need(endpoint.stopped_by)
            given = await _given(call, endpoint, in_path)
            if endpoint.tool.long and call.method != "HEAD" and accepts_events(call.accept):
                events = self._events(call, endpoint, caller, given)
                await anext(events)
                return ApiResponse(200, EVENTS, b"", _HEADERS, events)
            return await self._call(endpoint, caller, given)
        except SymbiontError as error:
            raise _problem(error, call, endpoint.tool, caller) from error

    async def _read(self, call: ApiRequest, path: str, caller: Caller) -> ApiResponse:
        if call.method not in {"GET", "HEAD"}:
            raise _not_allowed({"GET"})
        if call.query:
            raise Problem("malformed", "this resource has no query parameters")
        try:
            async with self._open_context(caller, no_progress) as context:
                result = await resources.read(context, path)
        except SymbiontError as error:
            raise _problem(error, call, None, caller) from error
        return ApiResponse(200, "application/json", result.model_dump_json().encode(), _HEADERS)

    async def _call(self, endpoint: Endpoint, caller: Caller, given: Mapping[str, Any]) -> ApiResponse:
        async with self._open_context(caller, no_progress) as context:
            result = await ALL_TOOLS.call(endpoint.tool.name, context, given)
        if endpoint.status == 204:
            return ApiResponse(204, None, b"", _HEADERS)
        location: tuple[tuple[str, str], ...] = ()
        if endpoint.location is not None:
            location = (("Location", endpoint.location.format_map(result.model_dump(mode="json"))),)
        return ApiResponse(endpoint.status, "application/json", result.model_dump_json().encode(), _HEADERS + location)

    async def _events(
        self, call: ApiRequest, endpoint: Endpoint, caller: Caller, given: Mapping[str, Any]
    ) -> AsyncGenerator[bytes]:
        """Yield the tool's progress and result as events. Raises SymbiontError only before the first chunk."""

        async def work(progress: Progress) -> Any:
            async with self._open_context(caller, progress) as context:
                return (await ALL_TOOLS.call(endpoint.tool.name, context, given)).model_dump(mode="json")

        begun = False
        async with aclosing(progress_events(work)) as events:
            try:
                async for event in events:
                    yield event
                    begun = True
            except SymbiontError as error:
                if not begun:
                    raise
                yield error_event(_problem(error, call, endpoint.tool, caller))


def _find(call: ApiRequest) -> tuple[Endpoint, dict[str, str]]:
    """Return the endpoint and the ids in its path. Raises Problem."""
    method = "GET" if call.method == "HEAD" else call.method
    found = [(row, match) for row in ENDPOINTS if (match := row.pattern.fullmatch(call.path))]
    for row, match in found:
        if row.method == method:
            return row, match.groupdict()
    if found or call.path == DESCRIPTION:
        allowed = {row.method for row, _ in found} or {"GET"}
        raise _not_allowed(allowed)
    raise Problem("not_found", "there is no such resource", hint=f"{DESCRIPTION} describes the existing ones")


def _not_allowed(allowed: set[str]) -> Problem:
    methods = ", ".join(sorted(allowed | {"HEAD"} if "GET" in allowed else allowed))
    return Problem("method_not_allowed", f"here are {methods}", headers=(("Allow", methods),))


def _problem(error: SymbiontError, call: ApiRequest, tool: Tool | None = None, caller: Caller | None = None) -> Problem:
    problem = problem_of(error, tool, caller)
    if problem.status >= 500:
        log.warning("request_unavailable", path=call.path, reason=error.line())
    return problem


async def _given(call: ApiRequest, endpoint: Endpoint, in_path: Mapping[str, str]) -> dict[str, Any]:
    """Return the tool's parameters, each from its place. Raises Problem."""
    if endpoint.body:
        if call.query:
            raise Problem("malformed", "the parameters belong in the body, not in the query")
        given = read_object(await call.read(endpoint.largest), call.content_type)
    else:
        given = read_query(call.query, endpoint.tool.parameters)
    for name in in_path:
        if name in given:
            raise Problem("malformed", f"{name} is already in the path")
    return {**given, **in_path}


def _refusal(problem: Problem) -> ApiResponse:
    return ApiResponse(problem.status, CONTENT_TYPE, problem.body(), _HEADERS + problem.headers)
