from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.webhooks import Payload, Refused
from runtime.webhooks.payload import decode_form, decode_json, json_or_form

FORM = "application/x-www-form-urlencoded"


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"NaN", b"[Infinity]", b'"\xff"', b"\xef\xbb\xbf{}", b"{} {}", b'"\\ud800"', b"1e999", b"9" * 5000,
     b"{'a':1}", b"\x00", b"nul", b'"\x01"', "{}".encode("utf-16")],
)  # fmt: skip
def test_a_body_that_is_no_json_is_refused(body: bytes) -> None:
    with pytest.raises(Refused, match="invalid_json") as caught:
        decode_json(body)
    assert caught.value.status == 400


def test_a_body_nested_too_deeply_is_refused() -> None:
    for opening in (b"[", b'{"a":'):
        with pytest.raises(Refused, match="too_deep") as caught:
            decode_json(opening * 100_000)
        assert caught.value.status == 400


@given(st.binary() | st.text().map(str.encode))
def test_no_body_makes_a_decoder_fail_otherwise(body: bytes) -> None:
    for content_type in ("application/json", FORM):
        payload = Payload(json_or_form("payload", plain=True), body, content_type)
        try:
            first = payload.value()
        except Refused as refused:
            assert refused.status == 400  # noqa: PT017 - either outcome is right
            assert payload.value_or_none() is None
        else:
            assert payload.value() is first


@pytest.mark.parametrize("content_type", [FORM, FORM.title(), f"{FORM}; charset=utf-8", f"{FORM} ;x"])
def test_json_in_a_forms_field_is_the_payload(content_type: str) -> None:
    payload = Payload(json_or_form("payload"), b"payload=%7B%22a%22%3A%22%2B+%C3%A9%22%7D&x=1", content_type)
    assert payload.value() == {"a": "+ é"}


@pytest.mark.parametrize("body", [b"x=1", b"payload=1&payload=2", b"payload", b"", b"payload=%ff", b"payload=\xc3\xa9"])
def test_a_form_without_exactly_that_field_is_refused(body: bytes) -> None:
    with pytest.raises(Refused, match="invalid_form"):
        Payload(json_or_form("payload"), body, FORM).value()


def test_rubbish_in_a_forms_field_is_no_json() -> None:
    with pytest.raises(Refused, match="invalid_json"):
        Payload(json_or_form("payload"), b"payload=%7B", FORM).value()


def test_a_plain_form_is_its_fields() -> None:
    assert decode_form(b"a=1&b=&a=2&a=3&c=%C3%A9+x") == {"a": ["1", "2", "3"], "b": "", "c": "é x"}


def test_a_form_of_very_many_fields_is_refused() -> None:
    with pytest.raises(Refused, match="invalid_form"):
        decode_form(b"&".join([b"a=1"] * 1001))


def test_a_body_is_decoded_at_most_once_and_only_on_demand() -> None:
    calls = []

    def decoder(body: bytes, content_type: str) -> object:
        calls.append((body, content_type))
        raise Refused("invalid_json")

    payload = Payload(decoder, b"x", None)
    assert calls == []
    for _ in range(2):
        with pytest.raises(Refused):
            payload.value()
        assert payload.value_or_none() is None
    assert calls == [(b"x", "")]
