"""JSON Web Tokens (RFC 7519) that a request carries, optionally with a hash of its body."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import jwt

from runtime.webhooks.keys.jwt_key import JwtKey, check_family, encode, keys_of_document, keys_of_secret
from runtime.webhooks.request.payload import decode_json
from runtime.webhooks.request.refusal import RefusedRequest
from runtime.webhooks.request.request import WebhookRequest
from runtime.webhooks.schemes.scheme import CannotSign, Check, KeyNeeded, Match, Scheme, UnsignedRequest
from runtime.webhooks.schemes.timestamp import check_fresh

_TOKEN = re.compile(r"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)")
_LENGTH = 8192
_CANDIDATES = 16
_LIFETIME = 300

# Seconds that the sender's clock may be ahead when it issues a token, regardless of the leeway.
_AHEAD = 60

# Year 2286, as for timestamps: larger values are not times.
_LATEST = 10**10

_Keys = Callable[[WebhookRequest, str | None], Sequence[tuple[int, JwtKey]]]
_jws = jwt.PyJWS()


@dataclass(frozen=True, slots=True, kw_only=True)
class Jwt(Scheme):
    """A token in `header`, after `Bearer ` in `Authorization` and bare elsewhere.

    Keys are derived from the secrets, or from the JWK set at `jwks_url`; `configured`: True if the webhook's owner
    wrote that URL. The token only selects a key by `kid`: `jku`, `x5u`, `jwk` and `x5c` are ignored, and a token with
    `crit` is refused, since no extension is supported (RFC 7515 section 4.1).

    `algorithms` are of one family. `issuer` and `audience`: accepted values, one of which must be present; a token with
    an audience is refused if none is configured (RFC 7519 section 4.1.3). `claims` must have exactly these values.
    `exp` is required if `expires`. `exp` and `nbf` are checked with `leeway` seconds; `iat` may be in the future by at
    most the leeway, or a minute. With a `tolerance`, `iat` is required, checked in both directions, and the match's
    timestamp. `body_claim` contains the SHA-256 of the body, in hexadecimal or base64.

    A match's MAC is a digest of the signed text and the body: ECDSA has two signatures for every token, and a token
    without a body claim may come with several bodies.
    """

    header: str = "Authorization"
    algorithms: tuple[str, ...] = ("RS256",)
    issuer: tuple[str, ...] = ()
    audience: tuple[str, ...] = ()
    jwks_url: str | None = None
    configured: bool = True
    claims: tuple[tuple[str, object], ...] = ()
    expires: bool = True
    leeway: float = 0
    tolerance: float | None = None
    body_claim: str | None = None

    def __post_init__(self) -> None:
        check_family(self.algorithms)
        if self.jwks_url is not None and self.algorithms[0].startswith("HS"):
            raise ValueError("published keys are not HMAC keys: set algorithms to those of the keys")

    @property
    def signed(self) -> tuple[str, ...]:
        parts = ("timestamp",) if self.tolerance is not None else ()
        return (*parts, "body") if self.body_claim is not None else parts

    def check(self, secrets: Sequence[bytes]) -> Check:
        keys = self._published_keys() if self.jwks_url is not None else self._keys_of_secrets(secrets)
        header, bearer = self.header.lower(), self.header.lower() == "authorization"

        def verify(request: WebhookRequest, now: float) -> Match:
            value = request.headers.require(header, "missing_signature")
            token = _bearer(value) if bearer else value
            algorithm, kid = self._header(token)
            index, claims = _verify_token(token, algorithm, keys(request, kid))
            self._check_claims(claims, request.body, now)
            mac = hashlib.sha256(token.rpartition(".")[0].encode() + b"\0" + request.body).digest()
            return Match(mac, None if self.tolerance is None else int(claims["iat"]), index)

        return verify

    def sign(self, secret: bytes, unsigned: UnsignedRequest) -> list[tuple[str, str]]:
        try:
            key = keys_of_secret(secret, self.algorithms)[0]
        except ValueError:
            if self.jwks_url is None:
                raise
            raise CannotSign("only the sender can sign: it publishes its public keys only") from None
        if key.signer is None:
            raise CannotSign(
                "a public key verifies and cannot sign: a test delivery needs the private key as its secret"
            )
        algorithm = next(each for each in self.algorithms if each in key.algorithms)
        token = encode(self._claims(unsigned), key, algorithm)
        return [(self.header, f"Bearer {token}" if self.header.lower() == "authorization" else token)]

    def _claims(self, unsigned: UnsignedRequest) -> dict[str, Any]:
        now = int(unsigned.now)
        claims: dict[str, Any] = {"iat": now, "jti": unsigned.delivery_id, **dict(self.claims)}
        if self.expires:
            claims["exp"] = now + _LIFETIME
        if self.issuer:
            claims["iss"] = self.issuer[0]
        if self.audience:
            claims["aud"] = self.audience[0]
        if self.body_claim is not None:
            claims[self.body_claim] = hashlib.sha256(unsigned.body).hexdigest()
        return claims

    def _keys_of_secrets(self, secrets: Sequence[bytes]) -> _Keys:
        """Return the keys of the secrets, each with its secret's index."""
        known = [(n, key) for n, secret in enumerate(secrets) for key in keys_of_secret(secret, self.algorithms)]

        def choose(request: WebhookRequest, kid: str | None) -> Sequence[tuple[int, JwtKey]]:
            return [(n, key) for n, key in known if kid is None or key.kid in {None, kid}]

        return choose

    def _published_keys(self) -> _Keys:
        """Return the keys of the document, decoded once per document."""
        url, seen, known = self.jwks_url or "", b"", ()  # type: str, bytes, tuple[JwtKey, ...]

        def choose(request: WebhookRequest, kid: str | None) -> Sequence[tuple[int, JwtKey]]:
            nonlocal seen, known
            document = request.keys(url)
            if document is None:
                raise KeyNeeded(url, configured=self.configured)
            if document is not seen:
                known = keys_of_document(document, self.algorithms)
                seen = document
            fitting = [(0, key) for key in known if kid is None or key.kid == kid]
            if not fitting:
                raise KeyNeeded(url, outdated=True, configured=self.configured)
            return fitting

        return choose

    def _header(self, token: str) -> tuple[str, str | None]:
        """Return algorithm and key id of a well-formed token. Raises `RefusedRequest`."""
        match = _TOKEN.fullmatch(token) if len(token) <= _LENGTH else None
        if match is None or not all(_is_canonical(segment) for segment in match.groups()):
            raise RefusedRequest("malformed_signature")
        header = _decode_object(match[1])
        algorithm, kid = header.get("alg"), header.get("kid")
        if algorithm not in self.algorithms or "crit" in header or "b64" in header:
            raise RefusedRequest("malformed_signature")
        return str(algorithm), kid if isinstance(kid, str) else None

    def _check_claims(self, claims: Mapping[str, Any], body: bytes, now: float) -> None:
        """Raise `RefusedRequest` unless the claims of a token with a valid signature have the required values."""
        if self.body_claim is not None and not _is_hash_of(body, claims.get(self.body_claim)):
            raise RefusedRequest("signature_mismatch")
        audience = claims.get("aud", [])
        audience = [audience] if isinstance(audience, str) else audience
        if not isinstance(audience, list) or bool(audience) != bool(self.audience):
            raise RefusedRequest("unwanted_sender")
        if self.audience and not any(each in self.audience for each in audience):
            raise RefusedRequest("unwanted_sender")
        if self.issuer and claims.get("iss") not in self.issuer:
            raise RefusedRequest("unwanted_sender")
        if any(type(claims.get(name)) is not type(value) or claims[name] != value for name, value in self.claims):
            raise RefusedRequest("unwanted_sender")
        issued, expiry = _time(claims, "iat", self.tolerance is not None), _time(claims, "exp", self.expires)
        if expiry is not None and expiry + self.leeway <= now:
            raise RefusedRequest("stale")
        if (_time(claims, "nbf", False) or 0) > now + self.leeway:
            raise RefusedRequest("future")
        if issued is not None and self.tolerance is not None:
            check_fresh(issued, now, self.tolerance)
        elif issued is not None and issued > now + max(self.leeway, _AHEAD):
            raise RefusedRequest("future")


