"""Handshakes: requests by which a sender checks an address. They are answered, and nothing else is given back."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from urllib.parse import unquote

import pytest

from runtime.secrets.secret import Secret
from runtime.webhooks.handshakes import PERMISSION, PRESENCE_CHECK, by_method, json_echo
from runtime.webhooks.providers import PROVIDERS
from runtime.webhooks.receiving.receiver import static_response
from runtime.webhooks.request.headers import Headers
from runtime.webhooks.request.refusal import RefusedRequest
from runtime.webhooks.request.request import StaticAnswer, WebhookRequest
from runtime.webhooks.verification import Verifier
from tests.signatures import prepare, sign, verify

NOW = 1_700_000_000


def slack(body: bytes, method: str = "POST") -> WebhookRequest:
    return WebhookRequest(Headers(sign("slack", "s", body, now=NOW, delivery_id="")), body, method)


def answer_to(body: object, *, signed: bool = True, method: str = "POST") -> bytes | None:
    verifier = prepare("slack", ["s"])
    request = slack(json.dumps(body).encode(), method)
    answer = verifier.handshake_response(request, verifier.payload(request), signed=signed)
    return None if answer is None else answer.body


def test_slacks_challenge_is_answered_as_plain_text() -> None:
    verifier = prepare("slack", ["s"])
    request = slack(b'{"token": "x", "challenge": "3eZbrw1a", "type": "url_verification"}')
    verifier.check(request, NOW)
    answer = verifier.handshake_response(request, verifier.payload(request), signed=True)
    assert answer is not None
    assert (answer.status, answer.content_type, answer.body) == (200, "text/plain; charset=utf-8", b"3eZbrw1a")


def test_slacks_challenge_is_not_answered_before_it_is_verified() -> None:
    challenge = {"type": "url_verification", "challenge": "abc"}
    assert answer_to(challenge) == b"abc"
    assert answer_to(challenge, signed=False) is None


@pytest.mark.parametrize(
    "body",
    [
        {"type": "event_callback", "challenge": "abc"},
        {"type": "url_verification"},
        {"type": "url_verification", "challenge": 1},
        {"type": "url_verification", "challenge": None},
        {"type": "url_verification", "challenge": "a\r\nb"},
        {"type": "url_verification", "challenge": "\u2028"},
        {"type": "url_verification", "challenge": "x" * 257},
        {"type": "url_verification", "challenge": "<b>x</b>"},
        {"type": ["url_verification"], "challenge": "abc"},
        [],
        "url_verification",
    ],
)
def test_what_is_no_challenge_is_a_delivery_like_others(body: object) -> None:
    assert answer_to(body) is None


def test_a_handshake_comes_by_its_method_only() -> None:
    assert answer_to({"type": "url_verification", "challenge": "abc"}, method="PUT") is None


def test_a_body_that_is_no_json_is_no_handshake() -> None:
    verifier = prepare("slack", ["s"])
    request = slack(b"{")
    payload = verifier.payload(request)
    assert verifier.handshake_response(request, payload, signed=True) is None
    with pytest.raises(RefusedRequest):
        payload.value()


def asked(verifier: Verifier, query: str = "", *, method: str = "GET", body: bytes = b"") -> StaticAnswer | None:
    """Return the answer to an unsigned request."""
    request = WebhookRequest(Headers([]), body, method, None, query)
    return verifier.handshake_response(request, verifier.payload(request), signed=False)


META = "hub.mode=subscribe&hub.challenge=1158201444&hub.verify_token="


def test_metas_challenge_is_given_back_to_who_knows_the_verify_token() -> None:
    verifier = prepare("meta", ["s"], {"verify_token": "m/e=a t"})
    answer = asked(verifier, META + "m%2Fe%3Da+t")
    assert answer == StaticAnswer(200, "text/plain; charset=utf-8", b"1158201444")


@pytest.mark.parametrize("token", ["", "m", "mea", "token2", "TOKEN", "%C3%A9", "%00"])
def test_a_wrong_verify_token_is_refused(token: str) -> None:
    with pytest.raises(RefusedRequest) as caught:
        asked(prepare("meta", ["s"], {"verify_token": "token"}), META + token)
    assert (caught.value.status, caught.value.reason) == (403, "wrong_verify_token")


def test_without_a_verify_token_meta_is_never_answered() -> None:
    for token in ("", "None", "s"):
        with pytest.raises(RefusedRequest, match="wrong_verify_token"):
            asked(prepare("meta", ["s"]), META + token)


@pytest.mark.parametrize(
    "query",
    [
        "", "hub.verify_token=token", "hub.mode=unsubscribe&hub.challenge=1&hub.verify_token=token",
        META + "token&hub.challenge=2", "hub.mode=subscribe&hub.verify_token=token&hub.challenge=",
        "hub.mode=subscribe&hub.verify_token=token&hub.challenge=%3Cscript%3E",
        "hub.mode=subscribe&hub.verify_token=token&hub.challenge=" + "1" * 257,
        "&".join(f"a{number}=1" for number in range(50)) + "&" + META + "token",
    ],
)  # fmt: skip
def test_a_get_that_is_no_handshake_is_not_answered(query: str) -> None:
    assert asked(prepare("meta", ["s"], {"verify_token": "token"}), query) is None


def test_the_verify_token_is_never_shown() -> None:
    row = PROVIDERS["meta"].with_options({"verify_token": "hunter2"})
    assert "hunter2" not in repr(row)
    assert "hunter2" not in repr(prepare(row, ["s"]))


def test_a_reference_is_never_taken_for_the_verify_token_itself() -> None:
    for reference in ("secret://env/TOKEN", "vault://meta"):
        with pytest.raises(ValueError, match="verify_token refers to a secret that was not resolved"):
            prepare("meta", ["s"], {"verify_token": reference})


def test_a_secret_may_hold_any_text_as_the_verify_token() -> None:
    for text in ("secret://env/X", " ", "é\n"):
        verifier = prepare("meta", ["s"], {"verify_token": Secret(text.encode(), "test")})
        assert "env/X" not in repr(verifier)
        if text == "secret://env/X":
            assert asked(verifier, META + "secret%3A%2F%2Fenv%2FX") is not None


def test_dropboxs_challenge_is_given_back_as_plain_text() -> None:
    answer = asked(prepare("dropbox", ["s"]), "challenge=kVb3-_x9")
    assert answer == StaticAnswer(200, "text/plain; charset=utf-8", b"kVb3-_x9")
    for query in (
        "",
        "challenge=",
        "challenge=a&challenge=b",
        "challenge=%3Cb%3E",
        "challenge=a%0Ab",
        "challenge=a%FF",
    ):
        assert asked(prepare("dropbox", ["s"]), query) is None
    assert asked(prepare("dropbox", ["s"]), "challenge=a", method="POST") is None


def test_xs_token_is_signed_with_the_first_secret() -> None:
    answer = asked(prepare("twitter", ["new", "old"]), "crc_token=MTIz_-abc=&nonce=1")
    assert answer is not None
    proof = base64.b64encode(hmac.digest(b"new", b"MTIz_-abc=", hashlib.sha256)).decode()
    assert (answer.content_type, json.loads(answer.body)) == ("application/json", {"response_token": f"sha256={proof}"})


def test_what_x_has_us_sign_never_passes_for_a_delivery() -> None:
    verifier = prepare("twitter", ["s"])
    for token in ("123", "true", "null", "abc", "a.b", "a%2Bb/c=="):
        answer = asked(verifier, f"crc_token={token}")
        assert answer is not None
        signature = json.loads(answer.body)["response_token"]
        body = unquote(token).encode()
        with pytest.raises(RefusedRequest, match="signature_mismatch"):
            verifier.check(WebhookRequest(Headers([("X-Twitter-Webhooks-Signature", signature)]), body), NOW)
    for token in ("", "%7B%7D", "a" * 257, "a:b", "a+b", "a%20b", "%22a%22", "%5B%5D", "é"):
        assert asked(verifier, f"crc_token={token}") is None


def test_zooms_token_is_answered_with_its_proof_once_the_request_is_verified() -> None:
    body = b'{"event": "endpoint.url_validation", "payload": {"plainToken": "qgg8vlvZRS6UYooatFL8Aw"}}'
    verifier = prepare("zoom", ["s"])
    request = WebhookRequest(Headers(sign("zoom", "s", body, now=NOW, delivery_id="")), body)
    verifier.check(request, NOW)
    assert verifier.handshake_response(request, verifier.payload(request), signed=False) is None
    answer = verifier.handshake_response(request, verifier.payload(request), signed=True)
    assert answer is not None
    proof = hmac.digest(b"s", b"qgg8vlvZRS6UYooatFL8Aw", hashlib.sha256).hex()
    assert json.loads(answer.body) == {"plainToken": "qgg8vlvZRS6UYooatFL8Aw", "encryptedToken": proof}


@pytest.mark.parametrize("signer", ["new", "old", "before"])
def test_a_proof_is_made_with_the_secret_that_the_request_was_signed_with(signer: str) -> None:
    body = b'{"event": "endpoint.url_validation", "payload": {"plainToken": "abc"}}'
    secrets = [Secret(b"new", "env NEW"), Secret(b"old", "env OLD"), Secret(b"before", "generated", until=NOW + 60)]
    verifier = prepare("zoom", secrets, places=[0, 1, 3])
    request = WebhookRequest(Headers(sign("zoom", signer, body, now=NOW, delivery_id="")), body)
    match = verifier.check(request, NOW)
    answer = verifier.handshake_response(
        request, verifier.payload(request), signed=True, secret_index=match.secret_index
    )
    assert answer is not None
    assert json.loads(answer.body)["encryptedToken"] == hmac.digest(signer.encode(), b"abc", "sha256").hex()


@pytest.mark.parametrize("token", ["v0:1700000000:{}", "", "a b", "<b>", "x" * 129, 1, None])
def test_zoom_has_nothing_signed_that_could_be_a_delivery(token: object) -> None:
    body = json.dumps({"event": "endpoint.url_validation", "payload": {"plainToken": token}}).encode()
    verifier = prepare("zoom", ["s"])
    request = WebhookRequest(Headers([]), body)
    assert verifier.handshake_response(request, verifier.payload(request), signed=True) is None


@pytest.mark.parametrize("name", ["trello", "box"])
def test_who_asks_by_head_is_told_that_somebody_is_here(name: str) -> None:
    assert asked(prepare(name, ["s"]), method="HEAD") == StaticAnswer(200, "text/plain; charset=utf-8", b"")
    assert asked(prepare(name, ["s"]), method="GET") is None
    assert asked(prepare(name, ["s"]), method="POST", body=b"{}") is None


def test_woocommerces_ping_is_answered_and_nothing_else_that_nobody_signed() -> None:
    verifier = prepare("woocommerce", ["s"])
    assert asked(verifier, method="POST", body=b"webhook_id=12") == StaticAnswer()
    for body in (b"", b"webhook_id=", b"webhook_id=12&x=1", b"webhook_id=1x", b'{"webhook_id": 1}', b"webhook_id=12\n"):
        assert asked(verifier, method="POST", body=body) is None


ORIGIN = ("WebHook-Request-Origin", "eventgrid.azure.net")
EVENT = {"specversion": "1.0", "id": "7", "source": "/orders", "type": "order.made", "data": {"n": 1}}


def permitted(*headers: tuple[str, str], method: str = "OPTIONS") -> StaticAnswer | None:
    verifier = prepare("azure-event-grid", ["s"])
    request = WebhookRequest(Headers(headers), b"", method)
    return verifier.handshake_response(request, verifier.payload(request), signed=False)


def test_who_names_itself_may_send() -> None:
    answer = permitted(ORIGIN, ("WebHook-Request-Rate", "120"))
    assert answer is not None
    assert (answer.status, answer.body) == (200, b"")
    assert dict(answer.fields) == {
        "Allow": "POST",
        "WebHook-Allowed-Origin": "eventgrid.azure.net",
        "WebHook-Allowed-Rate": "*",
    }
    assert b"WebHook-Allowed-Origin: eventgrid.azure.net\r\n" in static_response(answer).extra


@pytest.mark.parametrize(
    "origin", ["", "a b", "<b>", "a\r\nX-Injected: 1", "x" * 254, "ü.example", "https://a.example", "a,b", "*"]
)
def test_what_is_no_host_is_not_given_back(origin: str) -> None:
    assert permitted((ORIGIN[0], origin)) is None


def test_who_names_nobody_or_two_is_not_answered() -> None:
    assert permitted() is None
    assert permitted(ORIGIN, method="POST") is None
    with pytest.raises(RefusedRequest, match="ambiguous_header"):
        permitted(ORIGIN, ORIGIN)


def test_each_handshake_of_a_sender_has_methods_of_its_own() -> None:
    both = by_method(PRESENCE_CHECK, PERMISSION)
    assert (both.signed, both.methods) == (False, ("HEAD", "OPTIONS"))
    with pytest.raises(ValueError, match="must have different methods"):
        by_method(PRESENCE_CHECK, PRESENCE_CHECK)
    with pytest.raises(ValueError, match="must have different methods"):
        by_method(PERMISSION, json_echo(where="$.a", equals="b", echo="$.c"))


@pytest.mark.parametrize("body", [EVENT, [EVENT]], ids=["alone", "in a list"])
def test_a_cloud_event_is_told_apart_by_its_source_and_id(body: object) -> None:
    verified = verify("azure-event-grid", ["s"], [("X-Webhook-Token", "s")], json.dumps(body).encode(), now=0)
    assert (verified.event, verified.delivery_id) == ("order.made", "/orders|7")


def test_an_event_of_event_grids_own_schema_is_told_apart_by_its_id() -> None:
    body = json.dumps([{"id": "8", "eventType": "Microsoft.Storage.BlobCreated", "topic": "/t"}]).encode()
    verified = verify("azure-event-grid", ["s"], [("X-Webhook-Token", "s")], body, now=0)
    assert (verified.event, verified.delivery_id) == ("Microsoft.Storage.BlobCreated", "8")
