"""Senders that put signature, time or address elsewhere than in a header: only signed values count."""

from __future__ import annotations

import base64
import hmac
import json
from typing import Any

import pytest

from runtime.webhooks.providers.office import escaped, signed_url
from runtime.webhooks.request.headers import Headers
from runtime.webhooks.request.refusal import RefusedRequest
from runtime.webhooks.request.request import WebhookRequest
from runtime.webhooks.verification import VerifiedRequest
from tests.clocks import START
from tests.signatures import NOW, matched, prepare, refusal, sign, sign_request, verify

HEX = "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056"


# Adyen


def notification(*changes: dict[str, Any]) -> bytes:
    item = {
        "pspReference": "7914073381342284", "originalReference": "", "merchantAccountCode": "Shop",
        "merchantReference": "order:1", "amount": {"value": 1130, "currency": "EUR"}, "eventCode": "AUTHORISATION",
        "success": "true",
    }  # fmt: skip
    items = [{"NotificationRequestItem": {**item, **change}} for change in changes or ({},)]
    return json.dumps({"live": "false", "notificationItems": items}).encode()


def adyen(body: bytes, secret: str = HEX) -> bytes:
    return sign_request("adyen", secret, body, now=NOW, delivery_id="")[1]


def test_adyens_items_verify_and_name_payment_and_event() -> None:
    verified = verify("adyen", [HEX], [], adyen(notification()), now=NOW)
    assert (verified.event, verified.delivery_id) == ("AUTHORISATION", "7914073381342284|AUTHORISATION|true")
    assert prepare("adyen", [HEX]).provider.answer is not None


@pytest.mark.parametrize(
    "change",
    [
        {"pspReference": "8"}, {"originalReference": "8"}, {"merchantAccountCode": "Other"}, {"merchantReference": "8"},
        {"amount": {"value": 1, "currency": "EUR"}}, {"amount": {"value": 1130, "currency": "USD"}}, {"amount": None},
        {"eventCode": "REFUND"}, {"success": "false"}, {"success": True}, {"pspReference": 7914073381342284},
        {"amount": {"value": "1130", "currency": ["EUR"]}}, {"amount": {"value": 1130.0, "currency": "EUR"}},
        {"amount": {"value": 1130, "currency": "EUR", "success": "true"}, "success": "false"},
        {"merchantAccountCode": "Shop:order", "merchantReference": "1"},
        {"pspReference": "7914073381342284:", "merchantAccountCode": ""},
        {"additionalData": {}}, {"additionalData": {"hmacSignature": ""}}, {"additionalData": None},
    ],
)  # fmt: skip
def test_any_other_field_of_an_item_is_refused(change: dict[str, Any]) -> None:
    body = json.loads(adyen(notification()))
    body["notificationItems"][0]["NotificationRequestItem"].update(change)
    assert refusal("adyen", HEX, [], json.dumps(body).encode()) in {
        "signature_mismatch", "malformed_signature", "missing_signature"
    }  # fmt: skip


def test_every_item_must_verify_with_the_same_secret() -> None:
    other = "01" * 32
    good = json.loads(adyen(notification({}, {"pspReference": "2"})))
    bad = json.loads(adyen(notification({"pspReference": "2"}), other))
    assert verify("adyen", [HEX], [], json.dumps(good).encode(), now=NOW).delivery_id == (
        "7914073381342284|2|AUTHORISATION|AUTHORISATION|true|true"
    )
    good["notificationItems"][1] = bad["notificationItems"][0]
    mixed = json.dumps(good).encode()
    assert refusal("adyen", HEX, [], mixed) == "signature_mismatch"
    with pytest.raises(RefusedRequest, match="signature_mismatch"):
        verify("adyen", [HEX, other], [], mixed, now=NOW)


