"""Headers, the fields that a row names, and the reasons of refusals."""

from __future__ import annotations

import hashlib

import pytest

from runtime.webhooks.request.field_source import compile_sources
from runtime.webhooks.request.headers import Headers
from runtime.webhooks.request.payload import Payload, decode_json
from runtime.webhooks.request.refusal import REASONS, RefusedRequest


def test_a_name_is_found_in_any_case_and_its_value_trimmed() -> None:
    headers = Headers([("X-Sig", " \tabc\t"), ("Other", "1")])
    assert headers.get("x-sig") == "abc"
    assert headers.one("x-sig", repeated="ambiguous_header") == "abc"
    assert headers.get("x-none") is None


def test_a_repeated_name_is_refused_where_only_one_may_be() -> None:
    headers = Headers([("X-Sig", "a"), ("x-SIG", "a")])
    assert headers.get("x-sig") == "a"
    with pytest.raises(RefusedRequest, match="ambiguous_signature"):
        headers.one("x-sig", repeated="ambiguous_signature")


def test_a_letter_that_only_lowers_to_ascii_is_no_header_name() -> None:
    assert Headers([("X-To\u212aen", "a")]).get("x-token") is None


def test_pairs_are_kept_as_received() -> None:
    pairs = [("B", " 1"), ("a", "2"), ("B", "3")]
    assert Headers(pairs).pairs == tuple(pairs)


def read(body: bytes, *sources: str, headers: tuple[tuple[str, str], ...] = ()) -> str | None:
    compiled = compile_sources(sources, malformed="malformed_delivery_id")
    return compiled(Headers(headers), Payload(decode_json, body, None))


def test_the_first_source_that_says_something_counts() -> None:
    assert read(b'{"a": "", "b": "x"}', "header:X-Id", "$.a", "$.b") == "x"
    assert read(b'{"a": "", "b": "x"}', "header:X-Id", "$.b", headers=(("x-id", "h"),)) == "h"
    assert read(b'{"b": "x"}', "header:X-Id", "$.b", headers=(("x-id", " "),)) == "x"


def test_an_integer_is_an_id_too() -> None:
    assert read(b'{"a": 12}', "$.a") == "12"
    assert read(b'{"a": 0}', "$.a") == "0"


@pytest.mark.parametrize("body", [b'{"a": true}', b'{"a": null}', b'{"a": {}}', b'{"a": [1]}', b'{"a": 1.5}', b"[1]"])
def test_anything_else_is_no_id(body: bytes) -> None:
    assert read(body, "$.a") is None


@pytest.mark.parametrize("text", ["x" * 256, "a\\nb", "a\\u0000b", "\\u2028"])
def test_an_id_that_is_no_short_printable_text_is_refused(text: str) -> None:
    with pytest.raises(RefusedRequest, match="malformed_delivery_id"):
        read(f'{{"a": "{text}"}}'.encode(), "$.a")


def test_without_sources_there_is_none_and_the_body_stays_undecoded() -> None:
    def decoder(body: bytes, content_type: str) -> object:
        raise AssertionError("decoded")

    payload = Payload(decoder, b"", None)
    assert compile_sources((), malformed="malformed_event")(Headers([]), payload) is None
    assert compile_sources(("header:X",), malformed="malformed_event")(Headers([("X", "1")]), payload) == "1"


@pytest.mark.parametrize("body", [b'{"a": "1", "a": "2"}', b'{"a": "1", "b": {"c": 1, "c": 2}}'])
def test_nothing_is_read_of_a_body_with_a_key_twice(body: bytes) -> None:
    with pytest.raises(RefusedRequest, match="duplicate_key"):
        read(body, "$.a")
    assert read(body, "header:X-Id", headers=(("x-id", "h"),)) == "h"


@pytest.mark.parametrize("source", ["$.id", "key:update_id"])
@pytest.mark.parametrize("body", [b"", b"{", b'{"id":"evt_1","a":"\xff"}', b"<a/>"])
def test_a_body_that_cannot_be_decoded_is_refused_where_something_is_read_from_it(body: bytes, source: str) -> None:
    with pytest.raises(RefusedRequest, match="invalid_json"):
        read(body, source)
    with pytest.raises(RefusedRequest, match="invalid_json"):
        read(body, "header:X-Id", source, "body")
    assert read(body, "header:X-Id", source, headers=(("x-id", "h"),)) == "h"


