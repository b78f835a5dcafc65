"""Signatures of the vendors' own libraries and published examples verify; requests that these accept wrongly do not."""

from __future__ import annotations

import hashlib
import hmac
import json

import pytest
import stripe
from slack_sdk.signature import SignatureVerifier

from tests.signatures import NOW, refusal, verify

SECRET = "whsec_of_the_tests"
EVENT = b'{"id": "evt_1", "object": "event", "type": "invoice.paid"}'


def stripe_header(body: bytes, secret: str = SECRET, timestamp: int = NOW) -> str:
    mac = stripe.WebhookSignature._compute_signature(f"{timestamp}.{body.decode()}", secret)
    return f"t={timestamp},v1={mac}"


def test_githubs_published_values_verify() -> None:
    signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    verified = verify(
        "github", ["It's a Secret to Everybody"], [("X-Hub-Signature-256", signature)], b"Hello, World!", now=NOW
    )
    assert verified.mac.hex() == signature.removeprefix("sha256=")


def test_githubs_old_sha1_header_proves_nothing() -> None:
    mac = hmac.new(b"s", EVENT, hashlib.sha1).hexdigest()
    assert refusal("github", "s", [("X-Hub-Signature", f"sha1={mac}")], EVENT) == "missing_signature"
    assert refusal("github", "s", [("X-Hub-Signature-256", f"sha1={mac}")], EVENT) == "malformed_signature"


def test_stripes_own_signature_verifies() -> None:
    verified = verify("stripe", [SECRET], [("Stripe-Signature", stripe_header(EVENT))], EVENT, now=NOW)
    assert (verified.event, verified.delivery_id, verified.timestamp) == ("invoice.paid", "evt_1", NOW)


def test_one_of_several_stripe_signatures_is_enough_wherever_it_stands() -> None:
    good = stripe_header(EVENT).partition(",")[2]
    other = stripe_header(EVENT, "whsec_other").partition(",")[2]
    for value in (f"t={NOW},{other},{good}", f"t={NOW},{good},{other}", f"{good},t={NOW}", f"t={NOW},v0=1,{good},v2=x"):
        verified = verify("stripe", [SECRET], [("Stripe-Signature", value)], EVENT, now=NOW)
        assert verified.mac.hex() == good.removeprefix("v1=")


def test_a_stripe_header_with_only_the_old_version_is_refused() -> None:
    mac = stripe_header(EVENT).partition("v1=")[2]
    assert refusal("stripe", SECRET, [("Stripe-Signature", f"t={NOW},v0={mac}")], EVENT) == "malformed_signature"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda header: header.replace(",", ", "), "malformed_signature"),
        (lambda header: f"t={NOW},{header}", "ambiguous_signature"),
        (lambda header: f"{header},t={NOW - 1}", "ambiguous_signature"),
        (lambda header: header.replace(f"t={NOW},", ""), "missing_timestamp"),
        (lambda header: header + "," + ",".join(["v1=" + "0" * 64] * 40), "malformed_signature"),
        (lambda header: f"{header},junk", "malformed_signature"),
        (lambda header: f"{header},", "malformed_signature"),
    ],
)
def test_a_stripe_header_with_two_meanings_is_refused(change: object, reason: str) -> None:
    assert callable(change)
    assert refusal("stripe", SECRET, [("Stripe-Signature", change(stripe_header(EVENT)))], EVENT) == reason


def test_the_whole_stripe_secret_is_the_key() -> None:
    header = stripe_header(EVENT, SECRET.removeprefix("whsec_"))
    assert refusal("stripe", SECRET, [("Stripe-Signature", header)], EVENT) == "signature_mismatch"


def slack_headers(body: bytes, timestamp: str = str(NOW), secret: str = "slack") -> list[tuple[str, str]]:
    signature = SignatureVerifier(secret).generate_signature(timestamp=timestamp, body=body)
    assert signature is not None
    return [("X-Slack-Request-Timestamp", timestamp), ("X-Slack-Signature", signature)]


def test_slacks_own_signature_verifies() -> None:
    body = json.dumps({"type": "event_callback", "event_id": "Ev1", "event": {"type": "app_mention"}}).encode()
    verified = verify("slack", ["slack"], slack_headers(body), body, now=NOW)
    assert (verified.event, verified.delivery_id, verified.timestamp) == ("app_mention", "Ev1", NOW)


def test_a_slack_command_is_a_plain_form() -> None:
    body = b"token=x&team_id=T1&command=%2Fdeploy&text=now"
    headers = [*slack_headers(body), ("Content-Type", "application/x-www-form-urlencoded")]
    verified = verify("slack", ["slack"], headers, body, now=NOW)
    assert (verified.event, verified.delivery_id) == ("/deploy", None)


def test_a_slack_interaction_is_json_in_a_form() -> None:
    body = b"payload=%7B%22type%22%3A%22block_actions%22%7D"
    headers = [*slack_headers(body), ("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")]
    assert verify("slack", ["slack"], headers, body, now=NOW).event == "block_actions"