@pytest.mark.parametrize(
    "body",
    [b"{}", b"[]", b"1", b'{"notificationItems": []}', b'{"notificationItems": [1]}', b'{"notificationItems": {}}',
     b'{"notificationItems": [{"NotificationRequestItem": 1}]}'],
)  # fmt: skip
def test_a_body_without_items_carries_no_signature(body: bytes) -> None:
    assert refusal("adyen", HEX, [], body) == "missing_signature"


def test_adyens_key_is_hexadecimal() -> None:
    with pytest.raises(ValueError, match="hexadecimal"):
        prepare("adyen", ["no hex"])


# Mailgun


def mailgun(now: float = NOW, **changes: Any) -> bytes:
    body = sign_request("mailgun", "s", b'{"event-data": {"event": "failed"}}', now=now, delivery_id="d1")[1]
    value = json.loads(body)
    value["signature"].update(changes)
    return json.dumps(value).encode()


def test_mailguns_token_is_the_deliverys_id() -> None:
    verified = verify("mailgun", ["s"], [], mailgun(), now=NOW)
    assert (verified.event, verified.timestamp) == ("failed", NOW)
    assert verified.delivery_id == json.loads(mailgun())["signature"]["token"]
    numeric = mailgun(timestamp=NOW)
    assert verify("mailgun", ["s"], [], numeric, now=NOW).mac == verified.mac


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"token": "1" * 50}, "signature_mismatch"),
        ({"timestamp": str(NOW + 1)}, "signature_mismatch"),
        ({"signature": "0" * 64}, "signature_mismatch"),
        ({"signature": "junk"}, "malformed_signature"),
        ({"signature": None}, "missing_signature"),
        ({"token": ""}, "missing_id"),
        ({"token": "a b"}, "malformed_id"),
        ({"token": "é" * 50}, "malformed_id"),
        ({"timestamp": "1700000000.0"}, "malformed_timestamp"),
        ({"timestamp": "１７００００００００"}, "malformed_timestamp"),
        ({"timestamp": True}, "missing_timestamp"),
    ],
)
def test_a_changed_part_of_mailguns_signature_is_refused(changes: dict[str, Any], reason: str) -> None:
    assert refusal("mailgun", "s", [], mailgun(**changes)) == reason


def test_the_border_between_mailguns_time_and_token_cannot_be_moved() -> None:
    held = json.loads(mailgun())["signature"]
    longer = mailgun(timestamp=held["timestamp"] + held["token"][:1], token=held["token"][1:])
    shorter = mailgun(timestamp=held["timestamp"][:-1], token=held["timestamp"][-1] + held["token"])
    assert held["token"][0].isdigit()
    assert refusal("mailgun", "s", [], longer) == "future"
    assert refusal("mailgun", "s", [], shorter) == "stale"


def test_a_body_around_mailguns_signature_may_be_any_and_the_row_says_so() -> None:
    value = json.loads(mailgun())
    value["event-data"]["event"] = "delivered"
    assert verify("mailgun", ["s"], [], json.dumps(value).encode(), now=NOW).event == "delivered"
    assert "body" not in prepare("mailgun", ["s"]).provider.signed


# Linear


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"webhookTimestamp": 1700000000}', "stale"),
        (b'{"webhookTimestamp": "1700000000000"}', "malformed_timestamp"),
        (b'{"webhookTimestamp": 1700000000000.5}', "malformed_timestamp"),
        (b'{"webhookTimestamp": true}', "malformed_timestamp"),
        (b'{"webhookTimestamp": -1}', "malformed_timestamp"),
        (b'{"webhookTimestamp": null}', "malformed_timestamp"),
        (b'{"data": {"webhookTimestamp": 1700000000000}}', "missing_timestamp"),
        (b"[]", "missing_timestamp"),
        (b"{", "invalid_json"),
    ],
)
def test_a_signed_body_without_a_fresh_time_is_refused(body: bytes, reason: str) -> None:
    headers = sign("linear", "s", body, now=NOW, delivery_id="d", event="Issue")
    assert refusal("linear", "s", headers, body) == reason


