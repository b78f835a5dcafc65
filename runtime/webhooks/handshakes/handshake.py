"""Handshakes: requests by which a provider asks whether somebody is here, answered and not delivered.

Nothing that is echoed could be a page or a script: it is plain text of letters, digits and a few signs.
"""

from __future__ import annotations

import base64
import hmac
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import parse_qsl

import msgspec

from runtime.webhooks.request.json_path import compile_path
from runtime.webhooks.request.payload import Payload
from runtime.webhooks.request.refusal import Refused
from runtime.webhooks.request.request import Request
from runtime.webhooks.request.static_response import Answer

HandshakeResponder = Callable[[Request, Payload], Answer | None]
"""Answers a handshake; None for a request that is none. Raises `Refused` and nothing else."""

# What providers send is under 100 characters; nobody gets to have us echo a document.
_CHALLENGE = re.compile(r"[A-Za-z0-9._~=+/:-]{1,256}", re.ASCII)

# A token that is signed for whoever asks: nothing of these signs could be a body or a template's text.
_TOKEN = re.compile(r"[A-Za-z0-9_=-]{1,128}", re.ASCII)

# The same for a sender that stops sending when one is not signed, and whose bodies all begin with a brace anyway.
_TOKEN_OF_A_QUERY = re.compile(r"[A-Za-z0-9._~+/=-]{1,256}", re.ASCII)

_PARAMETERS = 16


class Handshake(Protocol):
    """One kind of handshake, with its parameters.

    `signed`: the request carries the provider's signature and is answered only once it is verified. Otherwise it is
    answered before, and must not change or reveal anything. `methods`: which it comes by.
    """

    @property
    def signed(self) -> bool: ...

    @property
    def methods(self) -> tuple[str, ...]: ...

    @property
    def words(self) -> str:
        """What is asked, and what is answered, in a few words for people."""

    def responder(self, secrets: tuple[bytes, ...]) -> HandshakeResponder:
        """Bind the secrets, for handshakes that answer with a signature of their own."""


def safe_challenge(text: object) -> bytes | None:
    """A challenge that may be echoed as plain text; None for anything else."""
    return text.encode() if isinstance(text, str) and _CHALLENGE.fullmatch(text) else None


def query_parameters(query: str) -> Mapping[str, str]:
    """The parameters of a query string. Empty when one of them stands there twice, or it is no query string."""
    try:
        pairs = parse_qsl(query, keep_blank_values=True, errors="strict", max_num_fields=_PARAMETERS)
    except ValueError:
        return {}
    found = dict(pairs)
    return found if len(found) == len(pairs) else {}


