from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.webhooks.request.payload import Payload, decode_form, decode_json, json_or_form
from runtime.webhooks.request.refusal import Refused

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


@pytest.mark.parametrize(
    "body",
    [
        b'{"a":1,"a":2}',
        b'{"a":1,"a":1}',
        b'{"a":1,"\\u0061":1}',
        b'[{"b":[{"a":":::","a":{"x":":"}}]}]',
        b'{"a":"\\u003a","a":1}',
        b'{"\\u003a":1,"\\u003A":1}',
        b'{"a":{"x":1},"b":"\\u003a","a":{}}',
        '{"é":1,"\\u00e9":2}'.encode(),
    ],
)
def test_a_body_with_a_key_twice_in_one_object_is_refused(body: bytes) -> None:
    with pytest.raises(Refused, match="duplicate_key") as caught:
        decode_json(body)
    assert caught.value.status == 400
    payload = Payload(decode_json, body, None)
    assert payload.value_or_none() is None
    with pytest.raises(Refused, match="duplicate_key"):
        payload.unambiguous_or_none()


def test_a_key_may_be_in_several_objects() -> None:
    assert decode_json(b'[{"a":{"a":1}},{"a":":"},"a:a"]') == [{"a": {"a": 1}}, {"a": ":"}, "a:a"]


_KEYS = st.sampled_from(["a", "b", "\\u0061", ":", "\\u003a", "\\u003A", "é", "\\\\u003a"])
_TEXTS = st.sampled_from(['""', '":"', '"\\u003a"', '"\\\\u003a"', '"{\\"a\\":1,\\"a\\":2}"', "1e3", "-0", "null"])
_BODIES = st.recursive(
    _TEXTS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(lambda items: f"[{', '.join(items)}]"),
        st.lists(st.tuples(_KEYS, inner), max_size=4).map(
            lambda pairs: "{" + ",".join(f'"{key}" :{value}' for key, value in pairs) + "}"
        ),
    ),
    max_leaves=12,
)


@given(_BODIES)
def test_exactly_the_bodies_with_a_key_twice_are_refused_for_it(body: str) -> None:
    twice = []

    def notice(pairs: list[tuple[str, object]]) -> dict[str, object]:
        twice.append(len(dict(pairs)) < len(pairs))
        return dict(pairs)

    value = json.loads(body, object_pairs_hook=notice)
    if any(twice):
        with pytest.raises(Refused, match="duplicate_key"):
            decode_json(body.encode())
    else:
        assert decode_json(body.encode()) == value


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
                    | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20),
       st.booleans())  # fmt: skip
def test_no_other_body_is_taken_for_one(value: object, ascii_only: bool) -> None:
    assert decode_json(json.dumps(value, ensure_ascii=ascii_only).encode()) == value
