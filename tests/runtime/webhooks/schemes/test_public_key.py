"""Ed25519 and ECDSA: keys in every format that senders show, and signatures in one format each."""

from __future__ import annotations

import base64

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa, utils
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from runtime.webhooks.keys.public_key import ed25519_key, p256_key
from runtime.webhooks.request.refusal import RefusedRequest
from runtime.webhooks.schemes.public_key import PublicKey
from runtime.webhooks.schemes.scheme import CannotSign
from tests.signatures import prepare, sign, verify

NOW = 1_700_000_000
BODY = b'{"type":2,"id":"1"}'
ED25519 = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
P256 = ec.derive_private_key(0xC0FFEE, ec.SECP256R1())
RAW = ED25519.public_key().public_bytes_raw()
# The order of P-256's group (SEC 2 section 2.4.2).
ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551


def pem(key: Ed25519PrivateKey | ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def public(key: Ed25519PrivateKey | ec.EllipticCurvePrivateKey, encoding: serialization.Encoding) -> bytes:
    return key.public_key().public_bytes(encoding, serialization.PublicFormat.SubjectPublicKeyInfo)


def signed(provider: str, secret: bytes) -> list[tuple[str, str]]:
    return sign(provider, secret, BODY, now=NOW, delivery_id="d1")


@pytest.mark.parametrize(
    "secret",
    [
        RAW.hex(), RAW.hex().upper(), base64.b64encode(RAW), b"whpk_" + base64.b64encode(RAW),
        RAW.hex().encode() + b"\n", public(ED25519, serialization.Encoding.PEM),
        base64.b64encode(public(ED25519, serialization.Encoding.DER)), pem(ED25519),
        b"whsk_" + base64.b64encode(bytes(range(32))), b"whsk_" + base64.b64encode(bytes(range(32)) + RAW),
    ],
)  # fmt: skip
def test_an_ed25519_key_is_taken_in_every_form_that_it_is_shown_in(secret: str | bytes) -> None:
    assert verify("discord", [secret], signed("discord", pem(ED25519)), BODY, now=NOW).timestamp == NOW


@pytest.mark.parametrize(
    "secret",
    [
        "0" * 64, "01" + "00" * 31, "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
        "whpk_" + base64.b64encode(bytes(32)).decode(), RAW.hex()[:-2], RAW.hex() + "00", "whpk_AAAA",
        "not a key", "whsk_" + base64.b64encode(bytes(64)).decode(),
        pem(P256), public(P256, serialization.Encoding.PEM), pem(rsa.generate_private_key(65537, 2048)),
        b"-----BEGIN PUBLIC KEY-----\nnothing\n-----END PUBLIC KEY-----",
        base64.b64encode(public(P256, serialization.Encoding.DER)), "é" * 32,
    ],
)  # fmt: skip
def test_what_is_no_ed25519_key_is_one_clear_line_without_it(secret: str | bytes) -> None:
    with pytest.raises(ValueError, match=r"^the secret is") as caught:
        prepare("discord", [secret])
    text = secret.decode() if isinstance(secret, bytes) else secret
    assert text not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "secret",
    [
        base64.b64encode(public(P256, serialization.Encoding.DER)), public(P256, serialization.Encoding.PEM), pem(P256),
        P256.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        ),
    ],
)  # fmt: skip
def test_a_p256_key_is_taken_in_every_form_that_it_is_shown_in(secret: bytes) -> None:
    assert verify("sendgrid", [secret], signed("sendgrid", pem(P256)), BODY, now=NOW).timestamp == NOW


@pytest.mark.parametrize("secret", [pem(ED25519), pem(ec.generate_private_key(ec.SECP384R1())), "MFkw", "x", RAW.hex()])
def test_what_is_no_p256_key_is_one_clear_line(secret: str | bytes) -> None:
    with pytest.raises(ValueError, match=r"^the secret is"):
        prepare("sendgrid", [secret])


