"""`/v1`: one request from its token to its answer, in the order of `_answer`."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack, aclosing
from dataclasses import replace
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import structlog
from pydantic import BaseModel

from runtime.api.rest.agent_streams import HEARTBEAT_SECONDS, AgentStreams, StreamOptions
from runtime.api.rest.authentication import Authenticator
from runtime.api.rest.endpoints import DELTAS, Endpoint, endpoints_at, resource_path
from runtime.api.rest.event_stream import CONTENT_TYPE as EVENTS
from runtime.api.rest.event_stream import accepts_events, error_event, progress_events
from runtime.api.rest.input_parsing import read_object, read_query, take_flag
from runtime.api.rest.openapi import describe
from runtime.api.rest.problem import CONTENT_TYPE, Problem, problem_of
from runtime.errors import SymbiontError
from runtime.identity.caller import Caller
from runtime.memory.indexing.progress import Progress
from runtime.switches import ALL_ON, Switches
from runtime.tools import resources
from runtime.tools.context import OpenContext, no_progress
from runtime.tools.tool import Tool, WrongParameters
from runtime.tools.toolset import ALL_TOOLS

log = structlog.get_logger("symbiont.api")

DESCRIPTION = "/v1/openapi.json"
TOKEN_SECONDS: Final = 1.0
"""Seconds after which the token of a stream is looked up again."""
BODIES_OF_ONE: Final = 64
"""Maximum number of bodies that one token sends at the same time, so that no token blocks the others."""

_OF_OPENAI: Final = re.compile(
    "/v1/(?:assistants|audio|batches|chat|completions|containers|conversations|embeddings|evals|files|fine_tuning|images|"
    "models|moderations|realtime|responses|threads|uploads|vector_stores|videos)(?:/|$)"
)
"""Paths of OpenAI's APIs. Its clients read errors in its form only."""
_CHAT_HINT: Final = "an agent answers at POST /v1/agents/{agent}/chat"

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
    last_event_id: str | None = None


class ApiResponse(NamedTuple):
    """An answer. `content_type` is None if there is no body. `stream`: the body in chunks, to be closed by the sender,
    in place of `body`. `silence`: maximum seconds between two chunks; None: as the sender has it."""

    status: int
    content_type: str | None
    body: bytes
    headers: tuple[tuple[str, str], ...]
    stream: AsyncGenerator[bytes] | None = None
    silence: float | None = None


