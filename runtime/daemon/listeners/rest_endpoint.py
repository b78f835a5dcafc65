"""`/v1` over aiohttp: converts requests for `runtime.api.rest.handler` and sends its responses."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable

from aiohttp import web

from runtime.api.rest.agent_streams import AgentStreams
from runtime.api.rest.authentication import Authenticator
from runtime.api.rest.event_stream import CONTENT_TYPE as EVENTS
from runtime.api.rest.event_stream import FAILED, HEARTBEAT, STOPPED
from runtime.api.rest.handler import ApiRequest, ApiResponse, RestHandler
from runtime.daemon.listeners.request_places import RequestBody
from runtime.daemon.program.app import App
from runtime.http.stream import StreamSender

READ_SECONDS = 30
"""Seconds in which a body must arrive."""


def v1(
    app: App, bearer: Authenticator, streams: StreamSender
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """Return the handler of all paths below `/v1`."""
    rest = RestHandler(
        app.open_context, bearer, app.state.switches, AgentStreams(app.state.database, app.state.services)
    )

    async def handle(request: web.Request) -> web.StreamResponse:
        body = RequestBody(request, READ_SECONDS)
        try:
            reply = await rest.answer(
                ApiRequest(
                    method=request.method,
                    path=request.rel_url.raw_path,
                    query=request.rel_url.raw_query_string,
                    authorization=request.headers.getall("Authorization", ()),
                    content_type=request.headers.get("Content-Type"),
                    accept=request.headers.get("Accept"),
                    source=request.remote,
                    read=body.read,
                    last_event_id=request.headers.get("Last-Event-ID"),
                )
            )
        finally:
            body.release()
        if reply.stream is not None:
            return await _stream(request, streams, reply, reply.stream)
        response = web.Response(status=reply.status, body=reply.body or None, headers=reply.headers)
        if reply.content_type is not None:
            response.headers["Content-Type"] = reply.content_type
        return response

    return handle


async def _stream(
    request: web.Request, streams: StreamSender, reply: ApiResponse, chunks: AsyncGenerator[bytes]
) -> web.StreamResponse:
    """Send a stream. After a failure, event streams end with an error event; for others the connection is closed."""
    response = web.StreamResponse(status=reply.status, headers=reply.headers)
    response.headers["Content-Type"] = reply.content_type or "application/octet-stream"
    if reply.content_type == EVENTS:
        ends = {"heartbeat": HEARTBEAT, "failure": FAILED, "stopped": STOPPED}
        return await streams.send(request, response, chunks, **ends, silence=reply.silence)
    return await streams.send(request, response, chunks)