@pytest.mark.parametrize(
    ("provider", "secret"),
    [
        ("discord", RAW.hex()),
        ("telnyx", base64.b64encode(RAW).decode()),
        ("sendgrid", base64.b64encode(public(P256, serialization.Encoding.DER)).decode()),
        ("standard-webhooks", "whpk_" + base64.b64encode(RAW).decode()),
    ],
)
def test_a_public_key_cannot_sign_and_says_what_can(provider: str, secret: str) -> None:
    with pytest.raises(CannotSign, match="needs the private key as its secret"):
        sign(provider, secret, BODY, now=NOW, delivery_id="d1")


def test_the_other_signature_of_a_message_is_no_other_request() -> None:
    headers = signed("sendgrid", pem(P256))
    first = verify("sendgrid", [pem(P256)], headers, BODY, now=NOW)
    name, text = headers[-1]
    r, s = utils.decode_dss_signature(base64.b64decode(text))
    mirrored = base64.b64encode(utils.encode_dss_signature(r, ORDER - s)).decode()
    second = verify("sendgrid", [pem(P256)], [*headers[:-1], (name, mirrored)], BODY, now=NOW)
    assert mirrored != text
    assert second.mac == first.mac


@pytest.mark.parametrize("length", [0, 1, 63, 64, 65, 72, 200])
def test_bytes_that_are_no_signature_are_refused(length: int) -> None:
    for provider, key in (("sendgrid", P256), ("telnyx", ED25519)):
        headers = signed(provider, pem(key))
        wrong = [*headers[:-1], (headers[-1][0], base64.b64encode(b"\x30" * length).decode() or "=")]
        with pytest.raises(RefusedRequest) as caught:
            verify(provider, [pem(key)], wrong, BODY, now=NOW)
        assert caught.value.shown == "invalid_signature"


def test_digits_cannot_wander_from_the_body_into_the_timestamp() -> None:
    body = b"17 things"
    headers = sign("discord", pem(ED25519), body, now=NOW, delivery_id="d1")
    moved = [(name, value + "1" if name == "X-Signature-Timestamp" else value) for name, value in headers]
    with pytest.raises(RefusedRequest, match="future"):
        verify("discord", [pem(ED25519)], moved, b"7 things", now=NOW)


def test_a_scheme_whose_parts_contradict_each_other_is_not_made() -> None:
    with pytest.raises(ValueError, match="timestamp"):
        PublicKey(key=ed25519_key, header="S", timestamp_header="T", payload="{body}")
    with pytest.raises(ValueError, match="id"):
        PublicKey(key=p256_key, header="S", timestamp_header="T", payload="{id}.{timestamp}.{body}")


def test_the_asymmetric_and_the_symmetric_half_of_standard_webhooks_never_stand_in_for_each_other() -> None:
    public_key = "whpk_" + base64.b64encode(RAW).decode()
    # An attacker who uses the public key as the key of an HMAC.
    forged = sign("standard-webhooks", "whsec_" + base64.b64encode(RAW).decode(), BODY, now=NOW, delivery_id="d1")
    with pytest.raises(RefusedRequest, match="malformed_signature"):
        verify("standard-webhooks", [public_key], forged, BODY, now=NOW)
    rightly = sign("standard-webhooks", pem(ED25519), BODY, now=NOW, delivery_id="d1")
    assert verify("standard-webhooks", [public_key], rightly, BODY, now=NOW).delivery_id == "d1"
    both = [(n, v if n != "webhook-signature" else f"v1,{'A' * 43}= {v}") for n, v in rightly]
    assert verify("standard-webhooks", [public_key], both, BODY, now=NOW).timestamp == NOW


def test_a_message_signed_by_the_curves_own_hash_is_what_the_vendor_signs() -> None:
    raw = P256.sign(str(NOW).encode() + BODY, ec.ECDSA(hashes.SHA256()))
    headers = [
        ("X-Twilio-Email-Event-Webhook-Signature", base64.b64encode(raw).decode()),
        ("X-Twilio-Email-Event-Webhook-Timestamp", str(NOW)),
    ]
    assert verify("sendgrid", [pem(P256)], headers, BODY, now=NOW).mac
