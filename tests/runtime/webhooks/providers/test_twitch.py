"""Twitch: the signature as its documentation describes it, its challenge, revocations, and notifications sent twice."""

from __future__ import annotations

import hmac
import json
from datetime import UTC, datetime

import pytest

from runtime.webhooks.request.headers import Headers
from runtime.webhooks.request.refusal import RefusedRequest
from runtime.webhooks.request.request import WebhookRequest
from runtime.webhooks.verification import VerifiedRequest
from tests.signatures import prepare, verify

SECRET = "5f1a6e7cd2e7137ccf9e15b2f43fe63949eb84b1db83c1d5a867dc93429de4e4"
ID = "e76c6bd4-55c9-4987-8304-da1588d8988b"
TIME = "2019-11-16T10:11:12.634234626Z"
NOW = datetime(2019, 11, 16, 10, 11, 13, tzinfo=UTC).timestamp()


def body(status: str = "enabled", **more: object) -> bytes:
    subscription = {"id": "f1c2a387", "type": "channel.follow", "status": status, "transport": {"method": "webhook"}}
    return json.dumps({"subscription": subscription, **more}).encode()


NOTIFICATION = body(event={"user_name": "Cool_User", "status": "unfulfilled"})


def headers(content: bytes, identity: str = ID, time: str = TIME) -> list[tuple[str, str]]:
    mac = hmac.new(SECRET.encode(), f"{identity}{time}".encode() + content, "sha256").hexdigest()
    return [
        ("Twitch-Eventsub-Message-Id", identity),
        ("Twitch-Eventsub-Message-Timestamp", time),
        ("Twitch-Eventsub-Message-Signature", f"sha256={mac}"),
    ]


def received(content: bytes, now: float = NOW, **sent: str) -> VerifiedRequest:
    return verify("twitch", [SECRET], headers(content, **sent), content, now=now)


def test_a_notification_has_its_subscription_as_event_and_its_message_as_id() -> None:
    verified = received(NOTIFICATION)
    assert (verified.event, verified.delivery_id, verified.timestamp) == ("channel.follow", ID, int(NOW) - 1)


@pytest.mark.parametrize("status", ["authorization_revoked", "user_removed", "notification_failures_exceeded"])
def test_the_event_of_a_revocation_is_its_reason(status: str) -> None:
    assert received(body(status)).event == status


def test_a_message_is_refused_after_ten_minutes() -> None:
    with pytest.raises(RefusedRequest, match="stale"):
        received(NOTIFICATION, NOW + 600)


def test_the_end_of_an_id_cannot_be_moved_into_the_time_or_the_body() -> None:
    sent = dict(headers(NOTIFICATION))
    whole = ID + TIME + NOTIFICATION.decode()
    for at in range(1, len(whole) - 1):
        for size in (20, len(TIME)):
            parts = (whole[:at], whole[at : at + size], whole[at + size :].encode())
            if parts == (ID, TIME, NOTIFICATION):
                continue
            moved = dict(zip(sent, parts[:2], strict=False)) | {
                "Twitch-Eventsub-Message-Signature": [*sent.values()][2]
            }
            with pytest.raises(RefusedRequest):
                verify("twitch", [SECRET], list(moved.items()), parts[2], now=NOW)


def test_the_challenge_is_echoed_only_if_it_is_signed() -> None:
    content = body("webhook_callback_verification_pending", challenge="pogchamp-kappa-360noscope-vohiyo")
    verifier = prepare("twitch", [SECRET])
    request = WebhookRequest(Headers(headers(content)), content)
    assert verifier.handshake_response(request, verifier.payload(request), signed=False) is None
    verifier.check(request, NOW)
    answer = verifier.handshake_response(request, verifier.payload(request), signed=True)
    assert answer is not None
    assert (answer.status, answer.body) == (200, b"pogchamp-kappa-360noscope-vohiyo")
    with pytest.raises(RefusedRequest, match="signature_mismatch"):
        verifier.check(request._replace(body=content.replace(b"pogchamp", b"another1")), NOW)
