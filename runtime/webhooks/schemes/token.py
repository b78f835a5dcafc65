"""Shared tokens: the sender includes a secret instead of signing with it.

Nothing covers the body or a time: a reader of one request can send any other. `signed` is empty, so the compiler warns
about filters. The MAC of a match is only a digest of the body, and never a replay key, since there is no timestamp.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import msgspec

from runtime.webhooks.request.json_path import compile_path
from runtime.webhooks.request.payload import Decoder, decode_json
from runtime.webhooks.request.refusal import RefusedRequest
from runtime.webhooks.request.request import WebhookRequest, query_parameters
from runtime.webhooks.schemes.scheme import Check, Match, Scheme, UnsignedRequest

# More than any sender puts into one delivery.
_ITEMS = 10_000


def token_key(secret: bytes) -> bytes:
    """Return the token without surrounding white space, which HTTP strips (RFC 9110 section 5.5).

    Raises ValueError, without the secret, if a header cannot contain it.
    """
    token = secret.strip(b" \t\r\n")
    if not all(0x20 <= each < 0x7F for each in token):
        raise ValueError("the secret is sent in a header, so it must be printable ASCII")
    return token


@dataclass(frozen=True, slots=True, kw_only=True)
class Token(Scheme):
    """The token in `header`, after `prefix`."""

    header: str
    prefix: str = ""

    def check(self, secrets: Sequence[bytes]) -> Check:
        header, match = self.header.lower(), matching([self.prefix.encode() + token_key(each) for each in secrets])

        def verify(request: WebhookRequest, now: float) -> Match:
            value = request.headers.require(header, "missing_signature")
            return match(request, value.encode("utf-8", "surrogatepass"))

        return verify

    def sign(self, secret: bytes, unsigned: UnsignedRequest) -> list[tuple[str, str]]:
        return [(self.header, self.prefix + token_key(secret).decode("ascii"))]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryToken(Scheme):
    """The token in `parameter` of the query, for a sender that can set no header."""

    parameter: str

    headers = ()

    @property
    def words(self) -> str:
        return f"shared token in the URL, `{self.parameter}`; nothing is signed"

    def check(self, secrets: Sequence[bytes]) -> Check:
        name, match = self.parameter, matching([token_key(each) for each in secrets])

        def verify(request: WebhookRequest, now: float) -> Match:
            token = query_parameters(request.query).get(name)
            if not token:
                raise RefusedRequest("missing_signature")
            return match(request, token.encode("utf-8", "surrogatepass"))

        return verify

    def query(self, secret: bytes) -> str:
        return urlencode({self.parameter: token_key(secret).decode("ascii")})


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyToken(Scheme):
    """The token as the text `field` of every object that the JSONPath `items` finds in the body. There must be at least
    one, and every one must have a right token, or the whole request is refused."""

    field: str
    items: str = "$"
    wrap: Callable[[dict[str, Any]], object] | None = None
    """Builds the body of a delivery from one object, for bodies without items."""

    def check(self, secrets: Sequence[bytes]) -> Check:
        find, field, tokens = compile_path(self.items), self.field, [token_key(each) for each in secrets]

        def verify(request: WebhookRequest, now: float) -> Match:
            items = find(decode_json(request.body))
            if not 0 < len(items) <= _ITEMS or not all(isinstance(each, dict) for each in items):
                raise RefusedRequest("missing_signature")
            sent = [each.get(field) for each in items if isinstance(each, dict)]
            if not all(isinstance(token, str) and token for token in sent):
                raise RefusedRequest("missing_signature")
            found = {_index(tokens, each.encode("utf-8", "surrogatepass")) for each in sent if isinstance(each, str)}
            return _match(request, -1 if -1 in found else min(found))

        return verify

    def embed(self, secret: bytes, unsigned: UnsignedRequest) -> bytes:
        """Return the body with the token. Raises ValueError for a body that is not a JSON object."""
        try:
            body = decode_json(unsigned.body)
        except RefusedRequest:
            body = None
        if not isinstance(body, dict):
            raise ValueError("this sender puts its token into the body: the body must be a JSON object")
        find = compile_path(self.items)
        document: object = body if find(body) or self.wrap is None else self.wrap(body)
        for item in find(document):
            if isinstance(item, dict):
                item[self.field] = token_key(secret).decode("ascii")
        return msgspec.json.encode(document)


def without(*names: str, items: str = "$") -> Decoder:
    """Return a decoder that removes these fields of the objects that `items` finds, so the token in a body is not
    stored in memory."""
    find = compile_path(items)

    def decode(body: bytes, content_type: str) -> object:
        document = decode_json(body)
        for item in find(document):
            for name in names:
                if isinstance(item, dict):
                    item.pop(name, None)
        return document

    return decode


def matching(tokens: Sequence[bytes]) -> Callable[[WebhookRequest, bytes], Match]:
    """Return a function of a request and what it has in place of a token. It raises `RefusedRequest` if that is none of
    them."""
    return lambda request, value: _match(request, _index(tokens, value))


def _index(tokens: Sequence[bytes], value: bytes) -> int:
    """Return the index of the token equal to a value, or -1; compares all tokens, each in constant time."""
    held = [hmac.compare_digest(token, value) for token in tokens]
    return held.index(True) if True in held else -1


def _match(request: WebhookRequest, index: int) -> Match:
    if index < 0:
        raise RefusedRequest("signature_mismatch")
    return Match(hashlib.sha256(request.body).digest(), None, index)
