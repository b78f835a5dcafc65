from __future__ import annotations

import hmac
import re

import pytest

from runtime.webhooks.keys.shared_secret import base64_key
from runtime.webhooks.request.headers import Headers
from runtime.webhooks.request.refusal import RefusedRequest
from runtime.webhooks.request.request import WebhookRequest
from runtime.webhooks.schemes.hmac import Encoding, Hmac
from runtime.webhooks.schemes.scheme import UnsignedRequest
from runtime.webhooks.schemes.signature_header import Fields
from tests.signatures import NOW, refusal, sign

SENT = NOW + 0.75


def round_trip(
    scheme: Hmac, *, now: float = SENT, url: str | None = None, checked_url: str | None = None
) -> float | None:
    headers = scheme.sign(b"a2V5", UnsignedRequest(b"body", SENT, "id-1", "POST", url))
    request = WebhookRequest(Headers(headers), b"body", "POST", url if checked_url is None else checked_url)
    return scheme.check([b"a2V5"])(request, now).timestamp


@pytest.mark.parametrize(
    "scheme",
    [
        Hmac(header="S"),
        Hmac(header="S", encoding="base64", algorithm="sha512"),
        Hmac(header="S", form=Fields("ts", "h1", ";"), payload="{timestamp}:{body}", tolerance=5),
        Hmac(header="S", payload="{id}.{timestamp}.{body}", id_header="I", timestamp_header="T", tolerance=5),
        Hmac(header="S", payload="{timestamp}{body}", timestamp_header="T", unit="ms", tolerance=5),
        Hmac(header="S", payload="{method}{url}{body}"),
        Hmac(header="S", key=base64_key),
    ],
    ids=["bare", "base64", "fields", "headers", "milliseconds", "url", "base64 key"],
)
def test_signing_is_the_inverse_of_checking(scheme: Hmac) -> None:
    timestamp = round_trip(scheme, url="https://h.example/x")
    assert timestamp == (1_700_000_000 if scheme.tolerance else None)


def test_what_a_payload_names_is_signed_and_sent_in_the_order_of_id_time_and_signature() -> None:
    scheme = Hmac(header="S", payload="{id}.{timestamp}.{body}", id_header="I", timestamp_header="T", tolerance=5)
    signature = hmac.digest(b"key", b"id-1.1700000000.body", "sha256").hex()
    headers = [("I", "id-1"), ("T", "1700000000"), ("S", signature)]
    assert scheme.sign(b"key", UnsignedRequest(b"body", SENT, "id-1")) == headers
    assert scheme.check([b"other", b"key"])(WebhookRequest(Headers(headers), b"body"), SENT) == (
        bytes.fromhex(signature),
        1_700_000_000,
        1,
        None,
    )


def test_an_address_that_is_not_known_is_signed_as_an_empty_text() -> None:
    scheme = Hmac(header="S", payload="{url}{body}")
    signature = hmac.digest(b"key", b"body", "sha256").hex()
    assert scheme.sign(b"key", UnsignedRequest(b"body", SENT, "")) == [("S", signature)]
    assert scheme.check([b"key"])(WebhookRequest(Headers([("S", signature)]), b"body"), SENT).timestamp is None


@pytest.mark.parametrize(
    ("encoding", "signature", "reason"),
    [
        ("hex", "0" * 64, "signature_mismatch"),
        ("hex", "0" * 63, "malformed_signature"),
        ("hex", "0" * 65, "malformed_signature"),
        ("hex", "A" * 64, "uppercase_signature"),
        ("hex", "\ud800" * 64, "malformed_signature"),
        ("base64", f"{'A' * 43}=", "signature_mismatch"),
        ("base64", f"{'A' * 42}==", "malformed_signature"),
        ("base64", "A" * 44, "malformed_signature"),
        ("base64", "\ud800", "malformed_signature"),
    ],
)
def test_a_signature_that_could_be_one_mismatches_and_any_other_has_the_reason(
    encoding: Encoding, signature: str, reason: str
) -> None:
    scheme = Hmac(header="S", encoding=encoding)
    with pytest.raises(RefusedRequest, match=f"^{reason}$"):
        scheme.check([b"key"])(WebhookRequest(Headers([("S", signature)]), b"body"), SENT)