@pytest.mark.parametrize(
    "value", [rb'"evt_\ud83d"', rb'"evt_\udc00"', b'"evt_\xed\xa0\xbd"', b"1e400", b"-1e400", b"9" * 5000]
)
def test_an_id_that_was_not_sent_as_a_whole_is_refused_since_others_would_be_the_same(value: bytes) -> None:
    with pytest.raises(RefusedRequest, match="malformed_delivery_id"):
        read(b'{"id": %b}' % value, "$.id")
    with pytest.raises(RefusedRequest, match="malformed_delivery_id"):
        every(b'[%b, "%b"]' % (value, b"x" * 300), "$[*]")


def test_an_id_is_read_beside_texts_and_numbers_that_others_cannot_hold() -> None:
    assert read(rb'{"id": "evt_1", "text": "Party \ud83d", "\udc00": 1}', "$.id") == "evt_1"
    assert read(b'\xef\xbb\xbf{"id": "evt_1", "n": [1e400, %b]}' % (b"9" * 5000), "$.id") == "evt_1"
    assert read(b'{"n": 1e400, "id": %b}' % (b"9" * 200), "$.id") == "9" * 200


def every(body: bytes, *sources: str) -> str | None:
    compiled = compile_sources(sources, malformed="malformed_delivery_id", every=True)
    return compiled(Headers([]), Payload(decode_json, body, None))


def test_an_id_of_several_parts_needs_all_of_them() -> None:
    assert read(b'{"a": "x", "b": 2}', "$.a + $.b") == "x|2"
    assert read(b'{"a": "x"}', "$.a + $.b") is None
    assert read(b'{"a": "x"}', "$.a + $.b", "$.a") == "x"


def test_the_id_of_a_batch_is_made_of_all_that_is_in_it_and_its_event_of_the_first() -> None:
    body = b'[{"id": 1, "at": 5}, {"id": 2, "at": 6}, {"no": 1}]'
    assert every(body, "$[*].id") == "1|2"
    assert every(body, "$[*].id + $[*].at") == "1|2|5|6"
    assert read(body, "$[*].id") == "1"


def test_a_long_id_of_several_parts_is_its_hash() -> None:
    one, other = (every(b"[" + b",".join(b'"%d"' % (n + i) for n in range(200)) + b"]", "$[*]") for i in (0, 1))
    assert one is not None
    assert len(one) == 64
    assert one != other


@pytest.mark.parametrize("text", ["x" * 256, "a\\nb"])
def test_a_part_that_is_no_short_printable_text_is_refused(text: str) -> None:
    with pytest.raises(RefusedRequest, match="malformed_delivery_id"):
        every(f'{{"a": "{text}"}}'.encode(), "$.a")
    if len(text) < 256:
        with pytest.raises(RefusedRequest, match="malformed_delivery_id"):
            every(f'["{text}", "{"x" * 300}"]'.encode(), "$[*]")


def test_the_name_of_what_a_payload_holds_may_say_what_it_is() -> None:
    assert read(b'{"update_id": 1, "message": {}}', "key:update_id") == "message"
    assert read(b'{"poll": {}, "update_id": 1}', "key:update_id") == "poll"
    assert read(b'{"for": 1, "users": {}, "likes": []}', "key:for,users") == "likes"
    for body in (b'{"update_id": 1}', b"{}", b"[1]", b"1"):
        assert read(body, "key:update_id") is None
    with pytest.raises(RefusedRequest, match="duplicate_key"):
        read(b'{"a": 1, "a": 2}', "key:update_id")
    with pytest.raises(RefusedRequest, match="malformed_delivery_id"):
        read(b'{"a\\u0000": 1}', "key:update_id")


def test_a_body_may_be_its_own_id() -> None:
    assert read(b"{", "body") == hashlib.sha256(b"{").hexdigest()
    assert read(b"{}", "$.id", "body") == hashlib.sha256(b"{}").hexdigest()
    assert read(b'{"id": 7}', "$.id", "body") == "7"


@pytest.mark.parametrize("reason", REASONS)
def test_each_reason_is_a_client_or_server_error_with_a_sentence(reason: str) -> None:
    refused = RefusedRequest(reason)
    assert 400 <= refused.status < 600
    assert refused.reason == reason
    assert refused.message
    assert refused.message[0].islower()


def test_an_unknown_reason_is_a_mistake_of_ours() -> None:
    with pytest.raises(KeyError):
        RefusedRequest("nope")
