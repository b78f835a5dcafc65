"""The receiver: one request from its path to its answer, in the order that `_receive` is read.

Nothing changes state before the signature has been checked, and a 2xx for a delivery means that it is committed.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from typing import Final

import msgspec
import structlog
from aiohttp import HttpVersion11, StreamReader, web

from runtime.clock import Clock
from runtime.database import Unavailable
from runtime.webhooks.admission import Admission, Busy
from runtime.webhooks.answer import Answer
from runtime.webhooks.audit import Audit, chosen_headers, noted_names
from runtime.webhooks.delivery import Attempt, Candidate
from runtime.webhooks.headers import Headers
from runtime.webhooks.refusal import Refused
from runtime.webhooks.request import Request
from runtime.webhooks.response import Response
from runtime.webhooks.route import Route, RouteTable
from runtime.webhooks.verification import Verified

log = structlog.get_logger("symbiont.receiver")

HEALTH_PATH: Final = "/healthz"
READ_SECONDS: Final = 30
"""How long a body may take to arrive."""

_JSON: Final = "application/json"
_FILTERED: Final = Answer(200, _JSON, b'{"status":"filtered"}')
_HEALTHY: Final = Answer(200, _JSON, b'{"status":"ok"}')
_encode = msgspec.json.Encoder().encode


class _Arrival:
    """A request and what became known of it so far: what the audit will say."""

    __slots__ = ("body", "event", "headers", "id", "raw", "route", "verified")

    def __init__(self, raw: web.BaseRequest) -> None:
        self.raw = raw
        self.headers = Headers(raw.headers.items())
        self.route: Route | None = None
        self.body = b""
        self.verified = False
        self.event: str | None = None
        self.id: str | None = None

    def attempt(self, verdict: str, reason: str, status: int, delivery_id: str | None = None) -> Attempt:
        """What the audit keeps of a request that was not accepted."""
        route = self.route
        return Attempt(
            verdict=verdict,
            reason=reason,
            status=status,
            size=len(self.body),
            webhook=route.name if route else None,
            body_sha256=hashlib.sha256(self.body).hexdigest() if self.body else None,
            source=self.raw.remote,
            event=self.event,
            provider_delivery_id=self.id,
            delivery_id=delivery_id,
            headers=chosen_headers(self.headers, route.noted_headers if route else noted_names()),
            verified=self.verified,
        )


class Receiver:
    """Serves every path of the public listener. `table` gives the routes of the generation that runs now."""

    def __init__(
        self,
        table: Callable[[], RouteTable],
        admission: Admission,
        audit: Audit,
        clock: Clock,
        *,
        on_stored: Callable[[str | None], None] = lambda problem: None,
    ) -> None:
        """`on_stored` is told None after each delivery that was stored, and the reason when one could not be."""
        self._on_stored = on_stored
        self._table = table
        self._admission = admission
        self._audit = audit
        self._clock = clock

    async def handle(self, raw: web.BaseRequest) -> web.StreamResponse:
        """Answer one request; whatever is not accepted goes to the audit."""
        arrival = _Arrival(raw)
        try:
            return Response(await self._receive(arrival))
        except Refused as refused:
            self._audit.put(arrival.attempt("refused", refused.reason, refused.status))
            return _refusal(refused, arrival.route)
        except Busy as busy:
            self._audit.put(arrival.attempt("refused", "overloaded", 503))
            return _refusal(Refused("overloaded"), arrival.route, retry_after=busy.retry_after)
        except Unavailable as error:
            self._on_stored(str(error))
            self._audit.put(arrival.attempt("refused", "unavailable", 503))
            return _refusal(Refused("unavailable"), arrival.route, retry_after=5)
        except Exception:
            log.exception("a request could not be handled", webhook=arrival.route and arrival.route.name)
            self._audit.put(arrival.attempt("refused", "internal", 500))
            return _refusal(Refused("internal"), arrival.route)

    async def _receive(self, arrival: _Arrival) -> Answer:
        raw, headers = arrival.raw, arrival.headers
        path = raw.rel_url.raw_path
        route = arrival.route = self._table().by_path.get(path)
        if route is None:
            if path == HEALTH_PATH and raw.method in {"GET", "HEAD"}:
                return _HEALTHY
            raise Refused("not_found")
        if raw.method not in route.methods:
            raise Refused("method_not_allowed")
        await _read_body(arrival, route.body_limit)
        verifier = route.verifier
        request = Request(headers, arrival.body, raw.method, route.public_url)
        payload = verifier.payload(request)
        greeting = verifier.greet(request, payload, signed=False)
        if greeting is not None:
            return self._greeted(arrival, greeting)
        if raw.method not in verifier.provider.methods:
            raise Refused("method_not_allowed")
        match = verifier.check(request, self._clock.now())
        arrival.verified = True
        greeting = verifier.greet(request, payload, signed=True)
        if greeting is not None:
            return self._greeted(arrival, greeting)
        verified = verifier.identify(match, request, payload)
        arrival.event, arrival.id = verified.event, verified.delivery_id
        if route.wanted is not None and not route.wanted(payload.value()):
            self._audit.put(arrival.attempt("filtered", "filtered", 200))
            return _FILTERED
        decision = await self._admission.admit(_candidate(arrival, route, verified))
        self._on_stored(None)
        if decision.verdict == "replayed":
            raise Refused("replayed")
        if decision.verdict == "repeated":
            self._audit.put(arrival.attempt("repeated", "repeated", 202, decision.delivery_id))
        return verifier.provider.answer or Answer(202, _JSON, b'{"delivery_id":"%b"}' % decision.delivery_id.encode())

    def _greeted(self, arrival: _Arrival, greeting: Answer) -> Answer:
        self._audit.put(arrival.attempt("handshake", "handshake", greeting.status))
        return greeting


async def _read_body(arrival: _Arrival, limit: int) -> None:
    """The raw body, never more of it than `limit` bytes. Raises `Refused`."""
    raw, headers = arrival.raw, arrival.headers
    encoding = headers.get("content-encoding")
    if encoding is not None and encoding.lower() != "identity":
        raise Refused("compressed_body")
    if (raw.content_length or 0) > limit:
        raise Refused("body_too_large")
    content = raw.content
    if content.is_eof():
        body = content.read_nowait(limit + 1)
    else:
        if headers.get("expect") is not None and raw.version == HttpVersion11:
            await raw.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = await _read_slowly(content, limit)
    if len(body) > limit:
        raise Refused("body_too_large")
    arrival.body = body


async def _read_slowly(content: StreamReader, limit: int) -> bytes:
    """A little over `limit` bytes at most. Raises `Refused`: `timeout` when they take too long, `incomplete_body` when
    the sender goes away before the end."""
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(READ_SECONDS):
            while size <= limit and (part := await content.readany()):
                parts.append(part)
                size += len(part)
    except TimeoutError:
        raise Refused("timeout") from None
    except OSError:
        raise Refused("incomplete_body") from None
    return b"".join(parts)


def _candidate(arrival: _Arrival, route: Route, verified: Verified) -> Candidate:
    tolerance = route.verifier.tolerance
    timed = verified.timestamp is not None and tolerance is not None
    return Candidate(
        webhook=route.name,
        provider=route.verifier.provider.name,
        body=arrival.body,
        body_sha256=None if route.keep_body else hashlib.sha256(arrival.body).hexdigest(),
        agent=route.agent,
        event=verified.event,
        provider_delivery_id=verified.delivery_id,
        replay_key=verified.mac if timed else None,
        replay_until=(verified.timestamp or 0) + (tolerance or 0) if timed else 0.0,
        content_type=arrival.headers.get("content-type"),
        headers=chosen_headers(arrival.headers, route.noted_headers),
        source=arrival.raw.remote,
        verified=route.verified,
        secret_index=verified.secret_index if route.verified else None,
        keep_body=route.keep_body,
    )


def _refusal(refused: Refused, route: Route | None, *, retry_after: int | None = None) -> Response:
    body = _encode({"error": refused.shown, "message": refused.message})
    extra = ""
    if refused.status == 405 and route is not None:
        extra = f"Allow: {', '.join(sorted(route.methods))}\r\n"
    if retry_after is not None:
        extra = f"Retry-After: {retry_after}\r\n"
    # What is left of a body that was not read to its end is not worth reading.
    close = refused.status in {408, 413}
    return Response(Answer(refused.status, _JSON, body), extra=extra.encode(), close=close)
