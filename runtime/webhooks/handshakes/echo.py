"""Handshakes that are answered with a text of the request, or with an empty body."""

from __future__ import annotations

import hmac
import re
from dataclasses import dataclass, field

from runtime.webhooks.handshakes.handshake import HandshakeResponder, safe_challenge
from runtime.webhooks.request.json_path import compile_path
from runtime.webhooks.request.payload import Payload
from runtime.webhooks.request.refusal import RefusedRequest
from runtime.webhooks.request.request import WebhookRequest, query_parameters
from runtime.webhooks.request.static_response import StaticAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonEcho:
    """Answer a JSON body whose `where` is `equals` with the text at `echo`, as plain text."""

    where: str
    equals: str
    echo: str
    signed: bool = True
    methods: tuple[str, ...] = ("POST",)

    @property
    def words(self) -> str:
        return f"POST of `{self.where}` `{self.equals}`: `{self.echo}` is echoed"

    def responder(self, secrets: tuple[bytes, ...]) -> HandshakeResponder:
        where, echo, equals = compile_path(self.where), compile_path(self.echo), self.equals

        def respond(request: WebhookRequest, payload: Payload) -> StaticAnswer | None:
            body = payload.value_or_none()
            if equals not in where(body):
                return None
            challenge = safe_challenge(next(iter(echo(body)), None))
            return None if challenge is None else StaticAnswer(body=challenge)

        return respond


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryEcho:
    """Answer a GET whose query has each of `fixed` with its parameter `echo`, as plain text.

    `token_name`: the parameter that must equal `token`, compared in constant time; a wrong one is refused. With a name
    and no token there is no answer.
    """

    echo: str
    fixed: tuple[tuple[str, str], ...] = ()
    token_name: str | None = None
    token: str | None = field(default=None, repr=False)
    signed: bool = False
    methods: tuple[str, ...] = ("GET",)

    @property
    def words(self) -> str:
        return f"GET: `{self.echo}` is echoed" + (" for the verify token" if self.token_name else "")

    def responder(self, secrets: tuple[bytes, ...]) -> HandshakeResponder:
        expected = None if self.token is None else self.token.encode("utf-8", "surrogateescape")

        def respond(request: WebhookRequest, payload: Payload) -> StaticAnswer | None:
            parameters = query_parameters(request.query)
            challenge = safe_challenge(parameters.get(self.echo))
            if challenge is None or any(parameters.get(name) != value for name, value in self.fixed):
                return None
            if self.token_name is not None:
                given = parameters.get(self.token_name, "").encode("utf-8", "surrogateescape")
                if expected is None or not hmac.compare_digest(given, expected):
                    raise RefusedRequest("wrong_verify_token")
            return StaticAnswer(body=challenge)

        return respond


@dataclass(frozen=True, slots=True, kw_only=True)
class FormPing:
    """Answer an unsigned form whose only field is `name`, a number, with 200 and an empty body."""

    name: str
    signed: bool = False
    methods: tuple[str, ...] = ("POST",)

    @property
    def words(self) -> str:
        return f"POST of `{self.name}=…`: 200"

    def responder(self, secrets: tuple[bytes, ...]) -> HandshakeResponder:
        ping = re.compile(rb"%b=[0-9]{1,20}" % re.escape(self.name.encode()))

        def respond(request: WebhookRequest, payload: Payload) -> StaticAnswer | None:
            return StaticAnswer() if ping.fullmatch(request.body) else None

        return respond
