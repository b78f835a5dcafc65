from __future__ import annotations

import json
from math import inf
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.webhooks.request import payload
from runtime.webhooks.request.payload import Payload, decode_form, decode_json, json_or_form
from runtime.webhooks.request.refusal import RefusedRequest

FORM = "application/x-www-form-urlencoded"


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"NaN", b"[Infinity]", b'"\xff"', b"\xef\xbb\xbf", b"{} {}", b"1e", b"{'a':1}", b"\x00", b"nul",
     b'"\x01"', "{}".encode("utf-16")],
)  # fmt: skip
def test_a_body_that_is_no_json_is_refused(body: bytes) -> None:
    with pytest.raises(RefusedRequest, match="invalid_json") as caught:
        decode_json(body)
    assert caught.value.status == 400


def test_a_body_nested_too_deeply_is_refused() -> None:
    for opening in (b"[", b'{"a":'):
        with pytest.raises(RefusedRequest, match="too_deep") as caught:
            decode_json(opening * 100_000)
        assert caught.value.status == 400


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (rb'"Party \ud83d"', "Party \ufffd"),
        (rb'["\udc00\ud83d", "\ud83d\ude00", "\\\ud83d", "\\ud83d"]', ["\ufffd\ufffd", "😀", "\\\ufffd", "\\ud83d"]),
        (rb'{"\ud83d":{"a\udfff":[]}}', {"\ufffd": {"a\ufffd": []}}),
        (b'"\xed\xa0\xbd"', "\ufffd"),
        (b'"\xed\xa0\xbd\xed\xb8\x80"', "😀"),
        (b'\xef\xbb\xbf {"a":1}', {"a": 1}),
        (b"[1e400, -1e400, 1E+999]", [inf, -inf, inf]),
        (b"[%b, -%b]" % (b"9" * 5000, b"9" * 5000), [inf, -inf]),
        (rb'["\ud83d", 1e400, %b]' % (b"9" * 4300), ["\ufffd", inf, 10**4300 - 1]),
        (rb'["\ud83d", 0.1, 18446744073709551616, -0.0, true, null]', ["\ufffd", 0.1, 2**64, 0.0, True, None]),
    ],
)
def test_what_senders_really_write_is_decoded(body: bytes, value: object) -> None:
    assert decode_json(body) == value
    form = b"payload=" + quote(body).encode()
    for decoder in (json_or_form(), json_or_form(plain=True)):
        assert Payload(decoder, body, None).value() == value
        if b"\xed" not in body:  # a form is UTF-8
            assert Payload(decoder, form, FORM).value() == value
    if isinstance(value, dict):  # as `curl --data` sends it
        assert Payload(json_or_form(plain=True), body, FORM).value() == value


@pytest.mark.parametrize(
    "body", [rb'{"\ud83d":1,"a":1,"a":2}', rb'{"\ud83d":1,"\ud83d":2}', rb'{"\ud83d":1,"\udc00":2}']
)
def test_a_body_decoded_tolerantly_may_have_no_key_twice_either(body: bytes) -> None:
    with pytest.raises(RefusedRequest, match="duplicate_key"):
        decode_json(body)


@given(st.recursive(st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
                    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20))  # fmt: skip
def test_both_ways_of_decoding_agree(value: object) -> None:
    text = json.dumps(value).encode()
    tolerantly = decode_json(b'["\\ud83d",' + text + b"]")
    assert tolerantly == ["\ufffd", decode_json(text)]


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_a_body_decoded_tolerantly_may_not_be_nested_deeper(opening: bytes) -> None:
    with pytest.raises(RefusedRequest, match="too_deep"):
        decode_json(rb'["\ud83d",' + opening * 100_000)


@given(st.binary() | st.text().map(str.encode))
def test_no_body_makes_a_decoder_fail_otherwise(body: bytes) -> None:
    for content_type in ("application/json", FORM):
        payload = Payload(json_or_form("payload", plain=True), body, content_type)
        try:
            first = payload.value()
        except RefusedRequest as refused:
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
    with pytest.raises(RefusedRequest, match="invalid_form"):
        Payload(json_or_form("payload"), body, FORM).value()


def test_rubbish_in_a_forms_field_is_no_json() -> None:
    with pytest.raises(RefusedRequest, match="invalid_json"):
        Payload(json_or_form("payload"), b"payload=%7B", FORM).value()


def test_a_plain_form_is_its_fields() -> None:
    assert decode_form(b"a=1&b=&a=2&a=3&c=%C3%A9+x") == {"a": ["1", "2", "3"], "b": "", "c": "é x"}


