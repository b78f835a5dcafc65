"""What the receiver answers, as the listener sends it."""

from __future__ import annotations

from runtime.http.response import JSON, Response, refusal
from runtime.webhooks.request.refusal import Refused
from runtime.webhooks.request.static_response import Answer
from runtime.webhooks.routing.route import Route

# A challenge is given back as it came: no browser may take it for anything but the text that it is.
_NOSNIFF = b"X-Content-Type-Options: nosniff\r\n"


def answered(answer: Answer) -> Response:
    """An answer that a row prescribes."""
    fields = "".join(f"{name}: {value}\r\n" for name, value in answer.fields).encode("ascii")
    return Response(answer.status, answer.content_type, answer.body, _NOSNIFF + fields)


def accepted(delivery_id: str) -> Response:
    """The answer to a delivery that is committed."""
    return Response(202, JSON, b'{"delivery_id":"%b"}' % delivery_id.encode())


def refused(reason: Refused, route: Route | None, *, retry_after: int | None = None) -> Response:
    """The answer to a request that is not taken. `retry_after`: seconds."""
    extra = ""
    if reason.status == 405 and route is not None:
        extra = f"Allow: {', '.join(sorted(route.methods))}\r\n"
    if retry_after is not None:
        extra += f"Retry-After: {retry_after}\r\n"
    return Response(reason.status, JSON, refusal(reason.shown, reason.message), extra.encode() + reason.fields)
