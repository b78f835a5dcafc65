"""PayPal: the signed text, the certificate, and its source."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from runtime.webhooks.providers import PROVIDERS
from runtime.webhooks.request.refusal import RefusedRequest
from runtime.webhooks.schemes.scheme import CannotSign, KeyNeeded
from runtime.webhooks.verification import VerifiedRequest
from tests.runtime.webhooks.keys.certificates import NOW, certificate, pem
from tests.signatures import matched, prepare, sign, verify

WEBHOOK = "8PT597110X687430LKGECATA"
URL = "https://api.paypal.com/v1/notifications/certs/CERT-360caa42-fca2a594-1d93a270"
BODY = b'{"id":"WH-58D329510W468432D","event_type":"PAYMENT.CAPTURE.COMPLETED"}'
KEY = rsa.generate_private_key(65537, 2048)
DOCUMENT = certificate(KEY, "messageverificationcerts.paypal.com", start=NOW - 10**6, end=NOW + 10**6)


def sent(body: bytes = BODY, webhook: str = WEBHOOK, **changes: str) -> list[tuple[str, str]]:
    """Return the signed text, written by hand from the vendor's library."""
    identity, time = "69cd13f0-d67a-11e5-baa3-778b53f4ae55", "2023-11-14T22:13:20Z"
    text = f"{identity}|{time}|{webhook}|{zlib.crc32(body) & 0xFFFFFFFF}"
    raw = KEY.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256())
    headers = {
        "PAYPAL-TRANSMISSION-ID": identity,
        "PAYPAL-TRANSMISSION-TIME": time,
        "PAYPAL-TRANSMISSION-SIG": base64.b64encode(raw).decode(),
        "PAYPAL-CERT-URL": URL,
        "PAYPAL-AUTH-ALGO": "SHA256withRSA",
    }
    return list(
        {**headers, **{f"PAYPAL-{name.upper().replace('_', '-')}": value for name, value in changes.items()}}.items()
    )


def check(headers: list[tuple[str, str]], body: bytes = BODY, **more: Any) -> VerifiedRequest:
    options = {"webhook_id": WEBHOOK, "sandbox": more.pop("sandbox", False)}
    document = more.pop("document", DOCUMENT)
    return verify("paypal", [], headers, body, now=more.pop("now", NOW), options=options, keys=lambda url: document)


def reason(headers: list[tuple[str, str]], body: bytes = BODY, **more: Any) -> str:
    with pytest.raises(RefusedRequest) as caught:
        check(headers, body, **more)
    return caught.value.reason


def test_a_delivery_for_this_webhook_is_accepted() -> None:
    verified = check(sent())
    assert (verified.event, verified.delivery_id) == ("PAYMENT.CAPTURE.COMPLETED", "WH-58D329510W468432D")
    assert verified.timestamp == NOW


def test_another_webhook_body_time_or_transmission_is_refused() -> None:
    assert reason(sent(webhook="ANOTHER")) == "signature_mismatch"
    assert reason(sent(), BODY + b" ") == "signature_mismatch"
    assert reason(sent(transmission_time="2023-11-14T22:13:21Z")) == "signature_mismatch"
    assert reason(sent(transmission_id="69cd13f0")) == "signature_mismatch"
    assert reason(sent(transmission_id="69cd13f0|2023-11-14T22:13:20Z")) == "malformed_signature"


def test_a_body_of_the_same_crc_is_the_same_request_and_not_called_signed() -> None:
    assert "body" not in PROVIDERS["paypal"].signed
    first = check(sent())
    # Four bytes are enough to give any text any CRC-32.
    forged = with_crc(b'{"id":"WH-FORGED"}', zlib.crc32(BODY))
    assert zlib.crc32(forged) == zlib.crc32(BODY)
    options = {"webhook_id": WEBHOOK}
    assert matched("paypal", [], sent(), forged, now=NOW, options=options, keys=lambda url: DOCUMENT).mac == first.mac


