"""Encodings of keys and signatures: PEM, and base64 in its canonical form."""

from __future__ import annotations

import base64
import binascii

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes, PublicKeyTypes


def canonical_base64(text: str) -> bytes | None:
    """Decode padded base64; None if it is invalid or not canonical (RFC 4648 section 3.5)."""
    try:
        raw = base64.b64decode(text.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        return None
    return raw if base64.b64encode(raw).decode() == text else None


def read_pem(text: bytes) -> tuple[PublicKeyTypes | None, PrivateKeyTypes | None]:
    """Return the public or private key of a PEM text. Raises ValueError, in one line."""
    try:
        if b"PRIVATE KEY" in text.partition(b"\n")[0]:
            return None, serialization.load_pem_private_key(text, None)
        return serialization.load_pem_public_key(text), None
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ValueError("the secret is not a key in PEM that can be read") from None
