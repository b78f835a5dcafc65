"""Public keys that verify signatures, parsed from the formats in which senders show them."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes

from runtime.webhooks.keys.encoding import read_pem

_HEX = re.compile(rb"[0-9A-Fa-f]{64}")
_ED25519_HINT = "an Ed25519 key is 32 bytes in hex or base64, `whpk_…`, or PEM"
_P256_HINT = "a P-256 key is PEM, or its base64 without the lines about it"

# The points of small order (see RFC 7748 section 7): with one of them as the key, any signature is valid. They include
# zero, a common placeholder. Without the sign bit, which changes nothing.
_SMALL_ORDER = frozenset(
    bytes.fromhex(each)
    for each in (
        "00" * 32,
        "01" + "00" * 31,
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        "ec" + "ff" * 30 + "7f",
        "ed" + "ff" * 30 + "7f",
        "ee" + "ff" * 30 + "7f",
    )
)


@dataclass(frozen=True, slots=True)
class Key:
    """`verify(signature, message)` returns True if the signature is valid; `sign(message)` is None without the private
    half."""

    verify: Callable[[bytes, bytes], bool]
    sign: Callable[[bytes], bytes] | None = None


Load = Callable[[bytes], Key]
"""Parses a key from a webhook's secret. Raises ValueError, without the secret, in one line."""


def ed25519_key(secret: bytes) -> Key:
    """Parse an Ed25519 key (RFC 8032): the 32 public bytes in hex or base64, with or without `whpk_`; PEM; or, to sign
    as well, a private key as PEM or `whsk_…` (Standard Webhooks)."""
    text = secret.strip()
    if text.startswith(b"-----BEGIN"):
        public, private = read_pem(text)
    elif text.startswith(b"whsk_"):
        public, private = None, _seed(_base64(text[5:], _ED25519_HINT))
    else:
        public, private = _ed25519_public(text), None
    if private is not None:
        public = private.public_key()
    if not isinstance(public, Ed25519PublicKey):
        raise ValueError(f"the secret is not an Ed25519 key: {_ED25519_HINT}")
    raw = public.public_bytes_raw()
    if bytes((*raw[:31], raw[31] & 0x7F)) in _SMALL_ORDER:
        raise ValueError("the secret is an Ed25519 key that proves nothing (a point of small order)")
    sign = private.sign if isinstance(private, Ed25519PrivateKey) else None
    return Key(_as_predicate(public.verify), sign)


def p256_key(secret: bytes) -> Key:
    """Parse an ECDSA key on P-256 for SHA-256, with DER signatures (RFC 3279 section 2.2.3): PEM, or base64 of a
    SubjectPublicKeyInfo; a private PEM signs as well."""
    text = secret.strip()
    public, private = read_pem(text) if text.startswith(b"-----BEGIN") else (_spki(_base64(text, _P256_HINT)), None)
    if private is not None:
        public = private.public_key()
    if not isinstance(public, ec.EllipticCurvePublicKey) or not isinstance(public.curve, ec.SECP256R1):
        raise ValueError(f"the secret is not a P-256 key: {_P256_HINT}")
    verify, algorithm = public.verify, ec.ECDSA(hashes.SHA256())
    sign = None
    if isinstance(private, ec.EllipticCurvePrivateKey):
        signer = private

        def sign(message: bytes) -> bytes:
            return signer.sign(message, algorithm)

    return Key(_as_predicate(lambda signature, message: verify(signature, message, algorithm)), sign)


def _as_predicate(verify: Callable[[bytes, bytes], None]) -> Callable[[bytes, bytes], bool]:
    def holds(signature: bytes, message: bytes) -> bool:
        try:
            verify(signature, message)
        except InvalidSignature:
            return False
        return True

    return holds


def _ed25519_public(text: bytes) -> PublicKeyTypes | None:
    raw = bytes.fromhex(text.decode()) if _HEX.fullmatch(text) else _base64(text.removeprefix(b"whpk_"), _ED25519_HINT)
    if len(raw) != 32:
        return _spki(raw)
    return Ed25519PublicKey.from_public_bytes(raw)


def _seed(raw: bytes) -> Ed25519PrivateKey | None:
    """Return the private key of the 32 bytes of RFC 8032, or of these followed by the 32 public bytes."""
    if len(raw) not in {32, 64}:
        return None
    key = Ed25519PrivateKey.from_private_bytes(raw[:32])
    return key if raw[32:] in {b"", key.public_key().public_bytes_raw()} else None


def _spki(der: bytes) -> PublicKeyTypes | None:
    try:
        return serialization.load_der_public_key(der)
    except (ValueError, UnsupportedAlgorithm):
        return None


def _base64(text: bytes, hint: str) -> bytes:
    try:
        return base64.b64decode(b"".join(text.split()), validate=True)
    except binascii.Error:
        raise ValueError(f"the secret is not such a key: {hint}") from None
