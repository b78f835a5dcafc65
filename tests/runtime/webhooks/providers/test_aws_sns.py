"""Amazon SNS: the canonical text, the topic, the certificate's URL, and confirmations."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from structlog.testing import capture_logs

from runtime.webhooks.providers.aws_sns import canonical
from runtime.webhooks.request.headers import Headers
from runtime.webhooks.request.refusal import RefusedRequest
from runtime.webhooks.request.request import WebhookRequest
from runtime.webhooks.schemes.scheme import CannotSign, KeyNeeded
from runtime.webhooks.verification import VerifiedRequest
from tests.runtime.webhooks.keys.certificates import NOW, certificate, pem
from tests.signatures import prepare, sign_request, verify

TOPIC = "arn:aws:sns:us-west-2:123456789012:MyTopic"
URL = "https://sns.us-west-2.amazonaws.com/SimpleNotificationService-f3ecfb7224c7233fe7bb5f59f96de52f.pem"
SUBSCRIBE = f"https://sns.us-west-2.amazonaws.com/?Action=ConfirmSubscription&TopicArn={TOPIC}&Token=2336412f37fb"
KEY = rsa.generate_private_key(65537, 2048)
DOCUMENT = certificate(KEY)

# Written by hand from the vendor's page, so that the code is not compared with itself.
NOTIFICATION: dict[str, Any] = {
    "Type": "Notification",
    "MessageId": "22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324",
    "TopicArn": TOPIC,
    "Subject": "My First Message",
    "Message": "Hello\nworld!",
    "Timestamp": "2023-11-14T22:13:20.655Z",
    "SignatureVersion": "2",
    "SigningCertURL": URL,
    "UnsubscribeURL": "https://sns.us-west-2.amazonaws.com/?Action=Unsubscribe",
    "MessageAttributes": {"k": {"Type": "String", "Value": "v"}},
}
NOTIFICATION_TEXT = (
    b"Message\nHello\nworld!\nMessageId\n22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324\nSubject\nMy First Message\n"
    b"Timestamp\n2023-11-14T22:13:20.655Z\nTopicArn\narn:aws:sns:us-west-2:123456789012:MyTopic\nType\nNotification\n"
)
CONFIRMATION: dict[str, Any] = {
    "Type": "SubscriptionConfirmation",
    "MessageId": "165545c9-2a5c-472c-8df2-7ff2be2b3b1b",
    "Token": "2336412f37fb",
    "TopicArn": TOPIC,
    "Message": "You have chosen to subscribe.",
    "SubscribeURL": SUBSCRIBE,
    "Timestamp": "2023-11-14T22:13:20.655Z",
    "SignatureVersion": "2",
    "SigningCertURL": URL,
}
CONFIRMATION_TEXT = (
    "Message\nYou have chosen to subscribe.\nMessageId\n165545c9-2a5c-472c-8df2-7ff2be2b3b1b\n"
    f"SubscribeURL\n{SUBSCRIBE}\nTimestamp\n2023-11-14T22:13:20.655Z\nToken\n2336412f37fb\n"
    f"TopicArn\n{TOPIC}\nType\nSubscriptionConfirmation\n"
).encode()


def sealed(message: dict[str, Any], text: bytes | None = None, key: rsa.RSAPrivateKey = KEY) -> bytes:
    raw = key.sign(canonical(message) if text is None else text, padding.PKCS1v15(), hashes.SHA256())
    return json.dumps({**message, "Signature": base64.b64encode(raw).decode()}).encode()


def check(
    body: bytes, *, topic: object = TOPIC, document: bytes | None = DOCUMENT, now: float = NOW
) -> VerifiedRequest:
    return verify("aws-sns", [], [], body, now=now, options={"topic": topic}, keys=lambda url: document)


def reason(body: bytes, **more: Any) -> str:
    with pytest.raises(RefusedRequest) as caught:
        check(body, **more)
    return caught.value.reason


def test_both_kinds_of_messages_are_verified_over_the_vendors_text() -> None:
    verified = check(sealed(NOTIFICATION, NOTIFICATION_TEXT))
    assert (verified.event, verified.delivery_id) == ("Notification", NOTIFICATION["MessageId"])
    assert check(sealed(CONFIRMATION, CONFIRMATION_TEXT)).event == "SubscriptionConfirmation"
    without = {name: value for name, value in NOTIFICATION.items() if name != "Subject"}
    assert check(sealed(without, NOTIFICATION_TEXT.replace(b"Subject\nMy First Message\n", b""))).mac
    assert check(sealed({**without, "Subject": None})).mac


@pytest.mark.parametrize("name", ["Message", "MessageId", "Subject", "Timestamp", "Type"])
def test_a_signed_member_cannot_be_changed(name: str) -> None:
    body = json.loads(sealed(NOTIFICATION))
    body[name] = (
        "UnsubscribeConfirmation" if name == "Type" else "2023-11-14T22:13:21.655Z" if name == "Timestamp" else "x"
    )
    assert reason(json.dumps(body).encode()) in {"signature_mismatch", "malformed_signature"}
    del body[name]
    assert reason(json.dumps(body).encode()) in {"signature_mismatch", "malformed_signature"}


def test_what_is_not_signed_is_not_seen() -> None:
    body = sealed(NOTIFICATION)
    verifier = prepare("aws-sns", [], {"topic": TOPIC})
    value = verifier.payload(WebhookRequest(Headers([("Content-Type", "text/plain")]), body)).value()
    assert isinstance(value, dict)
    assert set(value) == {"Type", "MessageId", "TopicArn", "Subject", "Message", "Timestamp"}
    other = sealed({**NOTIFICATION, "MessageAttributes": {"k": {"Type": "String", "Value": "other"}}})
    assert check(other).mac == check(body).mac


def test_lines_cannot_wander_from_one_member_into_another() -> None:
    moved = {**NOTIFICATION, "Message": "Hello", "MessageId": "x\nMessageId\n22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324"}
    assert reason(sealed(moved, NOTIFICATION_TEXT)) == "malformed_signature"
    for name in ("Subject", "Timestamp", "MessageId"):
        text = NOTIFICATION_TEXT
        assert reason(sealed({**NOTIFICATION, name: f"{NOTIFICATION[name]}\nx"}, text)) == "malformed_signature"


@pytest.mark.parametrize(
    "topic", ["arn:aws:sns:us-west-2:123456789012:Other", "arn:aws:sns:us-west-2:999999999999:MyTopic"]
)
def test_a_topic_that_was_not_named_is_refused_however_well_it_is_signed(topic: str) -> None:
    assert reason(sealed({**NOTIFICATION, "TopicArn": topic})) == "unwanted_sender"
    assert check(sealed({**NOTIFICATION, "TopicArn": topic}), topic=[TOPIC, topic]).mac


def test_the_old_version_of_the_signature_is_refused() -> None:
    raw = KEY.sign(NOTIFICATION_TEXT, padding.PKCS1v15(), hashes.SHA1())
    body = {**NOTIFICATION, "SignatureVersion": "1", "Signature": base64.b64encode(raw).decode()}
    assert reason(json.dumps(body).encode()) == "outdated_signature"
    for version in ("2", 2, None, "3"):
        expected = "signature_mismatch" if version == "2" else "outdated_signature"
        assert reason(json.dumps({**body, "SignatureVersion": version}).encode()) == expected


@pytest.mark.parametrize(
    "url",
    [
        URL.replace("https", "http"), URL.replace("us-west-2", "us-east-1"), URL.replace(".com/", ".com.evil.example/"),
        URL.replace("https://", "https://evil.example/"), URL.replace("https://", "https://a@"), URL + "?x", URL + "#x",
        URL.replace(".com/", ".com:444/"), URL.replace(".com/", ".com/../"), URL.replace(".com/", ".com//"),
        URL.replace(".pem", ".crt"), URL.replace("sns.", "sns.evil."), URL.replace(".com", ".com.cn"), URL + "\n",
        "", None,
        URL.replace("sns.us-west-2.amazonaws.com", "sns.us-west-2.amazonaws.com\\@evil.example"), URL.upper(), [URL],
        URL.replace("sns.us-west-2.amazonaws.com", "bucket.s3.amazonaws.com"), URL.replace(".com/", ".com%2f"),
    ],
)  # fmt: skip
def test_a_certificate_is_only_fetched_from_amazons_host_of_the_topics_region(url: object) -> None:
    asked: list[str] = []

    def keys(asked_for: str) -> bytes:
        asked.append(asked_for)
        return DOCUMENT

    body = sealed({**NOTIFICATION, "SigningCertURL": url})
    with pytest.raises(RefusedRequest, match="malformed_signature"):
        verify("aws-sns", [], [], body, now=NOW, options={"topic": TOPIC}, keys=keys)
    assert asked == []


@pytest.mark.parametrize(
    ("topic", "host"),
    [
        (TOPIC, "sns.us-west-2.amazonaws.com"),
        ("arn:aws-cn:sns:cn-north-1:123456789012:t", "sns.cn-north-1.amazonaws.com.cn"),
        ("arn:aws-us-gov:sns:us-gov-west-1:123456789012:t.fifo", "sns.us-gov-west-1.amazonaws.com"),
    ],
)
def test_a_certificate_that_is_not_here_is_asked_for(topic: str, host: str) -> None:
    url = f"https://{host}/SimpleNotificationService-0.pem"
    with pytest.raises(KeyNeeded) as caught:
        check(sealed({**NOTIFICATION, "TopicArn": topic, "SigningCertURL": url}), topic=topic, document=None)
    assert (caught.value.url, caught.value.outdated, caught.value.configured) == (url, False, False)


def test_another_certificate_or_key_is_refused() -> None:
    other = rsa.generate_private_key(65537, 2048)
    assert reason(sealed(NOTIFICATION, key=other)) == "signature_mismatch"
    assert reason(sealed(NOTIFICATION), document=certificate(other)) == "signature_mismatch"
    assert reason(sealed(NOTIFICATION), document=certificate(KEY, "evil.example")) == "untrusted_certificate"
    assert reason(sealed(NOTIFICATION), document=b"<html>") == "untrusted_certificate"


def test_retries_of_an_hour_are_taken_and_no_older_ones() -> None:
    document = certificate(KEY, start=NOW - 10_000, end=NOW + 10_000)
    assert check(sealed(NOTIFICATION), now=NOW + 3600, document=document).timestamp == NOW
    assert reason(sealed(NOTIFICATION), now=NOW + 3601, document=document) == "stale"
    assert reason(sealed(NOTIFICATION), now=NOW - 3601, document=document) == "future"


@pytest.mark.parametrize("text", ["2023-11-14T22:13:20", "1700000000", "2023-11-14 22:13:20Z", "", "now"])
def test_a_time_in_another_form_is_refused(text: str) -> None:
    assert reason(sealed({**NOTIFICATION, "Timestamp": text})) == "malformed_timestamp"


@pytest.mark.parametrize("signature", ["", None, 1, "=", "AAAA", "é", [1]])
def test_a_signature_that_is_none_is_refused(signature: object) -> None:
    body = json.dumps({**NOTIFICATION, "Signature": signature}).encode()
    assert reason(body) in {"missing_signature", "malformed_signature", "signature_mismatch"}


@pytest.mark.parametrize(
    "body", [b"[]", b"1", b"{}", b'{"Signature": "AAAA"}', b'{"Signature": "AAAA", "Type": "Other"}']
)
def test_a_body_of_another_shape_is_refused(body: bytes) -> None:
    assert reason(body) in {"missing_signature", "malformed_signature"}


def answer_to(message: dict[str, Any]) -> tuple[object, list[Any]]:
    verifier = prepare("aws-sns", [], {"topic": TOPIC})
    request = WebhookRequest(Headers([]), sealed(message), keys=lambda url: DOCUMENT)
    verifier.check(request, NOW)
    with capture_logs() as lines:
        answer = verifier.handshake_response(request, verifier.payload(request), signed=True)
    return answer, lines


def test_a_subscription_is_shown_to_the_owner_and_never_confirmed_for_him() -> None:
    answer, lines = answer_to(CONFIRMATION)
    assert answer is not None
    assert [(line["topic"], line["url"]) for line in lines] == [(TOPIC, SUBSCRIBE)]
    assert answer_to(NOTIFICATION) == (None, [])
    assert answer_to({**CONFIRMATION, "Type": "UnsubscribeConfirmation"}) == (None, [])


@pytest.mark.parametrize(
    "url", ["https://evil.example/", SUBSCRIBE.replace("/?", ".evil.example/?"), SUBSCRIBE + " x\x1b"]
)
def test_a_url_that_is_not_amazons_is_not_shown(url: str) -> None:
    _, lines = answer_to({**CONFIRMATION, "SubscribeURL": url})
    assert url not in str(lines)


@pytest.mark.parametrize(
    "topic", ["", "MyTopic", "arn:aws:sqs:us-west-2:123456789012:q", TOPIC + "\n", [], ["x"], None]
)
def test_a_topic_that_is_none_is_one_clear_line(topic: object) -> None:
    with pytest.raises(ValueError, match="provider aws-sns: topic") as caught:
        prepare("aws-sns", [], {"topic": topic})
    assert "\n" not in str(caught.value)


def test_only_amazon_can_sign() -> None:
    options = {"topic": TOPIC}
    with pytest.raises(CannotSign, match="only Amazon SNS can sign"):
        sign_request("aws-sns", "unverified", b"{}", now=NOW, delivery_id="d1", options=options)
    _, body = sign_request("aws-sns", pem(KEY), b'{"n":1}', now=NOW, delivery_id="d1", options=options)
    assert check(body).delivery_id == "d1"