class RestHandler:
    """Serves `/v1` to callers with a token."""

    def __init__(
        self,
        open_context: OpenContext,
        bearer: Authenticator,
        switches: Switches = ALL_ON,
        streams: AgentStreams | None = None,
    ) -> None:
        """`streams`: of what agents do; None: those routes answer JSON only."""
        self._open_context = open_context
        self._bearer = bearer
        self._switches = switches
        self._streams = streams
        self._bodies: Counter[str] = Counter()

    async def answer(self, call: ApiRequest) -> ApiResponse:
        """Answer `call`; raises nothing unless the request is cancelled."""
        try:
            return await self._answer(call)
        except Problem as error:
            problem = error
        except SymbiontError as error:
            problem = _problem(error, call)
        except Exception:
            log.exception("request_failed", method=call.method, path=call.path)
            problem = Problem("internal", "see the daemon's log")
        body = problem.openai_body() if _OF_OPENAI.match(call.path) else problem.body()
        return ApiResponse(problem.status, CONTENT_TYPE, body, _HEADERS + problem.headers)

    async def _answer(self, call: ApiRequest) -> ApiResponse:
        caller = await self._caller(call)
        if call.path == DESCRIPTION and call.method in {"GET", "HEAD"}:
            caller.need("read")
            return ApiResponse(200, "application/json", describe(), _HEADERS)
        tool: Tool | None = None
        try:
            if (path := resource_path(call.path)) is not None:
                return await self._read_resource(call, path, caller)
            endpoint, in_path = _find(call)
            tool = endpoint.tool
            tool.permit(caller)
            self._switches.need(endpoint.stopped_by)
            if self._streams is not None and endpoint.follow is not None:
                return await self._call_and_follow(call, endpoint, caller, in_path, self._streams)
            given = await _read_parameters(self._with_body_limit(call, caller), endpoint, in_path)
            if tool.long and call.method != "HEAD" and accepts_events(call.accept):
                events = self._events(call, endpoint, caller, given)
                await anext(events)
                return ApiResponse(200, EVENTS, b"", _HEADERS, events)
            return await self._call(endpoint, caller, given)
        except SymbiontError as error:
            raise _problem(error, call, tool, caller) from error

    async def _caller(self, call: ApiRequest) -> Caller:
        return replace(await self._bearer.caller(call.authorization, call.source), via="api")

    async def _read_resource(self, call: ApiRequest, path: str, caller: Caller) -> ApiResponse:
        if call.method not in {"GET", "HEAD"}:
            raise _method_not_allowed({"GET"})
        if call.query:
            raise Problem("malformed", "this resource has no query parameters")
        async with self._open_context(caller, no_progress) as context:
            result = await resources.read(context, path)
        return ApiResponse(200, "application/json", result.model_dump_json().encode(), _HEADERS)

    async def _call(self, endpoint: Endpoint, caller: Caller, given: Mapping[str, Any]) -> ApiResponse:
        result = await self._result(endpoint, caller, given)
        if endpoint.status == 204:
            return ApiResponse(204, None, b"", _HEADERS)
        status = 202 if endpoint.unfinished and getattr(result, "ended", None) is None else endpoint.status
        headers = _HEADERS + _location(endpoint, result)
        return ApiResponse(status, "application/json", result.model_dump_json().encode(), headers)

    async def _result(self, endpoint: Endpoint, caller: Caller, given: Mapping[str, Any]) -> BaseModel:
        async with self._open_context(caller, no_progress) as context:
            return await ALL_TOOLS.call(endpoint.tool.name, context, given)

    async def _call_and_follow(
        self, call: ApiRequest, endpoint: Endpoint, caller: Caller, in_path: Mapping[str, str], streams: AgentStreams
    ) -> ApiResponse:
        """Answer a call whose result is followed: JSON, or a stream that begins after the call."""
        assert endpoint.follow is not None
        query, deltas = take_flag(call.query, DELTAS)
        given = await _read_parameters(self._with_body_limit(call, caller)._replace(query=query), endpoint, in_path)
        with ExitStack() as stack:
            stack.enter_context(streams.place(caller))
            if call.method == "HEAD" or not accepts_events(call.accept):
                return await self._call(endpoint, caller, given)
            here = {"wait": 0} if "wait" in endpoint.tool.parameters.model_fields else {}
            result = await self._result(endpoint, caller, {**given, **here})
            target = endpoint.follow(result, given)
            options = StreamOptions(call.last_event_id, deltas)
            if await streams.has_last_event(caller.user_id, target, options):
                # A browser connects again after any other answer (WHATWG HTML, section 9.2.3).
                return ApiResponse(204, None, b"", _HEADERS)
            chunks = streams.events(caller.user_id, target, options, self._is_allowed(call, caller))
            events = _chunks_in_place(chunks, stack.pop_all())
            await anext(events)
            headers = _HEADERS + _location(endpoint, result)
            return ApiResponse(200, EVENTS, b"", headers, events, HEARTBEAT_SECONDS)

    def _with_body_limit(self, call: ApiRequest, caller: Caller) -> ApiRequest:
        """Return the request with a limit on the bodies that its token sends at the same time."""
        token = caller.token_id or ""

        async def read(largest: int) -> bytes:
            if self._bodies[token] >= BODIES_OF_ONE:
                what = f"at most {BODIES_OF_ONE} requests of a token may send bodies at the same time"
                raise Problem("too_many_bodies", what, headers=(("Retry-After", "1"),))
            self._bodies[token] += 1
            try:
                return await call.read(largest)
            finally:
                self._bodies[token] -= 1
                self._bodies += Counter()  # drops counts of zero

        return call._replace(read=read)

    def _is_allowed(self, call: ApiRequest, caller: Caller) -> Callable[[], Awaitable[bool]]:
        """Return the function that tells whether a stream may go on: its token is valid, and the scopes are the same.
        It is looked up once in `TOKEN_SECONDS`."""
        checked_at = asyncio.get_running_loop().time()

        async def is_allowed() -> bool:
            nonlocal checked_at
            if (now := asyncio.get_running_loop().time()) - checked_at < TOKEN_SECONDS:
                return True
            checked_at = now
            try:
                return await self._caller(call) == caller
            except Problem:
                return False
            except SymbiontError:
                # The database is unavailable; the token is looked up later.
                return True

        return is_allowed

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


