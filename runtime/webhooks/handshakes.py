"""Handshakes: requests that a provider sends to check an address. They are answered and not stored.

An echoed text cannot be a page or a script: it is sent as plain text and consists of letters, digits and a few other
characters.
"""

from __future__ import annotations

import base64
import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from runtime.webhooks.request.json_path import compile_path
from runtime.webhooks.request.payload import Payload
from runtime.webhooks.request.refusal import RefusedRequest
from runtime.webhooks.request.request import StaticAnswer, WebhookRequest, query_parameters

Respond = Callable[[WebhookRequest, Payload, tuple[bytes, ...]], StaticAnswer | None]
"""Answers a handshake; None if the request is not one. The secrets are for an answer with a signature: the one that the
request was signed with, or all. Raises only `RefusedRequest`."""

# Providers send fewer than 100 characters; the bound keeps a sender from having a document echoed.
_CHALLENGE = re.compile(r"[A-Za-z0-9._~=+/:-]{1,256}", re.ASCII)
# The token is signed for anyone who asks, so its characters cannot form a body or a template's text.
_TOKEN = re.compile(r"[A-Za-z0-9_=-]{1,128}", re.ASCII)
# The same for a sender that stops sending if its token is not signed, and whose bodies all begin with a brace.
_TOKEN_OF_A_QUERY = re.compile(r"[A-Za-z0-9._~+/=-]{1,256}", re.ASCII)
# A DNS name, since it is echoed in a header.
_ORIGIN = re.compile(r"[A-Za-z0-9._-]{1,253}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Handshake:
    """One kind of handshake.

    `words`: a short description of request and answer, for people. `methods`: the HTTP methods it uses. `signed`: the
    request carries the provider's signature and is answered only after verification. Otherwise it is answered before,
    and must not change or reveal anything.
    """

    words: str
    respond: Respond = field(repr=False)
    methods: tuple[str, ...] = ("POST",)
    signed: bool = False


def safe_challenge(text: object) -> bytes | None:
    """Return a challenge that is safe to echo as plain text, else None."""
    return text.encode() if isinstance(text, str) and _CHALLENGE.fullmatch(text) else None


def by_method(*each: Handshake) -> Handshake:
    """Return several handshakes of one sender as one. Raises ValueError unless each has its own methods, and all are
    signed or all unsigned."""
    owners = {method: handshake.respond for handshake in each for method in handshake.methods}
    methods = tuple(method for handshake in each for method in handshake.methods)
    if len({handshake.signed for handshake in each}) != 1 or len(owners) != len(methods):
        raise ValueError("handshakes of one sender must have different methods and be all signed or all unsigned")

    def respond(request: WebhookRequest, payload: Payload, secrets: tuple[bytes, ...]) -> StaticAnswer | None:
        return owners[request.method](request, payload, secrets)

    return Handshake("; ".join(handshake.words for handshake in each), respond, methods, each[0].signed)


PRESENCE_CHECK = Handshake("HEAD: 200", lambda request, payload, secrets: StaticAnswer(), methods=("HEAD",))
"""Answers every HEAD request with 200 and an empty body."""


def form_ping(name: str) -> Handshake:
    """Answer an unsigned form whose only field is `name`, a number, with 200 and an empty body."""
    ping = re.compile(rb"%b=[0-9]{1,20}" % re.escape(name.encode()))

    def respond(request: WebhookRequest, payload: Payload, secrets: tuple[bytes, ...]) -> StaticAnswer | None:
        return StaticAnswer() if ping.fullmatch(request.body) else None

    return Handshake(f"POST of `{name}=…`: 200", respond)


def json_echo(*, where: str, equals: str, echo: str) -> Handshake:
    """Answer a signed JSON body whose `where` is `equals` with the text at `echo`, as plain text."""
    find, find_echo = compile_path(where), compile_path(echo)

    def respond(request: WebhookRequest, payload: Payload, secrets: tuple[bytes, ...]) -> StaticAnswer | None:
        body = payload.value_or_none()
        if equals not in find(body):
            return None
        challenge = safe_challenge(next(iter(find_echo(body)), None))
        return None if challenge is None else StaticAnswer(body=challenge)

    return Handshake(f"POST of `{where}` `{equals}`: `{echo}` is echoed", respond, signed=True)


def query_echo(
    echo: str, *, fixed: tuple[tuple[str, str], ...] = (), token_name: str | None = None, token: str | None = None
) -> Handshake:
    """Answer a GET whose query has each of `fixed` with its parameter `echo`, as plain text.

    `token_name`: the parameter that must equal `token`, compared in constant time; a wrong one is refused. With a name
    and no token there is no answer.
    """
    expected = None if token is None else token.encode("utf-8", "surrogateescape")

    def respond(request: WebhookRequest, payload: Payload, secrets: tuple[bytes, ...]) -> StaticAnswer | None:
        parameters = query_parameters(request.query)
        challenge = safe_challenge(parameters.get(echo))
        if challenge is None or any(parameters.get(name) != value for name, value in fixed):
            return None
        if token_name is not None:
            given = parameters.get(token_name, "").encode("utf-8", "surrogateescape")
            if expected is None or not hmac.compare_digest(given, expected):
                raise RefusedRequest("wrong_verify_token")
        return StaticAnswer(body=challenge)

    words = f"GET: `{echo}` is echoed" + (" for the verify token" if token_name else "")
    return Handshake(words, respond, methods=("GET",))


def json_proof(*, where: str, equals: str, token: str, token_name: str, proof_name: str) -> Handshake:
    """Answer a signed JSON body whose `where` is `equals` with its token at `token` and the token's HMAC-SHA256 in
    hexadecimal, as a JSON object with the names `token_name` and `proof_name`."""
    find, find_token = compile_path(where), compile_path(token)

    def respond(request: WebhookRequest, payload: Payload, secrets: tuple[bytes, ...]) -> StaticAnswer | None:
        body = payload.value_or_none()
        if equals not in find(body):
            return None
        sent = next(iter(find_token(body)), None)
        if not secrets or not isinstance(sent, str) or not _TOKEN.fullmatch(sent):
            return None
        proof = hmac.digest(secrets[0], sent.encode(), "sha256").hex()
        return StaticAnswer(200, "application/json", msgspec.json.encode({token_name: sent, proof_name: proof}))

    return Handshake(f"POST of `{where}` `{equals}`: the HMAC of `{token}`", respond, signed=True)


def query_proof(*, token: str, name: str) -> Handshake:
    """Answer a GET with the HMAC-SHA256 of its parameter `token`, in base64, as `{"name": "sha256=…"}`.

    Anyone may request it, so only tokens are signed that cannot be a delivery's body: JSON bodies begin with a brace.
    """

    def respond(request: WebhookRequest, payload: Payload, secrets: tuple[bytes, ...]) -> StaticAnswer | None:
        sent = query_parameters(request.query).get(token, "")
        if not secrets or not _TOKEN_OF_A_QUERY.fullmatch(sent):
            return None
        proof = base64.b64encode(hmac.digest(secrets[0], sent.encode(), "sha256")).decode()
        return StaticAnswer(200, "application/json", msgspec.json.encode({name: f"sha256={proof}"}))

    return Handshake(f"GET: the HMAC of `{token}`", respond, methods=("GET",))


def _permit(request: WebhookRequest, payload: Payload, secrets: tuple[bytes, ...]) -> StaticAnswer | None:
    origin = request.headers.one("webhook-request-origin", repeated="ambiguous_header")
    if origin is None or not _ORIGIN.fullmatch(origin):
        return None
    return StaticAnswer(fields=(("Allow", "POST"), ("WebHook-Allowed-Origin", origin), ("WebHook-Allowed-Rate", "*")))


PERMISSION = Handshake("OPTIONS: `WebHook-Request-Origin` is allowed", _permit, methods=("OPTIONS",))
"""Allows the host that an OPTIONS request names in `WebHook-Request-Origin` to send, at any rate.

CloudEvents' HTTP 1.1 Web Hooks for Event Delivery, section 4. This grants nothing: each delivery is still verified, and
limits are enforced with 429. `WebHook-Request-Callback` is never called, since anyone may name any URL there.
"""
