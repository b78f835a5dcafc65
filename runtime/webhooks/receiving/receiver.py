"""The receiver: one request from its path to its answer; `_receive` shows the order of the steps.

Nothing changes state before the signature is verified, and a 2xx for a delivery means that it is committed.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from runtime.clock import Clock
from runtime.database.errors import Unavailable
from runtime.database.schema import OWNER
from runtime.http.error import HttpError
from runtime.http.request import Request
from runtime.http.response import JSON, Response, failure, refusal
from runtime.metrics.metrics import Metrics
from runtime.webhooks.audit.audit import Audit, chosen_headers, noted_names, path_as_header
from runtime.webhooks.deliveries import stored_request
from runtime.webhooks.deliveries.delivery import Candidate, Decision, HeaderPairs, RejectedRequest
from runtime.webhooks.receiving import rate_limits
from runtime.webhooks.receiving.address_limit import AddressLimit, Origin
from runtime.webhooks.receiving.admission import Admission, Busy
from runtime.webhooks.receiving.request_metrics import RequestMetrics
from runtime.webhooks.request.content import CODINGS, FORM, TRANSFER_HEADERS, Content, decompress, most_content
from runtime.webhooks.request.headers import Headers
from runtime.webhooks.request.payload import OFF_THE_LOOP, Payload
from runtime.webhooks.request.refusal import RefusedRequest
from runtime.webhooks.request.request import Keys, StaticAnswer, WebhookRequest, no_keys
from runtime.webhooks.routing.route import Route, RouteTable
from runtime.webhooks.schemes.scheme import KeyNeeded
from runtime.webhooks.verification import VerifiedRequest

log = structlog.get_logger("symbiont.receiver")

HEALTH_PATH: Final = "/healthz"

Judgement = StaticAnswer | tuple[VerifiedRequest, str | None]
"""The answer to a handshake, or the verified delivery and the filter that refuses it, see `Filters.refusing_filter`."""

Fetch = Callable[[KeyNeeded, str], Awaitable[None]]
"""Fetches the keys that a check needs, so that `Keys` has them. Raises `RefusedRequest` if they are unavailable."""

_NO_ROUTE: Final = (404, 405)
_JSON: Final = "application/json"
_FILTERED: Final = StaticAnswer(200, _JSON, b'{"status":"filtered"}')
_HEALTHY: Final = StaticAnswer(200, _JSON, b'{"status":"ok"}')


async def _no_fetch(_needed: KeyNeeded, _address: str) -> None:
    raise RefusedRequest("unavailable")


class _Arrival:
    """A request and what is known about it so far, for the audit."""

    __slots__ = (
        *("began", "body", "coding", "content_type", "event", "headers", "id", "incoming", "key_url", "origin"),
        *("payload", "route", "secret_index", "verified"),
    )

    def __init__(self, incoming: Request, began: float) -> None:
        """`began`: when the head was complete, in monotonic seconds."""
        head = incoming.head
        self.began = began
        self.incoming = incoming
        self.headers = Headers.of(head.pairs, head.fields, head.repeated)
        self.route: Route | None = None
        self.body = b""
        self.coding: str | None = None
        self.content_type: str | None = self.headers.get("content-type")
        self.payload: Payload | None = None
        self.origin = Origin(incoming.peer, False)
        self.verified = False
        self.secret_index: int | None = None
        self.key_url: str | None = None
        self.event: str | None = None
        self.id: str | None = None

    def body_sha256(self) -> str:
        """Return the body's SHA-256 in hexadecimal, computed once if a payload exists."""
        return hashlib.sha256(self.body).hexdigest() if self.payload is None else self.payload.sha256()

    def rejection(self, verdict: str, reason: str, status: int, delivery_id: str | None = None) -> RejectedRequest:
        """Return the audit's record of a request that was not accepted."""
        route = self.route
        headers = chosen_headers(self.headers, route.noted_headers if route else noted_names())
        if status in _NO_ROUTE:
            headers = path_as_header(self.incoming.head.path) + headers
        return RejectedRequest(
            verdict=verdict,
            reason=reason,
            status=status,
            size=len(self.body) or max(0, self.incoming.head.length),
            webhook=route.name if route else None,
            body_sha256=self.body_sha256() if self.body else None,
            source=self.origin.address,
            event=self.event,
            provider_delivery_id=self.id,
            delivery_id=delivery_id,
            headers=headers,
            verified=self.verified,
            secret_index=self.secret_index,
            user_id=route.user_id if route else OWNER,
        )