# Coinbase Developer Platform


def coinbase(names: str, headers: dict[str, str], more: str = "") -> list[tuple[str, str]]:
    body, at = b"{}", NOW
    values = ".".join(headers.get(name, "") for name in names.split(" "))
    mac = hmac.digest(b"s", f"{at}.{names}.{values}.".encode() + body, "sha256").hex()
    old = hmac.digest(b"s", f"{at}.".encode() + body, "sha256").hex()
    return [*headers.items(), ("X-Hook0-Signature", f"t={at},v0={old},h={names},v1={mac}{more}")]


EVENT = {"content-type": "application/json", "x-event-id": "e1", "x-event-type": "onchain.activity.detected"}


def test_coinbase_signs_the_headers_that_it_names() -> None:
    headers = coinbase("content-type x-event-id x-event-type", EVENT)
    verified = verify("coinbase-cdp", ["s"], headers, b"{}", now=NOW)
    assert (verified.delivery_id, verified.event, verified.timestamp) == ("e1", "onchain.activity.detected", NOW)
    again = [*headers[:1], ("x-event-id", "e2"), *headers[2:]]
    assert refusal("coinbase-cdp", "s", again, b"{}") == "signature_mismatch"


def test_an_id_that_coinbase_did_not_sign_is_refused() -> None:
    assert refusal("coinbase-cdp", "s", coinbase("content-type", EVENT), b"{}") == "missing_id"
    assert refusal("coinbase-cdp", "s", coinbase("x-event-id", {}), b"{}") == "missing_id"
    assert refusal("coinbase-cdp", "s", coinbase("x-event-id", {"x-event-id": "a.b"}), b"{}") == "malformed_id"


def test_coinbases_older_signature_alone_never_counts() -> None:
    header = coinbase("x-event-id", EVENT)[-1][1]
    older = [*EVENT.items(), ("X-Hook0-Signature", header.partition(",h=")[0])]
    assert refusal("coinbase-cdp", "s", older, b"{}") == "malformed_signature"


@pytest.mark.parametrize("more", [",v1=00", ",t=1", ",h=x", ",v0=1"])
def test_a_coinbase_header_with_two_meanings_is_refused(more: str) -> None:
    assert refusal("coinbase-cdp", "s", coinbase("x-event-id", EVENT, more), b"{}") == "ambiguous_signature"


# Box and HubSpot


def test_box_may_sign_with_either_key_and_in_either_header() -> None:
    old, new = (sign("box", secret, b"{}", now=NOW, delivery_id="") for secret in ("old", "new"))
    time = ("BOX-DELIVERY-TIMESTAMP", dict(old)["BOX-DELIVERY-TIMESTAMP"])
    first, second = (dict(each)["BOX-SIGNATURE-PRIMARY"] for each in (old, new))
    both = [time, ("BOX-SIGNATURE-PRIMARY", first), ("BOX-SIGNATURE-SECONDARY", second)]
    assert verify("box", ["new"], both, b"{}", now=NOW).secret_index == 0
    assert verify("box", ["other", "old"], both, b"{}", now=NOW).secret_index == 1
    assert (
        verify("box", ["new"], [time, both[2]], b"{}", now=NOW).mac == verify("box", ["new"], both, b"{}", now=NOW).mac
    )
    assert refusal("box", "other", both, b"{}") == "signature_mismatch"
    assert refusal("box", "old", [*both, both[2]], b"{}") == "ambiguous_signature"


def test_box_may_have_signed_names_that_are_not_ascii_escaped() -> None:
    body = '{"name": "é\\"😀/\\/\t"}'.encode()
    assert escaped(body) == rb'{"name": "\u00e9\\"\ud83d\ude00/\/\t"}'
    assert escaped(b"\xff") == b"\xff"
    headers = sign("box", "s", escaped(body), now=NOW, delivery_id="")
    assert matched("box", ["s"], headers, body, now=NOW).secret_index == 0
    assert refusal("box", "s", headers, body.replace(b"name", b"nome")) == "signature_mismatch"


