from __future__ import annotations

import re

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa

from runtime.webhooks.keys.certificate import is_valid, signing_key
from runtime.webhooks.request.refusal import RefusedRequest
from tests.runtime.webhooks.keys.certificates import NOW, certificate

NAMES = re.compile(r"sns(\.[a-z0-9-]+)?\.amazonaws\.com")
KEY = rsa.generate_private_key(65537, 2048)
AUTHORITY = rsa.generate_private_key(65537, 2048)


def refused(document: bytes, now: float = NOW) -> None:
    with pytest.raises(RefusedRequest, match="untrusted_certificate"):
        signing_key(document, now, NAMES)


def taken(document: bytes, now: float, names: re.Pattern[str]) -> bool:
    return signing_key(document, now, names).key_size >= 2048


def test_the_key_of_a_valid_certificate_of_the_sender_verifies() -> None:
    key = signing_key(certificate(KEY), NOW, NAMES)
    raw = KEY.sign(b"text", padding.PKCS1v15(), hashes.SHA256())
    assert is_valid(key, raw, b"text")
    assert not is_valid(key, raw, b"texts")
    assert not is_valid(key, KEY.sign(b"text", padding.PKCS1v15(), hashes.SHA1()), b"text")
    assert not is_valid(key, b"", b"text")


def test_a_certificate_counts_from_its_first_second_to_its_last() -> None:
    document = certificate(KEY)
    for now in (NOW - 100, NOW + 100):
        assert taken(document, now, NAMES)
    refused(document, NOW - 101)
    refused(document, NOW + 101)


@pytest.mark.parametrize(
    "name",
    ["evil.example", "sns.amazonaws.com.evil.example", "evil-sns.amazonaws.com", "amazonaws.com", "*.amazonaws.com",
     "sns.amazonaws.com\n", "x.sns.amazonaws.com", "sns_amazonaws_com"],
)  # fmt: skip
def test_a_certificate_of_somebody_else_is_refused(name: str) -> None:
    refused(certificate(KEY, name))


def test_a_name_may_stand_among_the_alternative_ones() -> None:
    assert taken(certificate(KEY, "somebody", alternative="sns.eu-central-1.amazonaws.com"), NOW, NAMES)
    assert taken(certificate(KEY, "SNS.AmazonAWS.com"), NOW, NAMES)


def test_a_weak_key_or_one_of_another_kind_is_refused() -> None:
    refused(certificate(rsa.generate_private_key(65537, 1024)))
    refused(certificate(ec.generate_private_key(ec.SECP256R1())))


def test_an_authority_signs_no_messages() -> None:
    refused(certificate(KEY, authority=True))


def test_a_chain_that_comes_along_must_hold() -> None:
    leaf = certificate(KEY, issuer=(AUTHORITY, "authority"))
    above = certificate(AUTHORITY, "authority", authority=True)
    assert taken(leaf + above, NOW, NAMES)
    refused(leaf + certificate(KEY, "authority", authority=True))
    refused(leaf + certificate(AUTHORITY, "other authority", authority=True))
    refused(leaf + certificate(AUTHORITY, "authority", authority=True, end=NOW - 1))
    refused(above + leaf)
    refused(leaf + above * 8)


@pytest.mark.parametrize(
    "document", [b"", b"x", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", b"\xff"]
)
def test_what_is_no_certificate_is_refused(document: bytes) -> None:
    refused(document)
