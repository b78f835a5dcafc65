from __future__ import annotations

import hmac
from datetime import timedelta

import pytest

from runtime.webhooks.providers import PROVIDERS
from runtime.webhooks.providers.custom import CustomOptions
from runtime.webhooks.request.refusal import RefusedRequest
from tests.signatures import prepare, sign, verify

NOW = 1_700_000_000


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({"payload": "{timestamp}.{body}"}, "`timestamp_header` must name"),
        ({"timestamp_header": "T"}, "`timestamp_header` needs `payload`"),
        ({"timestamp_header": "T", "payload": "{body}"}, "`payload` does not sign {timestamp}"),
        ({"payload": "{id}.{body}"}, "`id_header` must name"),
        ({"payload": "{body}{timestamp}{id}", "id_header": "I"}, "payload: {id} needs a separator before it"),
        ({"payload": "{timestamp}"}, "payload: {body} is missing"),
        ({"payload": "{header:X-A}.{id}"}, "payload: {body} is missing"),
        ({"payload": "{header:X-A}{body}"}, "payload: {header:X-A} needs a separator after it"),
        ({"payload": "{header:X A}.{body}"}, "payload: {header:X A} is not allowed here"),
        ({"payload": "{json:$..id}.{body}"}, "payload: {json:$..id} is not allowed here"),
        ({"timestamp_unit": "ms"}, "`timestamp_unit` needs `timestamp_header`"),
        ({"payload": "{url}{body}"}, "payload: {url} is not allowed here"),
        ({"tolerance": "5m"}, "`tolerance` needs `timestamp_header`"),
        (
            {"payload": "{timestamp}{body}", "timestamp_header": "T", "tolerance": "0s"},
            "tolerance: Input should be greater",
        ),
        (
            {"payload": "{timestamp}{body}", "timestamp_header": "T", "tolerance": "25h"},
            "tolerance: Input should be less",
        ),
        ({"header": "X Sig"}, "header: this character is not allowed in a header's name"),
        ({"header": ""}, "header: a header's name has 1 to 128 characters"),
        ({"header": "X-A", "id_header": "x-a"}, "name the same header"),
        ({"prefix": " v1="}, "prefix: not a prefix"),
        ({"encoding": "HEX"}, "encoding: Input should be 'hex' or 'base64'"),
        ({"algorithm": "md5"}, "algorithm: Input should be"),
        ({"headers": "X"}, "headers: Extra inputs"),
    ],
)
def test_options_that_do_not_fit_are_one_clear_line(options: dict[str, object], wrong: str) -> None:
    with pytest.raises(ValueError, match=r"^provider custom: ") as caught:
        prepare("custom", ["s"], options)
    assert wrong in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_tolerance_is_five_minutes_unless_set() -> None:
    timed: dict[str, object] = {"payload": "{timestamp}{body}", "timestamp_header": "T"}
    assert prepare("custom", ["s"], timed).tolerance == 300
    assert prepare("custom", ["s"], {**timed, "tolerance": timedelta(seconds=7)}).tolerance == 7
    assert prepare("custom", ["s"]).tolerance is None


def test_an_id_that_is_not_signed_is_still_an_id() -> None:
    options = CustomOptions(id_header="X-Id", event_header="X-Event")
    headers = sign("custom", "s", b"{}", now=NOW, delivery_id="d1", event="e1", options=options)
    verified = verify("custom", ["s"], headers, b"{}", now=NOW, options=options)
    assert (verified.delivery_id, verified.event) == ("d1", "e1")
    without = [pair for pair in headers if pair[0] != "X-Id"]
    assert verify("custom", ["s"], without, b"{}", now=NOW, options=options).delivery_id is None


def test_an_id_that_is_signed_must_be_sent() -> None:
    options = {"payload": "{id}:{body}", "id_header": "X-Id"}
    headers = sign("custom", "s", b"{}", now=NOW, delivery_id="d1", options=options)
    with pytest.raises(RefusedRequest, match="missing_id"):
        verify("custom", ["s"], [pair for pair in headers if pair[0] != "X-Id"], b"{}", now=NOW, options=options)
    moved = [(name, "d1:x" if name == "X-Id" else value) for name, value in headers]
    with pytest.raises(RefusedRequest, match="malformed_id"):
        verify("custom", ["s"], moved, b"{}", now=NOW, options=options)