class Receiver:
    """Serves every path of the public listener. `table` returns the routes of the current generation."""

    def __init__(
        self,
        table: Callable[[], RouteTable],
        admission: Admission,
        audit: Audit,
        clock: Clock,
        *,
        keys: Keys = no_keys,
        fetch: Fetch = _no_fetch,
        prove: Callable[[str], None] = lambda url: None,
        addresses: AddressLimit | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        """`prove` is called with the URL of the key that a verified request named."""
        self._table = table
        self._admission = admission
        self._audit = audit
        self._clock = clock
        self._keys = keys
        self._fetch = fetch
        self._prove = prove
        self._addresses = addresses or AddressLimit(clock)
        # Decoding a large body holds the interpreter lock; one at a time lets the event loop run in between.
        self._large = asyncio.Semaphore()
        self._metrics = RequestMetrics(metrics or Metrics(), clock)

    async def handle(self, incoming: Request) -> Response:
        """Answer one request; requests that are not accepted are recorded in the audit."""
        arrival = _Arrival(incoming, self._clock.monotonic())
        arrival.origin = self._addresses.origin(incoming.peer, arrival.headers)
        try:
            return await self._receive(arrival)
        except RefusedRequest as reason:
            self._note_refusal(arrival, reason.reason, reason.status)
            return refusal_response(reason, arrival.route)
        except HttpError as problem:
            self._note_refusal(arrival, problem.error, problem.status)
            return failure(problem)
        except Busy as busy:
            self._note(arrival, "refused", busy.reason, 503)
            return refusal_response(RefusedRequest(busy.reason), arrival.route, retry_after=busy.retry_after)
        except Unavailable:
            self._note(arrival, "refused", "unavailable", 503)
            return refusal_response(RefusedRequest("unavailable"), arrival.route, retry_after=5)
        except Exception:
            log.exception("request_failed", webhook=arrival.route and arrival.route.name)
            self._note(arrival, "refused", "internal", 500)
            return refusal_response(RefusedRequest("internal"), arrival.route)

    def refuse(self, problem: HttpError, peer: str | None) -> Response:
        """Return the answer to a malformed request over a connection with `peer`. It counts like every refusal, and an
        address that sends only such requests is limited."""
        origin = self._addresses.unread_origin(peer)
        try:
            self._addresses.check(origin, None)
        except RefusedRequest as reason:
            self._metrics.record_refusal(reason.reason)
            return refusal_response(reason, None)
        self._metrics.record_refusal(problem.error)
        self._addresses.record_refusal(origin, problem.status)
        return failure(problem)

    async def _receive(self, arrival: _Arrival) -> Response:
        head, headers = arrival.incoming.head, arrival.headers
        path, method = head.path, head.method
        route = arrival.route = self._table().by_path.get(path)
        if route is None:
            if path == HEALTH_PATH and method in {"GET", "HEAD"}:
                return static_response(_HEALTHY)
            self._addresses.check(arrival.origin, None)
            raise RefusedRequest("not_found")
        self._addresses.check(arrival.origin, route)
        arrival.coding = _refuse_unread(route, method, headers)
        arrival.body = await arrival.incoming.read(route.body_limit, arrival.origin.sender)
        verifier, sent = route.verifier, arrival.body
        if arrival.coding is not None:
            arrival.body = await self._decompress(arrival, arrival.coding, route.body_limit)
        elif method == "GET" and "GET" in verifier.provider.methods:
            arrival.body, arrival.content_type = head.query.encode(), FORM
        signed = arrival.body if verifier.provider.compression == "content" else sent
        request = WebhookRequest(headers, signed, method, route.public_url, head.query, self._keys)
        arrival.payload = verifier.payload(request, Content(arrival.body, arrival.content_type))
        judgement = await self._judge(arrival, route, request)
        if isinstance(judgement, StaticAnswer):
            self._note(arrival, "handshake", "handshake", judgement.status)
            return static_response(judgement)
        verified, refusing = judgement
        if refusing is not None:
            self._note(arrival, "filtered", refusing, 200)
            return static_response(_FILTERED)
        candidate = _candidate(arrival, route, verified)
        decision = await self._admission.admit(candidate)
        self._metrics.record_decision(route, candidate, decision, headers, arrival.began)
        return self._decision_response(arrival, verifier.provider.answer, decision)

    async def _decompress(self, arrival: _Arrival, coding: str, limit: int) -> bytes:
        """Return the content of the body, at most `limit` bytes. Raises `RefusedRequest` and `HttpError`."""
        room, most = arrival.incoming.room, most_content(len(arrival.body), limit)
        room.take(most)
        async with self._large:
            content = await asyncio.to_thread(decompress, arrival.body, coding, most)
        room.give_back(most - len(content))
        return content

    def _decision_response(self, arrival: _Arrival, answer: StaticAnswer | None, decision: Decision) -> Response:
        """Return the answer to a decision. Raises `RefusedRequest`."""
        if decision.verdict == "limited":
            raise RefusedRequest("rate_limited", fields=rate_limits.header_lines(decision.quotas, decision.retry_after))
        if decision.verdict == "replayed":
            raise RefusedRequest("replayed")
        if decision.verdict == "repeated":
            self._note(arrival, "repeated", "repeated", 202 if answer is None else answer.status, decision.delivery_id)
        response = accepted_response(decision.delivery_id) if answer is None else static_response(answer)
        return response._replace(extra=rate_limits.header_lines(decision.quotas)) if decision.quotas else response

    def _note(self, arrival: _Arrival, verdict: str, reason: str, status: int, delivery_id: str | None = None) -> None:
        """Record a request that was not accepted in the audit, and count it."""
        rejected = arrival.rejection(verdict, reason, status, delivery_id)
        self._audit.put(rejected)
        self._metrics.record_rejection(arrival.route, rejected)

    def _note_refusal(self, arrival: _Arrival, reason: str, status: int) -> None:
        self._note(arrival, "refused", reason, status)
        # A request that names unknown keys causes fetches, so it counts as unauthenticated.
        self._addresses.record_refusal(arrival.origin, 401 if reason == "key_unavailable" else status)

    async def _judge(self, arrival: _Arrival, route: Route, request: WebhookRequest) -> Judgement:
        """Verify the request and decide what it is; fetch keys that its check needs, once. Raises `RefusedRequest`."""
        try:
            return await self._judge_once(arrival, route, request)
        except KeyNeeded as needed:
            await self._fetch(needed, arrival.origin.address or "")
        try:
            return await self._judge_once(arrival, route, request)
        except KeyNeeded as still:
            raise RefusedRequest(still.reason) from None

    async def _judge_once(self, arrival: _Arrival, route: Route, request: WebhookRequest) -> Judgement:
        now = self._clock.now()
        searching = route.filters is not None and route.filters.searching
        try:
            if len(arrival.body) > OFF_THE_LOOP:
                async with self._large:
                    return await asyncio.to_thread(_judge_request, arrival, route, request, now)
            if searching:
                return await asyncio.to_thread(_judge_request, arrival, route, request, now)
            return _judge_request(arrival, route, request, now)
        finally:
            if arrival.verified:
                self._addresses.record_verification(arrival.origin, route)
            if arrival.key_url is not None:
                self._prove(arrival.key_url)


def _judge_request(arrival: _Arrival, route: Route, request: WebhookRequest, now: float) -> Judgement:
    """Decide everything that depends on the request alone. Raises `RefusedRequest`, and `KeyNeeded` before
    verification."""
    verifier, payload = route.verifier, arrival.payload
    assert payload is not None
    payload.sha256()
    response = verifier.handshake_response(request, payload, signed=False)
    if response is not None:
        return response
    if request.method not in verifier.provider.methods:
        raise RefusedRequest("not_a_handshake")
    match = verifier.check(request, now)
    if route.verified:
        arrival.verified, arrival.secret_index, arrival.key_url = True, match.secret_index, match.key_url
    response = verifier.handshake_response(request, payload, signed=True, secret_index=match.secret_index)
    if response is not None:
        return response
    verified = verifier.identify(match, request, payload)
    arrival.event, arrival.id = verified.event, verified.delivery_id
    filters = route.filters
    return verified, None if filters is None else filters.refusing_filter(verified.event, request.headers, payload)


def _refuse_unread(route: Route, method: str, headers: Headers) -> str | None:
    """Return the compression of the body, one of `CODINGS` or None. Raise `RefusedRequest` for requests that can be
    refused without reading the body."""
    if method not in route.methods:
        raise RefusedRequest("method_not_allowed")
    given = headers.one("content-encoding", repeated="compressed_body")
    coding = None if given is None or given.lower() == "identity" else given.lower()
    if coding is not None and (route.verifier.provider.compression is None or coding not in CODINGS):
        raise RefusedRequest("compressed_body")
    return coding


def _stored_headers(arrival: _Arrival, route: Route) -> HeaderPairs:
    """Return the headers to store with the content, without secrets."""
    received = stored_request.without_secrets(arrival.headers, route.shown_secrets, route.credentials)
    if arrival.coding is None:
        return received
    return tuple(pair for pair in received if pair[0].lower() not in TRANSFER_HEADERS)


def _candidate(arrival: _Arrival, route: Route, verified: VerifiedRequest) -> Candidate:
    tolerance = route.verifier.tolerance
    timed = verified.timestamp is not None and tolerance is not None
    return Candidate(
        webhook=route.name,
        provider=route.verifier.provider.name,
        body=arrival.body,
        body_sha256=arrival.body_sha256(),
        agent=route.agent,
        event=verified.event,
        provider_delivery_id=verified.delivery_id,
        replay_key=verified.mac if timed else None,
        replay_until=(verified.timestamp or 0) + (tolerance or 0) if timed else 0.0,
        content_type=arrival.content_type,
        headers=chosen_headers(arrival.headers, route.noted_headers),
        received=_stored_headers(arrival, route),
        source=arrival.origin.address,
        verified=route.verified,
        secret_index=verified.secret_index if route.verified else None,
        keep_body=route.keep_body,
        user_id=route.user_id,
        per_minute=route.per_minute,
        user_per_minute=route.user_per_minute,
    )


# A challenge is echoed unchanged: no browser may interpret it as anything but plain text.
_NOSNIFF = b"X-Content-Type-Options: nosniff\r\n"


def static_response(answer: StaticAnswer) -> Response:
    """Return an answer that a provider's row prescribes."""
    fields = "".join(f"{name}: {value}\r\n" for name, value in answer.fields).encode("ascii")
    return Response(answer.status, answer.content_type, answer.body, _NOSNIFF + fields)


def accepted_response(delivery_id: str) -> Response:
    """Return the answer to a committed delivery."""
    return Response(202, JSON, b'{"delivery_id":"%b"}' % delivery_id.encode())


def refusal_response(reason: RefusedRequest, route: Route | None, *, retry_after: int | None = None) -> Response:
    """Return the answer to a refused request. `retry_after`: seconds."""
    extra = ""
    if reason.status == 405 and route is not None:
        extra = f"Allow: {', '.join(sorted(route.methods))}\r\n"
    if retry_after is not None:
        extra += f"Retry-After: {retry_after}\r\n"
    return Response(reason.status, JSON, refusal(reason.shown, reason.message), extra.encode() + reason.fields)