def with_crc(body: bytes, wanted: int) -> bytes:
    """Return `body` with four more bytes, so that the CRC-32 of the whole is `wanted`."""
    table = []
    for n in range(256):
        value = n
        for _ in range(8):
            value = (value >> 1) ^ (0xEDB88320 if value & 1 else 0)
        table.append(value)
    high = {value >> 24: n for n, value in enumerate(table)}
    state, indexes = wanted ^ 0xFFFFFFFF, []
    for _ in range(4):
        index = high[state >> 24]
        indexes.append(index)
        state = ((state ^ table[index]) << 8) & 0xFFFFFFFF
    register, tail = zlib.crc32(body) ^ 0xFFFFFFFF, b""
    for index in reversed(indexes):
        tail += bytes([(register ^ index) & 0xFF])
        register = table[index] ^ (register >> 8)
    return body + tail


@pytest.mark.parametrize(
    "url",
    [
        URL.replace("https", "http"), URL.replace("api.paypal.com", "evil.example"),
        URL.replace(".com/", ".com.evil.example/"), URL.replace("api.", "x.api."), URL.replace(".com/", ".com:8443/"),
        URL.replace("https://", "https://a@"), URL + "?x",
        URL + "/../x", URL.replace("certs/", "certs/../"), URL.replace("notifications/certs", "other"), "x",
        URL.replace("api.", "api.sandbox."), URL.replace("api.paypal.com", "api.paypal.com@evil.example"),
    ],
)  # fmt: skip
def test_a_certificate_is_only_fetched_from_paypals_own_host(url: str) -> None:
    assert reason(sent(cert_url=url), document=None) == "malformed_signature"


def test_a_certificate_that_is_not_here_is_asked_for() -> None:
    with pytest.raises(KeyNeeded) as caught:
        check(sent(), document=None)
    assert (caught.value.url, caught.value.configured) == (URL, False)


def test_the_sandbox_and_the_real_thing_are_told_apart() -> None:
    sandbox = URL.replace("api.", "api.sandbox.")
    assert reason(sent(), sandbox=True) == "malformed_signature"
    assert check(sent(cert_url=sandbox), sandbox=True).mac


def test_a_certificate_of_another_name_is_refused() -> None:
    for name in ("paypal.com", "messageverificationcerts.paypal.com.evil.example", "evilpaypal.com"):
        document = certificate(KEY, name)
        assert reason(sent(), document=document) == "untrusted_certificate"


@pytest.mark.parametrize("algorithm", ["SHA1withRSA", "sha256WithRSA", "none"])
def test_one_algorithm_is_taken(algorithm: str) -> None:
    assert reason(sent(auth_algo=algorithm)) == "outdated_signature"


def test_deliveries_are_repeated_for_three_days() -> None:
    assert check(sent(), now=NOW + 3 * 86400).mac
    assert reason(sent(), now=NOW + 3 * 86400 + 1) == "stale"


@pytest.mark.parametrize("webhook", ["", "a|b", "a b", None, "x" * 65])
def test_an_id_that_is_none_is_one_clear_line(webhook: object) -> None:
    with pytest.raises(ValueError, match="provider paypal: webhook_id"):
        prepare("paypal", [], {"webhook_id": webhook})


def test_only_paypal_can_sign() -> None:
    options = {"webhook_id": WEBHOOK}
    with pytest.raises(CannotSign, match="only PayPal can sign"):
        sign("paypal", "unverified", BODY, now=NOW, delivery_id="d1", options=options)
    assert check(sign("paypal", pem(KEY), BODY, now=NOW, delivery_id="d1", options=options)).timestamp == NOW


def test_the_text_that_is_signed_is_the_one_of_paypals_own_library() -> None:
    # The rest needs a function that pyOpenSSL has removed.
    library = pytest.importorskip("paypalrestsdk.notifications", reason="`.[vendors]` has paypalrestsdk")
    headers = dict(sent())
    identity, time = headers["PAYPAL-TRANSMISSION-ID"], headers["PAYPAL-TRANSMISSION-TIME"]
    text = library.WebhookEvent._get_expected_sig(identity, time, WEBHOOK, BODY.decode())
    raw = base64.b64encode(KEY.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256())).decode()
    assert check(sent(transmission_sig=raw)).mac