@dataclass(frozen=True, slots=True)
class ByMethod:
    """Several handshakes of one sender, each by methods of its own; all are signed, or none is."""

    each: tuple[Handshake, ...]

    def __post_init__(self) -> None:
        if len({handshake.signed for handshake in self.each}) != 1 or len(set(self.methods)) != len(self.methods):
            raise ValueError("handshakes of one sender differ by their methods, and in nothing else")

    @property
    def signed(self) -> bool:
        return self.each[0].signed

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(method for handshake in self.each for method in handshake.methods)

    @property
    def words(self) -> str:
        return "; ".join(each.words for each in self.each)

    def responder(self, secrets: tuple[bytes, ...]) -> HandshakeResponder:
        responders = {method: each.responder(secrets) for each in self.each for method in each.methods}
        return lambda request, payload: responders[request.method](request, payload)


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonEcho:
    """A JSON body whose `where` is `equals` is answered with the text at `echo`, as plain text."""

    where: str
    equals: str
    echo: str
    signed: bool = True
    methods: tuple[str, ...] = ("POST",)

    @property
    def words(self) -> str:
        return f"POST of `{self.where}` `{self.equals}`: `{self.echo}` is given back"

    def responder(self, secrets: tuple[bytes, ...]) -> HandshakeResponder:
        where, echo, equals = compile_path(self.where), compile_path(self.echo), self.equals

        def respond(request: Request, payload: Payload) -> Answer | None:
            body = payload.value_or_none()
            if equals not in where(body):
                return None
            challenge = safe_challenge(next(iter(echo(body)), None))
            return None if challenge is None else Answer(body=challenge)

        return respond


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonProof:
    """A signed JSON body whose `where` is `equals` is answered with its token at `token` and the token's HMAC-SHA256
    in hexadecimal, under the names `token_name` and `proof_name`."""

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

        def respond(request: Request, payload: Payload) -> Answer | None:
            body = payload.value_or_none()
            if equals not in where(body):
                return None
            token = next(iter(find(body)), None)
            if not secrets or not isinstance(token, str) or not _TOKEN.fullmatch(token):
                return None
            proof = hmac.digest(secrets[0], token.encode(), "sha256").hex()
            answer = msgspec.json.encode({self.token_name: token, self.proof_name: proof})
            return Answer(200, "application/json", answer)

        return respond


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryEcho:
    """A GET whose query has each of `fixed` is answered with its parameter `echo`, as plain text.

    `token_name`: the parameter that must be `token`, compared in constant time; a wrong one is refused. With a name
    and no token nothing is answered.
    """

    echo: str
    fixed: tuple[tuple[str, str], ...] = ()
    token_name: str | None = None
    token: str | None = field(default=None, repr=False)
    signed: bool = False
    methods: tuple[str, ...] = ("GET",)

    @property
    def words(self) -> str:
        return f"GET: `{self.echo}` is given back" + (" for the verify token" if self.token_name else "")

    def responder(self, secrets: tuple[bytes, ...]) -> HandshakeResponder:
        expected = None if self.token is None else self.token.encode("utf-8", "surrogateescape")

        def respond(request: Request, payload: Payload) -> Answer | None:
            parameters = query_parameters(request.query)
            challenge = safe_challenge(parameters.get(self.echo))
            if challenge is None or any(parameters.get(name) != value for name, value in self.fixed):
                return None
            if self.token_name is not None:
                given = parameters.get(self.token_name, "").encode("utf-8", "surrogateescape")
                if expected is None or not hmac.compare_digest(given, expected):
                    raise Refused("wrong_verify_token")
            return Answer(body=challenge)

        return respond


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryProof:
    """A GET is answered with the HMAC-SHA256 of its parameter `token`, in base64, as `{"name": "sha256=…"}`.

    Anybody may ask for it, so only tokens are signed that could not be a delivery's body: those of JSON begin with a
    brace.
    """

    token: str
    name: str
    signed: bool = False
    methods: tuple[str, ...] = ("GET",)

    @property
    def words(self) -> str:
        return f"GET: the HMAC of `{self.token}`"

    def responder(self, secrets: tuple[bytes, ...]) -> HandshakeResponder:
        def respond(request: Request, payload: Payload) -> Answer | None:
            token = query_parameters(request.query).get(self.token, "")
            if not secrets or not _TOKEN_OF_A_QUERY.fullmatch(token):
                return None
            proof = base64.b64encode(hmac.digest(secrets[0], token.encode(), "sha256")).decode()
            return Answer(200, "application/json", msgspec.json.encode({self.name: f"sha256={proof}"}))

        return respond


@dataclass(frozen=True, slots=True, kw_only=True)
class Present:
    """A request by one of `methods` that asks only whether somebody answers: with 200 and nothing."""

    signed: bool = False
    methods: tuple[str, ...] = ("HEAD",)

    @property
    def words(self) -> str:
        return f"{', '.join(self.methods)}: 200"

    def responder(self, secrets: tuple[bytes, ...]) -> HandshakeResponder:
        return lambda request, payload: Answer()


@dataclass(frozen=True, slots=True, kw_only=True)
class FormPing:
    """A form of the one field `name`, a number, that nobody signed: answered with 200 and nothing."""

    name: str
    signed: bool = False
    methods: tuple[str, ...] = ("POST",)

    @property
    def words(self) -> str:
        return f"POST of `{self.name}=…`: 200"

    def responder(self, secrets: tuple[bytes, ...]) -> HandshakeResponder:
        ping = re.compile(rb"%b=[0-9]{1,20}" % re.escape(self.name.encode()))

        def respond(request: Request, payload: Payload) -> Answer | None:
            return Answer() if ping.fullmatch(request.body) else None

        return respond