@pytest.mark.parametrize(
    ("missing", "reason"), [("S", "missing_signature"), ("T", "missing_timestamp"), ("I", "missing_id")]
)
def test_a_missing_header_is_named(missing: str, reason: str) -> None:
    scheme = Hmac(header="S", payload="{id}.{timestamp}.{body}", id_header="I", timestamp_header="T", tolerance=5)
    headers = scheme.sign(b"key", UnsignedRequest(b"body", SENT, "id-1"))
    without = Headers([pair for pair in headers if pair[0] != missing])
    with pytest.raises(RefusedRequest, match=f"^{reason}$"):
        scheme.check([b"key"])(WebhookRequest(without, b"body"), SENT)


def test_each_of_several_headers_may_hold_the_signature_and_only_once() -> None:
    scheme = Hmac(header="S", more_headers=("S2", "S3"))
    [(_, good)] = scheme.sign(b"key", UnsignedRequest(b"body", SENT, ""))
    check = scheme.check([b"key"])
    bad = "0" * 64
    for first, second, third in ((good, bad, bad), (bad, good, bad), (bad, bad, good)):
        headers = [("s", first), ("s2", second), ("s3", third)]
        assert check(WebhookRequest(Headers(headers), b"body"), SENT).mac.hex() == good
    with pytest.raises(RefusedRequest, match=r"^signature_mismatch$"):
        check(WebhookRequest(Headers([("S", bad), ("S2", bad), ("S3", bad)]), b"body"), SENT)
    with pytest.raises(RefusedRequest, match=r"^ambiguous_signature$"):
        check(WebhookRequest(Headers([("S", good), ("S2", good), ("S2", good)]), b"body"), SENT)


def test_a_sender_may_sign_its_url_and_its_body_in_a_second_form() -> None:
    scheme = Hmac(header="S", payload="{url}|{body}", url=str.lower, rewritten=bytes.upper)
    check = scheme.check([b"key"])

    def accepted(message: bytes) -> bool:
        signature = hmac.digest(b"key", message, "sha256").hex()
        try:
            check(WebhookRequest(Headers([("S", signature)]), b"body", "POST", "https://h.example/X"), SENT)
        except RefusedRequest:
            return False
        return True

    assert accepted(b"https://h.example/X|body")
    assert accepted(b"https://h.example/x|body")
    assert accepted(b"https://h.example/X|BODY")
    assert not accepted(b"https://h.example/X|")
    assert not accepted(b"|body")


def test_a_key_signs_only_bodies_that_begin_as_the_senders_do() -> None:
    scheme = Hmac(header="S", begins=b"{")
    check = scheme.check([b"key"])
    for body in (b"{}", b"{"):
        assert check(WebhookRequest(Headers(scheme.sign(b"key", UnsignedRequest(body, SENT, ""))), body), SENT).mac
    with pytest.raises(RefusedRequest, match=r"^signature_mismatch$"):
        check(WebhookRequest(Headers(scheme.sign(b"key", UnsignedRequest(b"[]", SENT, ""))), b"[]"), SENT)


IN_BODY = Hmac(header="S", timestamp_path="$.time", unit="ms", tolerance=5)


def of_body(body: bytes, now: float = SENT) -> float | None:
    headers = IN_BODY.sign(b"key", UnsignedRequest(body, SENT, ""))
    return IN_BODY.check([b"key"])(WebhookRequest(Headers(headers), body), now).timestamp


def test_a_time_in_the_body_is_written_and_read_there() -> None:
    body = IN_BODY.embed(b"key", UnsignedRequest(b'{"a": 1, "time": 3}', SENT, ""))
    assert body == b'{"a":1,"time":1700000000750}'
    assert of_body(body, SENT + 5) == 1_700_000_000
    with pytest.raises(RefusedRequest, match=r"^stale$"):
        of_body(body, SENT + 5.001)
    with pytest.raises(RefusedRequest, match=r"^future$"):
        of_body(body, SENT - 5.001)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"{}", "missing_timestamp"),
        (b'{"time": "1700000000750"}', "malformed_timestamp"),
        (b'{"time": 1700000000750.0}', "malformed_timestamp"),
        (b'{"time": true}', "malformed_timestamp"),
        (b'{"time": null}', "malformed_timestamp"),
        (b'{"time": -1}', "malformed_timestamp"),
    ],
)
def test_a_body_without_a_number_for_its_time_is_refused(body: bytes, reason: str) -> None:
    with pytest.raises(RefusedRequest, match=f"^{reason}$"):
        of_body(body)


