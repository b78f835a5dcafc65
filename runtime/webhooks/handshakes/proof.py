"""Handshakes that are answered with an HMAC of a token in the request."""

from __future__ import annotations

import base64
import hmac
import re
from dataclasses import dataclass

import msgspec

from runtime.webhooks.handshakes.handshake import HandshakeResponder
from runtime.webhooks.request.json_path import compile_path
from runtime.webhooks.request.payload import Payload
from runtime.webhooks.request.request import WebhookRequest, query_parameters
from runtime.webhooks.request.static_response import StaticAnswer

# The token is signed for anyone who asks, so its characters cannot form a body or a template's text.
_TOKEN = re.compile(r"[A-Za-z0-9_=-]{1,128}", re.ASCII)

# The same for a sender that stops sending if its token is not signed, and whose bodies all begin with a brace.
_TOKEN_OF_A_QUERY = re.compile(r"[A-Za-z0-9._~+/=-]{1,256}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonProof:
    """Answer a signed JSON body whose `where` is `equals` with its token at `token` and the token's HMAC-SHA256 in
    hexadecimal, as a JSON object with the names `token_name` and `proof_name`."""

    where: str
    equals: str
    token: str
    token_name: str
    proof_name: str
    signed: bool = True
    methods: tuple[str, ...] = ("POST",)

    @property
    def words(self) -> str:
        return f"POST of `{self.where}` `{self.equals}`: the HMAC of `{self.token}`"

    def responder(self, secrets: tuple[bytes, ...]) -> HandshakeResponder:
        where, find, equals = compile_path(self.where), compile_path(self.token), self.equals

        def respond(request: WebhookRequest, payload: Payload) -> StaticAnswer | None:
            body = payload.value_or_none()
            if equals not in where(body):
                return None
            token = next(iter(find(body)), None)
            if not secrets or not isinstance(token, str) or not _TOKEN.fullmatch(token):
                return None
            proof = hmac.digest(secrets[0], token.encode(), "sha256").hex()
            answer = msgspec.json.encode({self.token_name: token, self.proof_name: proof})
            return StaticAnswer(200, "application/json", answer)

        return respond


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryProof:
    """Answer a GET with the HMAC-SHA256 of its parameter `token`, in base64, as `{"name": "sha256=…"}`.

    Anyone may request it, so only tokens are signed that cannot be a delivery's body: JSON bodies begin with a brace.
    """

    token: str
    name: str
    signed: bool = False
    methods: tuple[str, ...] = ("GET",)

    @property
    def words(self) -> str:
        return f"GET: the HMAC of `{self.token}`"

    def responder(self, secrets: tuple[bytes, ...]) -> HandshakeResponder:
        def respond(request: WebhookRequest, payload: Payload) -> StaticAnswer | None:
            token = query_parameters(request.query).get(self.token, "")
            if not secrets or not _TOKEN_OF_A_QUERY.fullmatch(token):
                return None
            proof = base64.b64encode(hmac.digest(secrets[0], token.encode(), "sha256")).decode()
            return StaticAnswer(200, "application/json", msgspec.json.encode({self.name: f"sha256={proof}"}))

        return respond