def test_docusign_may_sign_with_any_of_a_hundred_keys() -> None:
    signature = dict(sign("docusign", "s", b"{}", now=NOW, delivery_id=""))["X-DocuSign-Signature-1"]
    for number in (1, 2, 100):
        assert verify("docusign", ["s"], [(f"x-docusign-signature-{number}", signature)], b"{}", now=NOW).mac
    assert refusal("docusign", "s", [("X-DocuSign-Signature-101", signature)], b"{}") == "missing_signature"
    others = [("X-DocuSign-Signature-1", "junk"), ("X-DocuSign-Signature-2", signature)]
    assert verify("docusign", ["s"], others, b"{}", now=NOW).mac


def test_hubspot_may_sign_its_url_as_it_stands_or_with_some_escapes_undone() -> None:
    assert (
        signed_url("https://h.example/a%3Ab%2fc%40d?x=%20%25%3D%26%3F") == "https://h.example/a:b/c@d?x=%20%25%3D%26?"
    )
    assert signed_url("https://h.example/%253A") == "https://h.example/%253A"
    declared, written = "https://h.example/a%3Ab", "https://h.example/a:b"
    for url in (declared, written):
        headers = sign("hubspot", "s", b"[]", now=NOW, delivery_id="", url=url)
        assert verify("hubspot", ["s"], headers, b"[]", now=NOW, url=declared).timestamp == NOW
    assert refusal("hubspot", "s", headers, b"[]", url="https://h.example/a%20b") == "signature_mismatch"


def test_the_three_meanings_of_whsec() -> None:
    key = base64.b64encode(b"a key of 24 bytes, just!").decode()
    body = b'{"type": "x"}'
    standard = sign("standard-webhooks", f"whsec_{key}", body, now=NOW, delivery_id="m1")
    for provider in ("standard-webhooks", "openai", "replicate", "supabase"):
        for secret in (f"whsec_{key}", *((f"v1,whsec_{key}", key) if provider != "openai" else ())):
            assert verify(provider, [secret], standard, body, now=NOW).mac
    whole = sign("polar", f"whsec_{key}", body, now=NOW, delivery_id="m1")
    assert whole != standard
    for headers in (whole, standard):
        assert verify("polar", [f"whsec_{key}"], headers, body, now=NOW).secret_index == 0
    stripe = sign("stripe", f"whsec_{key}", body, now=NOW, delivery_id="")
    assert f"v1={hmac.digest(f'whsec_{key}'.encode(), f'{NOW}.'.encode() + body, 'sha256').hex()}" in stripe[1][1]


def test_headers_of_two_families_are_never_mixed() -> None:
    secret = "whsec_" + base64.b64encode(b"k" * 24).decode()
    svix = dict(sign("svix", secret, b"{}", now=NOW, delivery_id="m1"))
    mixed = [
        ("webhook-id", svix["svix-id"]),
        ("svix-timestamp", svix["svix-timestamp"]),
        ("svix-signature", svix["svix-signature"]),
    ]
    assert refusal("svix", secret, mixed, b"{}") == "missing_id"
    assert refusal("standard-webhooks", secret, list(svix.items()), b"{}") == "missing_signature"


def test_a_batch_is_told_apart_by_all_that_is_in_it() -> None:
    def batch(*ids: int) -> str | None:
        body = json.dumps({"events": [{"type": "message", "webhookEventId": str(each)} for each in ids]}).encode()
        request = WebhookRequest(Headers(sign("line", "s", body, now=NOW, delivery_id="")), body)
        verifier = prepare("line", ["s"])
        return verifier.identify(verifier.check(request, NOW), request, verifier.payload(request)).delivery_id

    assert batch() is None
    assert len({batch(1), batch(2), batch(1, 2), batch(2, 1)}) == 4


