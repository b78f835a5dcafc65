"""Answers of the receiver, as the listener sends them."""

from __future__ import annotations

from runtime.http.response import JSON, Response, refusal
from runtime.webhooks.request.refusal import RefusedRequest
from runtime.webhooks.request.static_response import StaticAnswer
from runtime.webhooks.routing.route import Route

# A challenge is echoed unchanged: no browser may interpret it as anything but plain text.
_NOSNIFF = b"X-Content-Type-Options: nosniff\r\n"


def answered(answer: StaticAnswer) -> Response:
    """Return an answer that a provider's row prescribes."""
    fields = "".join(f"{name}: {value}\r\n" for name, value in answer.fields).encode("ascii")
    return Response(answer.status, answer.content_type, answer.body, _NOSNIFF + fields)


def accepted(delivery_id: str) -> Response:
    """Return the answer to a committed delivery."""
    return Response(202, JSON, b'{"delivery_id":"%b"}' % delivery_id.encode())


def refused(reason: RefusedRequest, route: Route | None, *, retry_after: int | None = None) -> Response:
    """Return the answer to a refused request. `retry_after`: seconds."""
    extra = ""
    if reason.status == 405 and route is not None:
        extra = f"Allow: {', '.join(sorted(route.methods))}\r\n"
    if retry_after is not None:
        extra += f"Retry-After: {retry_after}\r\n"
    return Response(reason.status, JSON, refusal(reason.shown, reason.message), extra.encode() + reason.fields)
