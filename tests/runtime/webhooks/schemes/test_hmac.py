from __future__ import annotations

import pytest

from runtime.webhooks.keys.shared_secret import base64_key
from runtime.webhooks.request.headers import Headers
from runtime.webhooks.request.refusal import Refused
from runtime.webhooks.request.request import Request
from runtime.webhooks.schemes.hmac import Hmac
from runtime.webhooks.schemes.scheme import UnsignedRequest
from runtime.webhooks.schemes.signature_header import Fields

NOW = 1_700_000_000.75


def round_trip(
    scheme: Hmac, *, now: float = NOW, url: str | None = None, checked_url: str | None = None
) -> float | None:
    headers = scheme.sign(b"a2V5", UnsignedRequest(b"body", NOW, "id-1", "POST", url))
    request = Request(Headers(headers), b"body", "POST", url if checked_url is None else checked_url)
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


def test_milliseconds_are_judged_to_the_millisecond() -> None:
    scheme = Hmac(header="S", payload="{timestamp}{body}", timestamp_header="T", unit="ms", tolerance=5)
    assert round_trip(scheme, now=NOW + 5) == 1_700_000_000
    with pytest.raises(Refused, match="stale"):
        round_trip(scheme, now=NOW + 5.001)


def test_the_url_counts_where_it_is_signed() -> None:
    scheme = Hmac(header="S", payload="{url}{body}")
    with pytest.raises(Refused, match="signature_mismatch"):
        round_trip(scheme, url="https://h.example/x", checked_url="http://h.example/x")


def test_the_signed_parts_are_those_of_the_payload() -> None:
    assert Hmac(header="S").signed == ("body",)
    assert set(Hmac(header="S", payload="{timestamp}{body}", timestamp_header="T", tolerance=1).signed) == {
        "timestamp",
        "body",
    }


@pytest.mark.parametrize(
    "contradiction",
    [
        {"timestamp_header": "T", "tolerance": 1},
        {"payload": "{timestamp}{body}", "tolerance": 1},
        {"payload": "{timestamp}{body}", "timestamp_header": "T"},
        {"tolerance": 1},
        {"form": Fields()},
        {"id_header": "I"},
        {"payload": "{id}.{body}"},
    ],
)
def test_parameters_that_contradict_each_other_are_an_error(contradiction: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="need"):
        Hmac(header="S", **contradiction)  # type: ignore[arg-type]


def test_base64_that_decodes_to_the_same_bytes_but_is_written_otherwise_is_refused() -> None:
    scheme = Hmac(header="S", encoding="base64")
    [(_, value)] = scheme.sign(b"k", UnsignedRequest(b"", NOW, ""))
    assert value.endswith("=")
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    # The last letter holds two bits that no byte uses.
    sibling = value[:-2] + letters[letters.index(value[-2]) ^ 1] + "="
    for other in (
        sibling,
        value.rstrip("="),
        value + "=",
        value.replace("+", "-").replace("/", "_") + " ",
        value + "\n",
    ):
        with pytest.raises(Refused, match="malformed_signature"):
            scheme.check([b"k"])(Request(Headers([("S", f"{other}\v")]), b""), NOW)
        if other != value:
            with pytest.raises(Refused):
                scheme.check([b"k"])(Request(Headers([("S", other)]), b""), NOW)