# All of them


@pytest.mark.parametrize(("provider", "secret"), [("adyen", HEX), ("mailgun", "s"), ("linear", "s")])
def test_a_body_too_deep_to_hold_a_proof_is_said_to_be(provider: str, secret: str) -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        sign_request(provider, secret, b"[" * 50_000, now=NOW, delivery_id="d")


BOX_SECRET = "0123456789abcdef"


def test_a_body_of_ascii_has_no_second_form_under_the_same_signature() -> None:
    sent = json.dumps({"id": "1", "trigger": "FILE.UPLOADED", "source": {"name": "a\\b"}}).encode()
    shorter = sent.replace(b"\\\\", b"\\")
    assert json.loads(shorter) != json.loads(sent)
    headers = Headers(sign("box", BOX_SECRET, sent, now=START, delivery_id="1"))
    verifier = prepare("box", [BOX_SECRET])
    verifier.check(WebhookRequest(headers, sent), START)
    with pytest.raises(RefusedRequest, match="signature_mismatch"):
        verifier.check(WebhookRequest(headers, shorter), START)


PAID_AT = 1_704_908_010
ORDER = b'{"id": 12345, "type": "order", "action": "order.processed", "data": {"id": "ORD01JQ"}}'


def mercado_pago(
    manifest: str, query: str, *, ts: str = str(PAID_AT), body: bytes = ORDER, request: str = "r-1"
) -> VerifiedRequest:
    mac = hmac.new(b"s", manifest.encode(), "sha256").hexdigest()
    sent = [("x-signature", f"ts={ts},v1={mac}"), *([("x-request-id", request)] if request else [])]
    return verify("mercado-pago", ["s"], sent, body, now=PAID_AT, query=query)


def test_the_id_of_the_query_is_signed_in_lower_case_or_as_it_was_sent() -> None:
    for identity in ("ord01jq", "ORD01JQ"):
        verified = mercado_pago(f"id:{identity};request-id:r-1;ts:{PAID_AT};", "data.id=ORD01JQ&type=order")
        assert (verified.event, verified.delivery_id, verified.timestamp) == ("order.processed", "12345", PAID_AT)


def test_the_time_may_be_in_milliseconds() -> None:
    assert (
        mercado_pago(f"id:ord01jq;request-id:r-1;ts:{PAID_AT}123;", "data.id=ORD01JQ", ts=f"{PAID_AT}123").timestamp
        == PAID_AT
    )
    with pytest.raises(RefusedRequest, match="stale"):
        mercado_pago("id:ord01jq;request-id:r-1;ts:1600000000;", "data.id=ORD01JQ", ts="1600000000")


def test_a_pair_without_a_value_is_left_out() -> None:
    assert mercado_pago(f"request-id:r-1;ts:{PAID_AT};", "type=order").mac
    assert mercado_pago(f"id:ord01jq;ts:{PAID_AT};", "data.id=ORD01JQ", request="").mac


@pytest.mark.parametrize(
    ("query", "body", "reason"),
    [
        ("data.id=ORD01JX", ORDER.replace(b"01JQ", b"01JX"), "signature_mismatch"),
        ("data.id=ORD01JQ", ORDER.replace(b"01JQ", b"01JX"), "signature_mismatch"),
        ("", ORDER, "signature_mismatch"),
        ("data.id=ORD01JQ&data.id=ORD01JX", ORDER, "signature_mismatch"),
        ("data.id=ord01jq%3Brequest-id%3Ar-1", ORDER, "malformed_id"),
    ],
)
def test_another_object_is_refused_in_the_query_and_in_the_body(query: str, body: bytes, reason: str) -> None:
    with pytest.raises(RefusedRequest, match=reason):
        mercado_pago(f"id:ord01jq;request-id:r-1;ts:{PAID_AT};", query, body=body)
