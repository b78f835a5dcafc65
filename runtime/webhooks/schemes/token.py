"""Shared tokens: a sender that shows a secret instead of signing with it.

Nothing here covers the body or a time: whoever reads one request can send any other. `signed` is empty, so that the
compiler warns of filters; the MAC of a match is only a digest of the body, and is never a replay key, as without a
timestamp there is none.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from runtime.webhooks.request.json_path import compile_path
from runtime.webhooks.request.payload import Decoder, decode_json
from runtime.webhooks.request.refusal import Refused
from runtime.webhooks.request.request import Request
from runtime.webhooks.schemes.scheme import Check, Match, Scheme, UnsignedRequest

# More notifications than any sender puts into one delivery.
_ITEMS = 10_000


def token_key(secret: bytes) -> bytes:
    """The token as it stands in a header: what is about it can't be sent (RFC 9110 section 5.5).

    Raises ValueError, without the secret, for one that no header can hold.
    """
    token = secret.strip(b" \t\r\n")
    if not all(0x20 <= each < 0x7F for each in token):
        raise ValueError("the secret is sent in a header as it is: it is printable ASCII")
    return token


@dataclass(frozen=True, slots=True, kw_only=True)
class Token(Scheme):
    """The token in `header`, behind `prefix`."""

    header: str
    prefix: str = ""

    def check(self, secrets: Sequence[bytes]) -> Check:
        header, found = self.header.lower(), _found(secrets, self.prefix.encode())

        def verify(request: Request, now: float) -> Match:
            value = request.headers.required(header, "missing_signature")
            index = found(value.encode("utf-8", "surrogatepass"))
            if index is None:
                raise Refused("signature_mismatch")
            return Match(hashlib.sha256(request.body).digest(), None, index)

        return verify

    def sign(self, secret: bytes, unsigned: UnsignedRequest) -> list[tuple[str, str]]:
        return [(self.header, self.prefix + token_key(secret).decode("ascii"))]


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyToken(Scheme):
    """The token as the text `field` of every object that the JSONPath `items` finds in the body: one at least, and
    every one with a right token, or the whole request is refused."""

    field: str
    items: str = "$"
    wrap: Callable[[dict[str, Any]], object] | None = None
    """Makes the body that a delivery would have of one object, for bodies without any."""

    def check(self, secrets: Sequence[bytes]) -> Check:
        find, found, field = compile_path(self.items), _found(secrets), self.field

        def verify(request: Request, now: float) -> Match:
            items = find(decode_json(request.body))
            if not 0 < len(items) <= _ITEMS or not all(isinstance(each, dict) for each in items):
                raise Refused("missing_signature")
            tokens = [each.get(field) for each in items if isinstance(each, dict)]
            if not all(isinstance(token, str) and token for token in tokens):
                raise Refused("missing_signature")
            indexes = {found(token.encode("utf-8", "surrogatepass")) for token in tokens if isinstance(token, str)}
            if None in indexes:
                raise Refused("signature_mismatch")
            index = min(each for each in indexes if each is not None)
            return Match(hashlib.sha256(request.body).digest(), None, index)

        return verify

    def embed(self, secret: bytes, unsigned: UnsignedRequest) -> bytes:
        """Raises ValueError for a body that is no JSON object."""
        try:
            body = decode_json(unsigned.body)
        except Refused:
            body = None
        if not isinstance(body, dict):
            raise ValueError("this sender puts its token into the body, which must be a JSON object")
        find = compile_path(self.items)
        document: object = body if find(body) or self.wrap is None else self.wrap(body)
        for item in find(document):
            if isinstance(item, dict):
                item[self.field] = token_key(secret).decode("ascii")
        return msgspec.json.encode(document)


def without(*names: str, items: str = "$") -> Decoder:
    """JSON without these fields of the objects that `items` finds: the token in a body is nothing to remember."""
    find = compile_path(items)

    def decode(body: bytes, content_type: str) -> object:
        document = decode_json(body)
        for item in find(document):
            for name in names:
                if isinstance(item, dict):
                    item.pop(name, None)
        return document

    return decode


def _found(secrets: Sequence[bytes], prefix: bytes = b"") -> Callable[[bytes], int | None]:
    """Which of the tokens a value is: all of them are compared, each in constant time."""
    tokens = [prefix + token_key(secret) for secret in secrets]

    def find(value: bytes) -> int | None:
        held = [hmac.compare_digest(token, value) for token in tokens]
        return held.index(True) if True in held else None

    return find