@pytest.mark.parametrize(("path", "body"), [("$.time", b"[]"), ("$.time", b"{"), ("$.a.time", b"{}")])
def test_a_body_that_cannot_hold_the_time_cannot_be_signed(path: str, body: bytes) -> None:
    scheme = Hmac(header="S", timestamp_path=path, tolerance=5)
    with pytest.raises(ValueError, match=f"^the body has no place for {re.escape(path)}: it is a JSON object$"):
        scheme.embed(b"key", UnsignedRequest(body, SENT, ""))


def test_without_a_time_in_it_a_body_is_signed_as_it_is() -> None:
    assert Hmac(header="S").embed(b"key", UnsignedRequest(b"[", SENT, "")) == b"["


def test_milliseconds_are_judged_to_the_millisecond() -> None:
    scheme = Hmac(header="S", payload="{timestamp}{body}", timestamp_header="T", unit="ms", tolerance=5)
    assert round_trip(scheme, now=SENT + 5) == 1_700_000_000
    with pytest.raises(RefusedRequest, match="stale"):
        round_trip(scheme, now=SENT + 5.001)


def test_the_url_counts_where_it_is_signed() -> None:
    scheme = Hmac(header="S", payload="{url}{body}")
    with pytest.raises(RefusedRequest, match="signature_mismatch"):
        round_trip(scheme, url="https://h.example/x", checked_url="http://h.example/x")


def test_the_signed_parts_are_those_of_the_payload() -> None:
    assert Hmac(header="S").signed == ("body",)
    assert set(Hmac(header="S", payload="{timestamp}{body}", timestamp_header="T", tolerance=1).signed) == {
        "timestamp",
        "body",
    }


SENT_AND_SIGNED = "a timestamp is sent and signed, or neither: {timestamp} and its header need one another"
ONE_PLACE = "a timestamp is either in a header or in the body"
TOLERANCE = "a timestamp needs a tolerance, and a tolerance a timestamp"
ID = "{id} and its header need one another"
ONE_HEADER = "a header that also contains the timestamp must be the only one"
TIMED = {"payload": "{timestamp}{body}", "tolerance": 1}


@pytest.mark.parametrize(
    ("contradiction", "wrong"),
    [
        ({"timestamp_header": "T", "tolerance": 1}, SENT_AND_SIGNED),
        (TIMED, SENT_AND_SIGNED),
        ({"form": Fields()}, SENT_AND_SIGNED),
        ({**TIMED, "timestamp_header": "T", "timestamp_path": "$.time"}, ONE_PLACE),
        ({"payload": "{timestamp}{body}", "timestamp_header": "T"}, TOLERANCE),
        ({"tolerance": 1}, TOLERANCE),
        ({"timestamp_path": "$.time"}, TOLERANCE),
        ({"id_header": "I"}, ID),
        ({"payload": "{id}.{body}"}, ID),
        ({**TIMED, "form": Fields(), "more_headers": ("M",)}, ONE_HEADER),
    ],
)
def test_parameters_that_contradict_each_other_are_an_error(contradiction: dict[str, object], wrong: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(wrong)}$"):
        Hmac(header="S", **contradiction)  # type: ignore[arg-type]


def test_base64_that_decodes_to_the_same_bytes_but_is_written_otherwise_is_refused() -> None:
    scheme = Hmac(header="S", encoding="base64")
    [(_, value)] = scheme.sign(b"k", UnsignedRequest(b"", SENT, ""))
    assert value.endswith("=")
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    # The last letter has two bits that no byte uses.
    sibling = value[:-2] + letters[letters.index(value[-2]) ^ 1] + "="
    for other in (
        sibling,
        value.rstrip("="),
        value + "=",
        value.replace("+", "-").replace("/", "_") + " ",
        value + "\n",
    ):
        with pytest.raises(RefusedRequest, match="malformed_signature"):
            scheme.check([b"k"])(WebhookRequest(Headers([("S", f"{other}\v")]), b""), SENT)
        if other != value:
            with pytest.raises(RefusedRequest):
                scheme.check([b"k"])(WebhookRequest(Headers([("S", other)]), b""), SENT)


def test_a_signature_in_capital_letters_has_a_reason_of_its_own() -> None:
    headers = [(name, value.upper()) for name, value in sign("shopify", "s", b"{}", now=SENT, delivery_id="")]
    assert refusal("shopify", "s", headers) in {"malformed_signature", "signature_mismatch"}  # base64
    headers = [(name, value.upper()) for name, value in sign("linear", "s", b"{}", now=SENT, delivery_id="")]
    assert refusal("linear", "s", headers) == "uppercase_signature"
