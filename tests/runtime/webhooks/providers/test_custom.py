from __future__ import annotations

from datetime import timedelta

import pytest

from runtime.webhooks.providers import PROVIDERS
from runtime.webhooks.providers.custom import CustomOptions
from runtime.webhooks.request.refusal import Refused
from runtime.webhooks.verification.verifier import prepare
from tests.signatures import sign, verify

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
    with pytest.raises(Refused, match="missing_id"):
        verify("custom", ["s"], [pair for pair in headers if pair[0] != "X-Id"], b"{}", now=NOW, options=options)
    moved = [(name, "d1:x" if name == "X-Id" else value) for name, value in headers]
    with pytest.raises(Refused, match="malformed_id"):
        verify("custom", ["s"], moved, b"{}", now=NOW, options=options)


def test_what_the_options_sign_is_said_by_the_row() -> None:
    row = PROVIDERS["custom"]
    assert row.signed == ("body",)
    timed = row.configured({"payload": "{timestamp}.{body}", "timestamp_header": "T"})
    assert set(timed.signed) == {"timestamp", "body"}


def test_sha1_is_only_taken_when_asked_for() -> None:
    headers = sign("custom", "s", b"{}", now=NOW, delivery_id="", options={"algorithm": "sha1"})
    assert verify("custom", ["s"], headers, b"{}", now=NOW, options={"algorithm": "sha1"}).mac
    with pytest.raises(Refused):
        verify("custom", ["s"], headers, b"{}", now=NOW)
