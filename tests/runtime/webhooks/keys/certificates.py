"""Certificates for tests, and the fetched documents with them."""

from __future__ import annotations

from datetime import UTC, datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

NOW = 1_700_000_000
Key = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey


def certificate(
    key: Key,
    name: str = "sns.amazonaws.com",
    *,
    issuer: tuple[Key, str] | None = None,
    alternative: str | None = None,
    start: float = NOW - 100,
    end: float = NOW + 100,
    authority: bool = False,
) -> bytes:
    """Return a certificate as PEM, self-signed unless `issuer` is given."""
    by, by_name = issuer or (key, name)
    built = x509.CertificateBuilder(
        named(by_name), named(name), key.public_key(), x509.random_serial_number(), moment(start), moment(end)
    )
    if alternative is not None:
        names = x509.SubjectAlternativeName([x509.DNSName(alternative)])
        built = built.add_extension(names, critical=False)
    if authority:
        built = built.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    return built.sign(by, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])


def moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def pem(key: rsa.RSAPrivateKey) -> bytes:
    """Return the private key as PEM, to sign test deliveries."""
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return key.private_bytes(encoding, form, serialization.NoEncryption())