def _verify_token(token: str, algorithm: str, keys: Sequence[tuple[int, JwtKey]]) -> tuple[int, Mapping[str, Any]]:
    """Return the index of the secret whose key verifies the token, and the claims; all keys are tried. Raises
    `RefusedRequest`."""
    held: list[int] = []
    for index, key in [each for each in keys if algorithm in each[1].algorithms][:_CANDIDATES]:
        with suppress(jwt.PyJWTError):
            _jws.decode_complete(token, key.value, algorithms=[algorithm])
            held.append(index)
    if not held:
        raise RefusedRequest("signature_mismatch")
    return held[0], _decode_object(token.split(".")[1])


def _bearer(value: str) -> str:
    scheme, _, token = value.partition(" ")
    # The scheme's name is case-insensitive (RFC 9110 section 11.1).
    if scheme.lower() != "bearer":
        raise RefusedRequest("malformed_signature")
    return token


def _decode_segment(segment: str) -> bytes:
    return base64.urlsafe_b64decode(segment + "=" * (-len(segment) % 4))


def _is_canonical(segment: str) -> bool:
    """Return True if the text is the canonical base64url of its bytes: the last character may have unused bits."""
    return len(segment) % 4 != 1 and base64.urlsafe_b64encode(_decode_segment(segment)).rstrip(b"=") == segment.encode()


def _decode_object(segment: str) -> Mapping[str, Any]:
    try:
        value = decode_json(_decode_segment(segment))
    except RefusedRequest:
        raise RefusedRequest("malformed_signature") from None
    if not isinstance(value, dict):
        raise RefusedRequest("malformed_signature")
    return value


def _is_hash_of(body: bytes, claimed: object) -> bool:
    if not isinstance(claimed, str):
        return False
    digest, given = hashlib.sha256(body).digest(), claimed.encode("utf-8", "surrogatepass")
    plain, url = base64.b64encode(digest), base64.urlsafe_b64encode(digest)
    held = [hmac.compare_digest(each, given) for each in (digest.hex().encode(), plain, url, url.rstrip(b"="))]
    return any(held)


def _time(claims: Mapping[str, Any], name: str, needed: bool) -> float | None:
    """Return a NumericDate (RFC 7519 section 2) in seconds. Raises `RefusedRequest`."""
    value = claims.get(name)
    if value is None:
        if needed:
            raise RefusedRequest("missing_timestamp")
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _LATEST:
        raise RefusedRequest("malformed_timestamp")
    return float(value)
