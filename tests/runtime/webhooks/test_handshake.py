from __future__ import annotations

import json

import pytest

from runtime.webhooks import Headers, Refused, Request, prepare, sign

NOW = 1_700_000_000


def slack(body: bytes, method: str = "POST") -> Request:
    return Request(Headers(sign("slack", "s", body, now=NOW, delivery_id="")), body, method)


def greeting(body: object, *, signed: bool = True, method: str = "POST") -> bytes | None:
    verifier = prepare("slack", ["s"])
    request = slack(json.dumps(body).encode(), method)
    answer = verifier.greet(request, verifier.payload(request), signed=signed)
    return None if answer is None else answer.body


def test_slacks_challenge_is_answered_as_plain_text() -> None:
    verifier = prepare("slack", ["s"])
    request = slack(b'{"token": "x", "challenge": "3eZbrw1a", "type": "url_verification"}')
    verifier.check(request, NOW)
    answer = verifier.greet(request, verifier.payload(request), signed=True)
    assert answer is not None
    assert (answer.status, answer.content_type, answer.body) == (200, "text/plain; charset=utf-8", b"3eZbrw1a")


def test_slacks_challenge_is_not_answered_before_it_is_verified() -> None:
    challenge = {"type": "url_verification", "challenge": "abc"}
    assert greeting(challenge) == b"abc"
    assert greeting(challenge, signed=False) is None


@pytest.mark.parametrize(
    "body",
    [
        {"type": "event_callback", "challenge": "abc"},
        {"type": "url_verification"},
        {"type": "url_verification", "challenge": 1},
        {"type": "url_verification", "challenge": None},
        {"type": "url_verification", "challenge": "a\r\nb"},
        {"type": "url_verification", "challenge": "\u2028"},
        {"type": "url_verification", "challenge": "x" * 1025},
        {"type": ["url_verification"], "challenge": "abc"},
        [],
        "url_verification",
    ],
)
def test_what_is_no_challenge_is_a_delivery_like_others(body: object) -> None:
    assert greeting(body) is None


def test_a_handshake_comes_by_its_method_only() -> None:
    assert greeting({"type": "url_verification", "challenge": "abc"}, method="PUT") is None


def test_a_body_that_is_no_json_is_no_handshake() -> None:
    verifier = prepare("slack", ["s"])
    request = slack(b"{")
    payload = verifier.payload(request)
    assert verifier.greet(request, payload, signed=True) is None
    with pytest.raises(Refused):
        payload.value()
