"""Shared tokens in headers and bodies, and basic authentication."""

from __future__ import annotations

import base64
import json

import pytest

from runtime.agents.delivery_summary import describe
from runtime.webhooks.providers import PROVIDERS
from runtime.webhooks.request.headers import Headers
from runtime.webhooks.request.refusal import RefusedRequest
from runtime.webhooks.request.request import WebhookRequest
from runtime.webhooks.schemes.token import without
from tests.signatures import NOW, prepare, refusal, sign, sign_request, verify


@pytest.mark.parametrize("token", ["toke", "tokenn", "Token", "tok en", "token,token", "tokeń", "", "t\x00oken"])
def test_only_the_whole_token_counts(token: str) -> None:
    expected = "missing_signature" if not token else "signature_mismatch"
    assert refusal("telegram", "token", [("X-Telegram-Bot-Api-Secret-Token", token)]) == expected


def test_white_space_about_a_token_is_not_sent_and_no_part_of_it() -> None:
    headers = [("X-Telegram-Bot-Api-Secret-Token", "token")]
    assert verify("telegram", ["token\n"], headers, b"{}", now=NOW).mac


@pytest.mark.parametrize("token", ["tökén", "to\x00ken", "to\nken", b"\xff\xfe"])
def test_a_token_that_no_header_can_hold_is_an_error(token: str | bytes) -> None:
    with pytest.raises(ValueError, match="printable ASCII"):
        prepare("telegram", [token])


def test_a_token_is_never_read_from_the_url() -> None:
    assert refusal("token", "token", [], query="token=token&X-Webhook-Token=token") == "missing_signature"


def test_a_token_may_stand_behind_a_prefix_in_a_header_of_ones_own() -> None:
    options = {"header": "Authorization", "prefix": "Bearer "}
    headers = sign("token", "s3cret", b"{}", now=NOW, delivery_id="d1", options=options)
    assert ("Authorization", "Bearer s3cret") in headers
    assert verify("token", ["s3cret"], headers, b"{}", now=NOW, options=options).mac
    assert refusal("token", "s3cret", [("Authorization", "s3cret")], options=options) == "signature_mismatch"


def test_nothing_that_only_shows_a_token_says_that_it_signs() -> None:
    names = ("token", "basic", "gitlab", "telegram", "okta", "figma", "microsoft-graph", "postmark", "chargebee")
    assert all(PROVIDERS[name].signed == () for name in names)
    headers = [("X-Telegram-Bot-Api-Secret-Token", "token")]
    assert verify("telegram", ["token"], headers, b"{}", now=NOW).timestamp is None


def notifications(*states: object) -> bytes:
    return json.dumps({"value": [{"id": f"n{n}", "clientState": state} for n, state in enumerate(states)]}).encode()


def test_every_notification_of_a_delivery_must_hold_the_token() -> None:
    assert verify("microsoft-graph", ["state"], [], notifications("state", "state"), now=NOW).delivery_id == "n0|n1"
    for wrong in (("state", "other"), ("other", "state"), ("other",), ("state", "stat")):
        assert refusal("microsoft-graph", "state", [], notifications(*wrong)) == "signature_mismatch"
    for absent in (("state", None), (None,), ("state", ""), (), ("state", 1), (["state"],)):
        assert refusal("microsoft-graph", "state", [], notifications(*absent)) == "missing_signature"


@pytest.mark.parametrize(
    "body",
    [b"{}", b"[]", b'"state"', b'{"clientState":"state"}', b'{"value":{"clientState":"state"}}', b'{"value":["state"]}',
     b'{"value":[{"clientState":"state"},1]}', b'{"value":[[{"clientState":"state"}]]}'],
)  # fmt: skip
def test_a_body_of_another_shape_proves_nothing(body: bytes) -> None:
    assert refusal("microsoft-graph", "state", [], body) == "missing_signature"


def test_a_body_that_could_be_read_in_two_ways_is_refused() -> None:
    body = b'{"value":[{"clientState":"other","clientState":"state"}]}'
    assert refusal("microsoft-graph", "state", [], body) == "duplicate_key"
    assert refusal("microsoft-graph", "state", [], b"{") == "invalid_json"


def test_both_tokens_are_taken_while_one_is_changed_for_the_other() -> None:
    body = notifications("old", "new")
    assert verify("microsoft-graph", ["new", "old"], [], body, now=NOW).secret_index == 0


def test_a_token_in_a_body_is_nothing_that_is_remembered() -> None:
    headers, body = sign_request("figma", "pass", b'{"event_type":"PING"}', now=NOW, delivery_id="d1")
    assert b'"passcode":"pass"' in body
    assert verify("figma", ["pass"], headers, body, now=NOW).event == "PING"
    payload = PROVIDERS["figma"].payload(body, "application/json").value()
    assert payload == {"event_type": "PING"}
    assert "pass" not in str(describe("figma", "PING", payload))
    assert without("a", items="$[*]")(b'[{"a":1,"b":2},3]', "") == [{"b": 2}, 3]


def test_a_test_delivery_with_a_token_in_it_needs_an_object() -> None:
    with pytest.raises(ValueError, match="must be a JSON object"):
        sign_request("figma", "pass", b"[]", now=NOW, delivery_id="d1")


