"""Derives the bytes of a key from a webhook's secret."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence

from runtime.secrets.secret import Secret

# HMAC pads a short key with zero bytes (RFC 2104 section 2), so a secret of zero bytes is the empty key.
_BLANK = b" \t\r\n\v\f\0"

_PUBLIC = (
    *(b"-----BEGIN PUBLIC KEY", b"-----BEGIN RSA PUBLIC KEY", b"-----BEGIN CERTIFICATE", b"whpk_"),
    *(b"ssh-rsa ", b"ssh-ed25519 ", b"ecdsa-sha2-"),
)


def secret_bytes(secret: str | bytes | Secret) -> bytes:
    """Return the secret's bytes; text is UTF-8. Raises ValueError, without the secret, if it is empty or blank."""
    value = secret.reveal() if isinstance(secret, Secret) else secret
    raw = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else bytes(value)
    if not raw.strip(_BLANK) or not raw.decode("utf-8", "replace").strip():
        raise ValueError("the secret is empty or blank")
    return raw


def all_secret_bytes(secrets: Sequence[str | bytes | Secret]) -> tuple[bytes, ...]:
    """Return the bytes of each secret, in order. Raises ValueError if there is none, or one is empty or blank.

    A single secret is treated as a sequence of one: the characters of a string must never each become a key.
    """
    each = (secrets,) if isinstance(secrets, str | bytes | Secret) else tuple(secrets)
    if not each:
        raise ValueError("there is no secret")
    return tuple(secret_bytes(secret) for secret in each)


def text_key(secret: bytes) -> bytes:
    """Return the secret's own bytes as the key. Raises ValueError, without the secret, for a public key or a
    certificate: these are not secret, so anyone could sign with them."""
    if secret.lstrip().startswith(_PUBLIC):
        raise ValueError("the secret is a public key, which is not secret, so it cannot be an HMAC key")
    return secret


def base64_key(secret: bytes) -> bytes:
    """Decode a secret that is base64 of the key, with or without `whsec_` or `v1,whsec_` before it (Standard Webhooks).

    Raises ValueError, without the secret, if it is not.
    """
    try:
        bare = secret.strip().removeprefix(b"v1,").removeprefix(b"whsec_")
        return _nonzero_key(base64.b64decode(bare, validate=True))
    except binascii.Error:
        raise ValueError("the secret is not base64") from None


def hex_key(secret: bytes) -> bytes:
    """Decode a secret that is the key in hexadecimal. Raises ValueError, without the secret, if it is not."""
    try:
        return _nonzero_key(binascii.unhexlify(secret.strip()))
    except binascii.Error:
        raise ValueError("the secret is not hexadecimal") from None


def _nonzero_key(key: bytes) -> bytes:
    if not key.strip(b"\0"):
        raise ValueError("the secret is empty or blank")
    return key