def test_a_form_of_very_many_fields_is_refused() -> None:
    with pytest.raises(RefusedRequest, match="invalid_form"):
        decode_form(b"&".join([b"a=1"] * 1001))


def test_a_body_is_decoded_at_most_once_and_only_on_demand() -> None:
    calls = []

    def decoder(body: bytes, content_type: str) -> object:
        calls.append((body, content_type))
        raise RefusedRequest("invalid_json")

    payload = Payload(decoder, b"x", None)
    assert calls == []
    for _ in range(2):
        with pytest.raises(RefusedRequest):
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
    with pytest.raises(RefusedRequest, match="duplicate_key") as caught:
        decode_json(body)
    assert caught.value.status == 400
    payload = Payload(decode_json, body, None)
    assert payload.value_or_none() is None
    assert payload.problem() == "the body has a key twice in one object"


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
        with pytest.raises(RefusedRequest, match="duplicate_key"):
            decode_json(body.encode())
    else:
        assert decode_json(body.encode()) == value


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
                    | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20),
       st.booleans())  # fmt: skip
def test_no_other_body_is_taken_for_one(value: object, ascii_only: bool) -> None:
    assert decode_json(json.dumps(value, ensure_ascii=ascii_only).encode()) == value


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b'{"a":1,"a":2}', {"a": 2}),
        (b'{"a":{"x":1},"\\u0061":{"y":2}}', {"a": {"y": 2}}),
        (rb'{"a":1,"a":2,"\ud83d":1,"\udc00":2}', {"a": 2, "\ufffd": 2}),
    ],
)
def test_the_last_value_of_a_key_counts_where_the_webhook_says_so(body: bytes, value: object) -> None:
    decoder = json_or_form(plain=True, last=True)
    assert Payload(decoder, body, "application/json").value() == value
    assert Payload(decoder, b"payload=" + quote(body).encode(), FORM).value() == value
    part = b'--b\r\nContent-Disposition: form-data; name="p"\r\nContent-Type: application/json\r\n\r\n' + body
    form = Payload(decoder, part + b"\r\n--b--\r\n", "multipart/form-data; boundary=b")
    assert form.value() == {"p": value}


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b"token=xyz&text=a%20b&url=https%3A%2F%2Fx", {"token": "xyz", "text": "a b", "url": "https://x"}),
        (b"payload=%7B%22a%22%3A1%7D", {"a": 1}),
        (b'"a=b"', "a=b"),
        (b"true", True),
    ],
)
def test_a_form_without_a_content_type_is_known_by_its_characters(body: bytes, value: object) -> None:
    assert Payload(json_or_form(plain=True), body, None).value() == value


@pytest.mark.parametrize("body", [b'{"a":"b=c', b"<a b=c/>", b"a", b"=", b""])
def test_anything_else_without_a_content_type_is_json(body: bytes) -> None:
    with pytest.raises(RefusedRequest, match="invalid_json"):
        Payload(json_or_form(plain=True), body, None).value()


def test_the_largest_bodies_of_senders_are_decoded_as_small_ones_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payload, "MOST_VALUES", 100_000)
    monkeypatch.setattr(payload, "MOST_IN_ONE", 20_000)
    changed = {"added": ["src/a.py"] * 10, "modified": ["docs/ä.md"] * 20, "author": {"name": "Ada", "x:y": None}}
    push = {
        "ref": "refs/heads/main",
        "commits": [{"id": f"{n:040}", **changed} for n in range(400)],
        "<a:b>": "\n" * 30_000,
    }
    body = json.dumps(push, separators=(",", ":")).encode()
    assert len(body) > 2 * 20_000, "it is looked through before it is decoded"
    assert decode_json(body) == push
    assert decode_json(body.replace(b"<", rb"\u003c")) == push
    twice = rb'{"ref":0,"\u0072ef":0' + body[body.index(b",") :]
    spoilt = {
        "duplicate_key": [twice, body.replace(b'{"id"', b'{"id":0,"id"', 1), b"[" + twice + b"]"],
        "invalid_json": [body[:-1], body + b"]", body.replace(b'"Ada"', b"Ada", 1), b"[" * 9 + body + b"]" * 8],
        "too_complex": [json.dumps([0] * 20_001).encode(), json.dumps([[0] * 10_000] * 11).encode()],
    }
    for reason, bodies in spoilt.items():
        for each in bodies:
            with pytest.raises(RefusedRequest, match=reason):
                decode_json(each)
    assert decode_json(twice, last=True) == push | {"ref": 0}
