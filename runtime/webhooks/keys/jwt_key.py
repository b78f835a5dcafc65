"""Keys for JSON Web Tokens: from a webhook's secret, or from a document that the sender publishes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import get_default_algorithms
from jwt.exceptions import InvalidKeyError

from runtime.webhooks.keys.encoding import read_pem
from runtime.webhooks.keys.shared_secret import text_key
from runtime.webhooks.request.payload import decode_json
from runtime.webhooks.request.refusal import RefusedRequest

FAMILIES = (
    ("HS256", "HS384", "HS512"),
    ("RS256", "RS384", "RS512"),
    ("PS256", "PS384", "PS512"),
    ("ES256", "ES384", "ES512"),
    ("EdDSA",),
)
"""The algorithms (RFC 7518 section 3.1, RFC 8037) by the kind of key that they use, without `none`."""

_CURVES = {"ES256": ec.SECP256R1, "ES384": ec.SECP384R1, "ES512": ec.SECP521R1}
_MINIMUM_RSA = 2048  # RFC 7518 section 3.3
_KEYS = 100


class JwtKey(NamedTuple):
    """One key in PyJWT's form: `value` verifies; `signer` signs and is None without the private half. `algorithms`: the
    algorithms allowed for it."""

    value: Any
    algorithms: frozenset[str]
    kid: str | None = None
    signer: Any = None


def check_family(algorithms: Sequence[str]) -> None:
    """Raise ValueError unless `algorithms` are of one family: a key is never used as a key of another kind."""
    if not algorithms or not any(set(algorithms) <= set(family) for family in FAMILIES):
        families = "; ".join(", ".join(family) for family in FAMILIES)
        raise ValueError(f"the algorithms must be of one family: {families}")


def keys_of_secret(secret: bytes, algorithms: Sequence[str]) -> tuple[JwtKey, ...]:
    """Return the keys in `secret`: for HMAC its own bytes; else PEM, a JWK or a JWK set (RFC 7517).

    Raises ValueError, without the secret, if there is no key for these algorithms, or if an HMAC key is shorter than
    its hash (RFC 7518 section 3.2) or looks like a public key, which is not secret.
    """
    if algorithms[0].startswith("HS"):
        return (_hmac_key(secret, algorithms),)
    text = secret.strip()
    found = _keys_of_set(text, algorithms) if text.startswith(b"{") else _pem_keys(text, algorithms)
    if not found:
        hint = "; for a shared secret set algorithms to HS256" if not text.startswith((b"{", b"-----")) else ""
        raise ValueError(f"the secret is not a key for {', '.join(algorithms)}: PEM, or a JWK{hint}")
    return found


def keys_of_document(document: bytes, algorithms: Sequence[str]) -> tuple[JwtKey, ...]:
    """Return the suitable public keys of a fetched JWK set; none for any other document. Shared keys in it are never
    used."""
    try:
        return _keys_of_set(document, algorithms)
    except ValueError:
        return ()


def _hmac_key(secret: bytes, algorithms: Sequence[str]) -> JwtKey:
    try:
        value = text_key(get_default_algorithms()["HS256"].prepare_key(secret))
    except InvalidKeyError:
        message = "the secret is a public key or a JWK, which is not an HMAC key: set algorithms to those of the key"
        raise ValueError(message) from None
    shortest = max(int(name[2:]) for name in algorithms) // 8
    if len(secret) < shortest:
        raise ValueError(f"the secret is too short for {', '.join(algorithms)}: at least {shortest} bytes")
    return JwtKey(value, frozenset(algorithms), signer=value)


def _pem_keys(text: bytes, algorithms: Sequence[str]) -> tuple[JwtKey, ...]:
    try:
        public, private = read_pem(text)
        return _suitable_keys([(private or public, None, None)], algorithms)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return ()


def _keys_of_set(text: bytes, algorithms: Sequence[str]) -> tuple[JwtKey, ...]:
    try:
        given = decode_json(text)
    except RefusedRequest:
        raise ValueError("the secret is not JSON that can be read") from None
    members = given.get("keys", [given]) if isinstance(given, dict) else []
    found = []
    for member in members[:_KEYS] if isinstance(members, list) else ():
        if not isinstance(member, dict) or member.get("kty") == "oct" or member.get("use", "sig") != "sig":
            continue
        kid, alg = member.get("kid"), member.get("alg")
        try:
            value = jwt.PyJWK(member, None if alg in get_default_algorithms() else _any_algorithm(member)).key
        except (jwt.PyJWTError, ValueError, TypeError, KeyError, UnsupportedAlgorithm):
            continue
        found.append((value, kid if isinstance(kid, str) else None, alg))
    return _suitable_keys(found, algorithms)


def _any_algorithm(member: dict[str, Any]) -> str | None:
    """Return the algorithm hint with which PyJWT reads a key that has no known `alg`."""
    return {"RSA": "RS256", "OKP": "EdDSA"}.get(str(member.get("kty")))


def _suitable_keys(keys: Iterable[tuple[Any, str | None, object]], algorithms: Sequence[str]) -> tuple[JwtKey, ...]:
    """Return the keys that can verify one of `algorithms`, each with those that it can."""
    found = []
    for value, kid, alg in keys:
        fits = frozenset(each for each in algorithms if _fits(value, each) and alg in {None, each})
        if fits:
            private = hasattr(value, "private_bytes")
            found.append(JwtKey(value.public_key() if private else value, fits, kid, value if private else None))
    return tuple(found)


def _fits(value: Any, algorithm: str) -> bool:
    if algorithm in _CURVES:
        known = isinstance(value, ec.EllipticCurvePublicKey | ec.EllipticCurvePrivateKey)
        return known and isinstance(value.curve, _CURVES[algorithm])
    if algorithm == "EdDSA":
        return isinstance(value, ed25519.Ed25519PublicKey | ed25519.Ed25519PrivateKey)
    return isinstance(value, rsa.RSAPublicKey | rsa.RSAPrivateKey) and value.key_size >= _MINIMUM_RSA


def encode(claims: dict[str, Any], key: JwtKey, algorithm: str) -> str:
    """Return a token of `claims`, signed with a suitable key."""
    return jwt.encode(claims, key.signer, algorithm, headers=None if key.kid is None else {"kid": key.kid})
