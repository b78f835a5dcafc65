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
from runtime.webhooks.audit import Audit, chosen_headers
from runtime.webhooks.delivery import Attempt, Candidate
from runtime.webhooks.headers import Headers
from runtime.webhooks.refusal import Refused
from runtime.webhooks.request import Request
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

    __slots__ = ("body", "digest", "headers", "raw", "route", "verified")

    def __init__(self, raw: web.BaseRequest) -> None:
        self.raw = raw
        self.headers = Headers(raw.headers.items())
        self.route: Route | None = None
        self.body = b""
        self.digest: str | None = None
        self.verified: Verified | None = None

    def attempt(self, verdict: str, reason: str, status: int, delivery_id: str | None = None) -> Attempt:
        known = self.verified
        return Attempt(
            verdict=verdict,
            reason=reason,
            status=status,
            size=len(self.body),
            webhook=self.route.name if self.route else None,
            body_sha256=self.digest,
            source=self.raw.remote,
            event=known.event if known else None,
            provider_delivery_id=known.delivery_id if known else None,
            delivery_id=delivery_id,
            headers=chosen_headers(self.headers.pairs),
            verified=known is not None,
        )


class Receiver:
    """Serves every path of the public listener. `table` gives the routes of the generation that runs now."""

    def __init__(self, table: Callable[[], RouteTable], admission: Admission, audit: Audit, clock: Clock) -> None:
        self._table = table
        self._admission = admission
        self._audit = audit
        self._clock = clock

    async def handle(self, raw: web.BaseRequest) -> web.StreamResponse:
        """Answer one request; whatever is not accepted goes to the audit."""
        arrival = _Arrival(raw)
        try:
            answer = await self._receive(arrival)
        except Refused as refused:
            self._audit.put(arrival.attempt("refused", refused.reason, refused.status))
            return _refusal(refused, arrival.route)
        except Busy as busy:
            self._audit.put(arrival.attempt("refused", "overloaded", 503))
            return _refusal(Refused("overloaded"), arrival.route, retry_after=busy.retry_after)
        except Unavailable as error:
            log.error("a delivery could not be stored", webhook=arrival.route and arrival.route.name, reason=str(error))
            return _refusal(Refused("unavailable"), arrival.route, retry_after=5)
        return web.Response(body=answer.body, status=answer.status, headers={"Content-Type": answer.content_type})

    async def _receive(self, arrival: _Arrival) -> Answer:
        raw = arrival.raw
        path = raw.rel_url.raw_path
        route = arrival.route = self._table().by_path.get(path)
        if route is None:
            if path == HEALTH_PATH and raw.method in {"GET", "HEAD"}:
                return _HEALTHY
            raise Refused("not_found")
        if raw.method not in route.methods:
            raise Refused("method_not_allowed")
        await self._read_body(arrival, route)
        request = Request(arrival.headers, arrival.body, raw.method, route.public_url)
        payload = route.verifier.payload(request)
        greeting = route.verifier.greet(request, payload, signed=False)
        if greeting is not None:
            return self._greeted(arrival, greeting)
        if raw.method not in route.verifier.provider.methods:
            raise Refused("method_not_allowed")
        match = route.verifier.check(request, self._clock.now())
        verified = arrival.verified = Verified(match.mac, match.timestamp, match.secret_index, None, None)
        greeting = route.verifier.greet(request, payload, signed=True)
        if greeting is not None:
            return self._greeted(arrival, greeting)
        verified = arrival.verified = route.verifier.identify(match, request, payload)
        if route.wanted is not None and not route.wanted(payload.value()):
            self._audit.put(arrival.attempt("filtered", "filtered", 200))
            return _FILTERED
        return await self._admit(arrival, route, verified)

    async def _read_body(self, arrival: _Arrival, route: Route) -> None:
        """The raw body, never more of it than the route's limit. Raises `Refused`."""
        raw, limit = arrival.raw, route.body_limit
        encoding = arrival.headers.get("content-encoding")
        if encoding is not None and encoding.lower() != "identity":
            raise Refused("compressed_body")
        if (raw.content_length or 0) > limit:
            raise Refused("body_too_large")
        if arrival.headers.get("expect") is not None and raw.version == HttpVersion11:
            await raw.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        content = raw.content
        body = content.read_nowait(limit + 1) if content.is_eof() else await _read(content, limit)
        if len(body) > limit:
            raise Refused("body_too_large")
        arrival.body = body
        arrival.digest = hashlib.sha256(body).hexdigest()

    def _greeted(self, arrival: _Arrival, greeting: Answer) -> Answer:
        self._audit.put(arrival.attempt("handshake", "handshake", greeting.status))
        return greeting

    async def _admit(self, arrival: _Arrival, route: Route, verified: Verified) -> Answer:
        provider, tolerance = route.verifier.provider, route.verifier.tolerance
        timed = verified.timestamp is not None and tolerance is not None
        assert arrival.digest is not None
        decision = await self._admission.admit(
            Candidate(
                webhook=route.name,
                provider=provider.name,
                body=arrival.body,
                body_sha256=arrival.digest,
                agent=route.agent,
                event=verified.event,
                provider_delivery_id=verified.delivery_id,
                replay_key=verified.mac if timed else None,
                replay_until=(verified.timestamp or 0) + (tolerance or 0) if timed else 0.0,
                content_type=arrival.headers.get("content-type"),
                headers=chosen_headers(arrival.headers.pairs),
                source=arrival.raw.remote,
                verified=route.verified,
                secret_index=verified.secret_index if route.verified else None,
                keep_body=route.keep_body,
            )
        )
        if decision.verdict == "replayed":
            raise Refused("replayed")
        if decision.verdict == "repeated":
            self._audit.put(arrival.attempt("repeated", "repeated", 202, decision.delivery_id))
        return provider.answer or Answer(202, _JSON, b'{"delivery_id":"%s"}' % decision.delivery_id.encode())


async def _read(content: StreamReader, limit: int) -> bytes:
    """At most a little over `limit` bytes. Raises `Refused` `timeout` when they take too long."""
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(READ_SECONDS):
            while size <= limit and (part := await content.readany()):
                parts.append(part)
                size += len(part)
    except TimeoutError:
        raise Refused("timeout") from None
    return b"".join(parts)


def _refusal(refused: Refused, route: Route | None, *, retry_after: int | None = None) -> web.Response:
    body = _encode({"error": refused.shown, "message": refused.message})
    response = web.Response(body=body, status=refused.status, headers={"Content-Type": _JSON})
    if refused.status == 405 and route is not None:
        response.headers["Allow"] = ", ".join(sorted(route.methods))
    if retry_after is not None:
        response.headers["Retry-After"] = str(retry_after)
    if refused.status in {408, 413}:
        # What is left of the body is not worth reading.
        response.force_close()
    return response
