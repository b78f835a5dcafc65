"""Certificates in which senders publish their signing keys (RFC 5280)."""

from __future__ import annotations

import base64
import re
from datetime import UTC, datetime
from functools import lru_cache
from itertools import pairwise

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.x509.oid import NameOID

from runtime.webhooks.keys.encoding import canonical_base64, read_pem
from runtime.webhooks.request.refusal import RefusedRequest

_CHAIN = 8
_MINIMUM_RSA = 2048


def signing_key(document: bytes, now: float, names: re.Pattern[str]) -> rsa.RSAPublicKey:
    """Return the RSA key of the first certificate in `document` (PEM).

    It must be valid at `now` (Unix seconds), have a name that `names` matches fully, and not be a CA certificate. Each
    further certificate must be valid and have issued the one before it. The root is not checked: the document is
    trusted because it was fetched over a verified connection to the sender's own host, and a sender's file seldom
    contains the whole chain. Raises `RefusedRequest` `untrusted_certificate`.
    """
    chain = _certificates(document)
    leaf, moment = chain[0], datetime.fromtimestamp(now, UTC)
    if not all(each.not_valid_before_utc <= moment <= each.not_valid_after_utc for each in chain):
        raise RefusedRequest("untrusted_certificate")
    if not any(names.fullmatch(name) for name in _names(leaf)) or _is_authority(leaf):
        raise RefusedRequest("untrusted_certificate")
    for issued, issuer in pairwise(chain):
        try:
            issued.verify_directly_issued_by(issuer)
        except (ValueError, TypeError, InvalidSignature):
            raise RefusedRequest("untrusted_certificate") from None
    key = leaf.public_key()
    if not isinstance(key, rsa.RSAPublicKey) or key.key_size < _MINIMUM_RSA:
        raise RefusedRequest("untrusted_certificate")
    return key


def is_valid(key: rsa.RSAPublicKey, signature: bytes, message: bytes) -> bool:
    """Return True if an RSA signature with SHA-256 (PKCS #1 version 1.5, RFC 8017 section 8.2) is valid."""
    try:
        key.verify(signature, message, padding.PKCS1v15(), hashes.SHA256())
    except InvalidSignature:
        return False
    return True


def read_signature(text: object) -> bytes:
    """Decode a signature in canonical padded base64. Raises `RefusedRequest` `malformed_signature`."""
    raw = canonical_base64(text) if isinstance(text, str) else None
    if not raw:
        raise RefusedRequest("malformed_signature")
    return raw


def write_signature(key: rsa.RSAPrivateKey, message: bytes) -> str:
    """Return the RSA signature of `message`, in base64."""
    return base64.b64encode(key.sign(message, padding.PKCS1v15(), hashes.SHA256())).decode()


def private_key(secret: bytes) -> rsa.RSAPrivateKey | None:
    """Return the RSA key to sign with, given as PEM; None for anything else."""
    try:
        _, key = read_pem(secret)
    except ValueError:
        return None
    return key if isinstance(key, rsa.RSAPrivateKey) else None


@lru_cache(maxsize=64)
def _certificates(document: bytes) -> tuple[x509.Certificate, ...]:
    try:
        chain = x509.load_pem_x509_certificates(document)
    except ValueError:
        raise RefusedRequest("untrusted_certificate") from None
    if not 0 < len(chain) <= _CHAIN:
        raise RefusedRequest("untrusted_certificate")
    return tuple(chain)


def _names(leaf: x509.Certificate) -> list[str]:
    """Return the host names of the certificate, in lower case."""
    common = [str(each.value) for each in leaf.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    try:
        alternative = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        common += alternative.get_values_for_type(x509.DNSName)
    except (x509.ExtensionNotFound, ValueError):
        pass
    return [name.lower() for name in common]


def _is_authority(leaf: x509.Certificate) -> bool:
    try:
        return leaf.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False
    except ValueError:
        return True