async def _chunks_in_place(chunks: AsyncGenerator[bytes], place: ExitStack) -> AsyncGenerator[bytes]:
    """Yield an empty chunk, then `chunks`; leave `place` at the end."""
    with place:
        async with aclosing(chunks):
            # Fails before the answer begins, if it fails.
            first = await anext(chunks)
            yield b""
            yield first
            async for chunk in chunks:
                yield chunk


def _location(endpoint: Endpoint, result: BaseModel) -> tuple[tuple[str, str], ...]:
    if endpoint.location is None:
        return ()
    return (("Location", endpoint.location.format_map(result.model_dump(mode="json"))),)


def _find(call: ApiRequest) -> tuple[Endpoint, dict[str, str]]:
    """Return the endpoint and the ids in its path. Raises Problem."""
    method, rows = "GET" if call.method == "HEAD" else call.method, endpoints_at(call.path)
    if method in rows:
        row, sent = rows[method]
        return row, {name: _decode_parameter(name, text) for name, text in sent.items()}
    if rows or call.path == DESCRIPTION:
        raise _method_not_allowed({*rows} or {"GET"})
    hint = f"{DESCRIPTION} describes the existing ones"
    if _OF_OPENAI.match(call.path):
        hint = f"{_CHAT_HINT}; {hint}"
    raise Problem("not_found", "there is no such resource", hint=hint)


def _decode_parameter(name: str, text: str) -> str:
    """Return the percent-encoded text of a parameter in a path. Ids and names of the program have nothing to decode."""
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise Problem("malformed", f"{name} in the path is not percent-encoded UTF-8") from None


def _method_not_allowed(allowed: set[str]) -> Problem:
    methods = ", ".join(sorted(allowed | {"HEAD"} if "GET" in allowed else allowed))
    return Problem("method_not_allowed", f"here are {methods}", headers=(("Allow", methods),))


def _problem(error: SymbiontError, call: ApiRequest, tool: Tool | None = None, caller: Caller | None = None) -> Problem:
    problem = problem_of(error, tool, caller)
    # The log says once that something is switched off.
    if problem.status >= 500 and problem.kind != "switched_off":
        log.warning("request_unavailable", path=call.path, reason=error.line())
    return problem


async def _read_parameters(call: ApiRequest, endpoint: Endpoint, in_path: Mapping[str, str]) -> dict[str, Any]:
    """Return the tool's parameters, each from its place. Raises Problem."""
    if endpoint.body:
        if call.query:
            raise Problem("malformed", "the parameters belong in the body, not in the query")
        given = await read_object(await call.read(endpoint.tool.largest), call.content_type)
    else:
        given = read_query(call.query, endpoint.tool.parameters)
        if call.method not in {"GET", "HEAD"}:
            sent = await read_object(await call.read(endpoint.tool.largest), call.content_type)
            if sent and endpoint.others:
                raise Problem("malformed", "the parameters belong in the query, not in the body")
            given |= sent
    for name in endpoint.in_path:
        if name in given:
            raise Problem("malformed", f"{name} belongs in the path")
    wrong = [((name,), "this path has no such parameter") for name in endpoint.without if name in given]
    wrong += [((name,), "it is required") for name in endpoint.needs if given.get(name) is None]
    if wrong:
        raise WrongParameters(endpoint.tool.name, tuple(wrong))
    return {**given, **in_path}