def test_what_the_options_sign_is_said_by_the_row() -> None:
    row = PROVIDERS["custom"]
    assert row.signed == ("body",)
    timed = row.with_options({"payload": "{timestamp}.{body}", "timestamp_header": "T"})
    assert set(timed.signed) == {"timestamp", "body"}


def test_sha1_is_only_taken_when_asked_for() -> None:
    headers = sign("custom", "s", b"{}", now=NOW, delivery_id="", options={"algorithm": "sha1"})
    assert verify("custom", ["s"], headers, b"{}", now=NOW, options={"algorithm": "sha1"}).mac
    with pytest.raises(RefusedRequest):
        verify("custom", ["s"], headers, b"{}", now=NOW)


def made(message: bytes, **sent: str) -> list[tuple[str, str]]:
    """Return the headers of a sender that is not ours, with the signature of `message`."""
    mac = hmac.new(b"s", message, "sha256").hexdigest()
    return [
        (name.replace("_", "-"), value.replace("MAC", mac).replace("mac", mac.upper())) for name, value in sent.items()
    ]


@pytest.mark.parametrize("written", ["sha256=MAC", "sha256=mac", "sha256= MAC", "sha256=  mac"])
def test_a_signature_may_be_upper_case_and_follow_a_blank(written: str) -> None:
    options = CustomOptions(header="X-Sig", prefix="sha256=")
    verified = verify("custom", ["s"], made(b"{}", X_Sig=written), b"{}", now=NOW, options=options)
    assert verified.mac == hmac.digest(b"s", b"{}", "sha256")
    for wrong in ("sha256 = MAC", "SHA256=MAC", "sha256=\u00a0MAC", "sha256=MAC MAC"):
        with pytest.raises(RefusedRequest, match="malformed_signature"):
            verify("custom", ["s"], made(b"{}", X_Sig=wrong), b"{}", now=NOW, options=options)


@pytest.mark.parametrize(
    ("unit", "good", "wrong"),
    [
        ("s", "1700000000", ("1700000000000", "2023-11-14T22:13:20Z")),
        ("ms", "1700000000123", ("1700000000", "2023-11-14T22:13:20Z")),
        ("rfc3339", "2023-11-14T23:13:20.5+01:00", ("1700000000", "1700000000000")),
    ],
)
def test_a_time_is_read_in_the_unit_of_the_sender(unit: str, good: str, wrong: tuple[str, ...]) -> None:
    options = {"payload": "{timestamp}.{body}", "timestamp_header": "T", "timestamp_unit": unit}

    def at(time: str, now: float = NOW) -> int | None:
        headers = made(f"{time}.{{}}".encode(), T=time, X_Signature_256="MAC")
        return verify("custom", ["s"], headers, b"{}", now=now, options=options).timestamp

    assert at(good) == NOW
    for time in wrong:
        with pytest.raises(RefusedRequest):
            at(time)
    with pytest.raises(RefusedRequest, match="stale"):
        at(good, NOW + 400)


def test_headers_and_values_of_the_body_are_signed_where_the_template_has_them() -> None:
    body = b'{"data": {"id": 17, "kind": "a"}, "more": 1}'
    options = {"payload": "id:{json:$.data.id};request-id:{header:X-Request-Id};{json:$.data.kind}"}
    headers = made(b"id:17;request-id:r1;a", X_Request_Id="r1", X_Signature_256="MAC")
    row = PROVIDERS["custom"].with_options(options)
    assert row.signed == ("json:$.data.id", "header:x-request-id", "json:$.data.kind")
    assert verify("custom", ["s"], headers, body, now=NOW, options=options).mac
    for sent, content, reason in (
        (headers, body.replace(b"17", b"18"), "signature_mismatch"),
        ([("X-Request-Id", "r2"), headers[1]], body, "signature_mismatch"),
        ([headers[1]], body, "missing_id"),
        ([headers[0], *headers], body, "ambiguous_signature"),
        (headers, b'{"data": {"id": null, "kind": "a"}}', "missing_id"),
        (headers, b'{"data": {"kind": "a"}}', "missing_id"),
        (headers, b'{"data": {"id": "17;request-id:r1;a", "kind": "a"}}', "malformed_id"),
    ):
        with pytest.raises(RefusedRequest, match=reason):
            verify("custom", ["s"], sent, content, now=NOW, options=options)