@pytest.mark.parametrize(
    ("token", "answered"),
    [
        ("Validation%3a+Testing+client+application+reachability+for+subscription+Request-Id%3a+0a1b", True),
        ("%3Cscript%3Ealert(1)%3C/script%3E", False), ("a%0d%0ab", False), ("a%22b", False), ("", False),
        ("x" * 1025, False), ("a%ffb", False), ("a&validationToken=b", False), ("a%26b", False),
    ],
)  # fmt: skip
def test_graph_gets_its_token_back_as_plain_text_and_nothing_else(token: str, answered: bool) -> None:
    verifier = prepare("microsoft-graph", ["state"])
    request = WebhookRequest(Headers([]), b"", "POST", None, f"validationToken={token}")
    answer = verifier.handshake_response(request, verifier.payload(request), signed=False)
    assert (answer is not None) is answered
    if answer is not None:
        assert answer.content_type.startswith("text/plain")
        assert answer.body.startswith(b"Validation: Testing client")
    delivery = request._replace(body=notifications("state"))
    assert verifier.handshake_response(delivery, verifier.payload(delivery), signed=False) is None


def test_okta_gets_its_challenge_back_once_it_asks_by_get() -> None:
    verifier = prepare("okta", ["s"])

    def answer_to(value: str, method: str = "GET") -> object:
        request = WebhookRequest(Headers([("X-Okta-Verification-Challenge", value)]), b"", method)
        return verifier.handshake_response(request, verifier.payload(request), signed=False)

    answer = answer_to("a9f-3.x_Z=")
    assert answer is not None
    assert json.loads(answer.body) == {"verification": "a9f-3.x_Z="}  # type: ignore[attr-defined]
    assert answer_to("abc", "POST") is None
    with pytest.raises(RefusedRequest):
        answer_to("<script>")


def test_event_grid_gets_its_code_back() -> None:
    verifier = prepare("azure-event-grid", ["s"])

    def answer_to(data: object, kind: str = "Microsoft.EventGrid.SubscriptionValidationEvent") -> object:
        body = json.dumps([{"id": "1", "eventType": kind, "data": data}]).encode()
        request = WebhookRequest(Headers([]), body)
        return verifier.handshake_response(request, verifier.payload(request), signed=False)

    answer = answer_to({"validationCode": "512d38b6-c7b8-40c8-89fe-f46f9e9622b6"})
    assert answer is not None
    assert json.loads(answer.body) == {"validationResponse": "512d38b6-c7b8-40c8-89fe-f46f9e9622b6"}  # type: ignore[attr-defined]
    assert answer_to({"validationCode": "<b>"}) is None
    assert answer_to({"validationCode": 1}) is None
    assert answer_to({}) is None
    assert answer_to({"validationCode": "1"}, "SubscriptionValidation.Other") is None


def basic(text: str) -> list[tuple[str, str]]:
    return [("Authorization", text)]


def encoded(credentials: bytes) -> str:
    return base64.b64encode(credentials).decode()


def test_the_scheme_of_basic_authentication_is_written_in_any_case() -> None:
    for scheme in ("Basic", "basic", "BASIC"):
        assert verify("postmark", ["me:pass:word"], basic(f"{scheme} {encoded(b'me:pass:word')}"), b"{}", now=NOW).mac


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "missing_signature"),
        ("Basic", "malformed_signature"),
        ("Bearer " + encoded(b"me:word"), "malformed_signature"),
        ("Basic " + encoded(b"me:wor"), "signature_mismatch"),
        ("Basic " + encoded(b"me:word "), "signature_mismatch"),
        ("Basic " + encoded(b"ME:word"), "signature_mismatch"),
        ("Basic me:word", "malformed_signature"),
        ("Basic  " + encoded(b"me:word"), "malformed_signature"),
        ("Basic " + encoded(b"me:words").rstrip("="), "malformed_signature"),
        ("Basic bWU6d29yZHN=", "malformed_signature"),
        ("Basic é", "malformed_signature"),
        ("Basic ", "malformed_signature"),
    ],
)
def test_other_credentials_are_refused(text: str, reason: str) -> None:
    assert refusal("basic", "me:word", basic(text)) == reason


@pytest.mark.parametrize("secret", ["hunter2", ":hunter2", "admin:", "ad\x00min:hunter2", "admin:hun\nter2", "::"])
def test_a_secret_that_is_no_name_and_password_is_an_error(secret: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        prepare("basic", [secret])
    assert secret not in str(caught.value)


def test_a_token_in_the_url_is_one_parameter_of_the_query() -> None:
    options = {"parameter": "key"}

    def received(query: str) -> int:
        return verify("token", ["old", "a b+c"], [], b"{}", now=NOW, query=query, options=options).secret_index

    assert (received("key=old"), received("x=1&key=a%20b%2Bc"), received("key=a+b%2Bc")) == (0, 1, 1)
    for query, reason in (
        ("", "missing_signature"),
        ("key=", "missing_signature"),
        ("Key=old", "missing_signature"),
        ("key=old&key=old", "missing_signature"),
        ("key=ol", "signature_mismatch"),
        ("key=old%00", "signature_mismatch"),
        ("key=%FFold", "missing_signature"),
    ):
        with pytest.raises(RefusedRequest, match=reason):
            received(query)
    with pytest.raises(RefusedRequest, match="missing_signature"):
        verify("token", ["old"], [("X-Webhook-Token", "old")], b"{}", now=NOW, options=options)
