"""Mercado Pago: its manifest, as its documentation and its library write it."""

from __future__ import annotations

import hmac

import pytest

from runtime.webhooks.request.refusal import RefusedRequest
from runtime.webhooks.verification.verifier import VerifiedRequest
from tests.signatures import verify

NOW = 1_704_908_010
BODY = b'{"id": 12345, "type": "order", "action": "order.processed", "data": {"id": "ORD01JQ"}}'


def received(
    manifest: str, query: str, *, ts: str = str(NOW), body: bytes = BODY, request: str = "r-1"
) -> VerifiedRequest:
    mac = hmac.new(b"s", manifest.encode(), "sha256").hexdigest()
    sent = [("x-signature", f"ts={ts},v1={mac}"), *([("x-request-id", request)] if request else [])]
    return verify("mercado-pago", ["s"], sent, body, now=NOW, query=query)


def test_the_id_of_the_query_is_signed_in_lower_case_or_as_it_was_sent() -> None:
    for identity in ("ord01jq", "ORD01JQ"):
        verified = received(f"id:{identity};request-id:r-1;ts:{NOW};", "data.id=ORD01JQ&type=order")
        assert (verified.event, verified.delivery_id, verified.timestamp) == ("order.processed", "12345", NOW)


def test_the_time_may_be_in_milliseconds() -> None:
    assert received(f"id:ord01jq;request-id:r-1;ts:{NOW}123;", "data.id=ORD01JQ", ts=f"{NOW}123").timestamp == NOW
    with pytest.raises(RefusedRequest, match="stale"):
        received("id:ord01jq;request-id:r-1;ts:1600000000;", "data.id=ORD01JQ", ts="1600000000")


def test_a_pair_without_a_value_is_left_out() -> None:
    assert received(f"request-id:r-1;ts:{NOW};", "type=order").mac
    assert received(f"id:ord01jq;ts:{NOW};", "data.id=ORD01JQ", request="").mac


@pytest.mark.parametrize(
    ("query", "body", "reason"),
    [
        ("data.id=ORD01JX", BODY.replace(b"01JQ", b"01JX"), "signature_mismatch"),
        ("data.id=ORD01JQ", BODY.replace(b"01JQ", b"01JX"), "signature_mismatch"),
        ("", BODY, "signature_mismatch"),
        ("data.id=ORD01JQ&data.id=ORD01JX", BODY, "signature_mismatch"),
        ("data.id=ord01jq%3Brequest-id%3Ar-1", BODY, "malformed_id"),
    ],
)
def test_another_object_is_refused_in_the_query_and_in_the_body(query: str, body: bytes, reason: str) -> None:
    with pytest.raises(RefusedRequest, match=reason):
        received(f"id:ord01jq;request-id:r-1;ts:{NOW};", query, body=body)
