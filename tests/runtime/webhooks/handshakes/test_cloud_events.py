"""CloudEvents over HTTP: the handshake before the first delivery, and the identity of deliveries."""

from __future__ import annotations

import json

import pytest

from runtime.webhooks.handshakes import PERMISSION, PRESENCE_CHECK, by_method, json_echo
from runtime.webhooks.receiving.response import answered
from runtime.webhooks.request.headers import Headers
from runtime.webhooks.request.refusal import RefusedRequest
from runtime.webhooks.request.request import WebhookRequest
from runtime.webhooks.request.static_response import StaticAnswer
from tests.signatures import prepare, verify

ORIGIN = ("WebHook-Request-Origin", "eventgrid.azure.net")
EVENT = {"specversion": "1.0", "id": "7", "source": "/orders", "type": "order.made", "data": {"n": 1}}


def asked(*headers: tuple[str, str], method: str = "OPTIONS") -> StaticAnswer | None:
    verifier = prepare("azure-event-grid", ["s"])
    request = WebhookRequest(Headers(headers), b"", method)
    return verifier.handshake_response(request, verifier.payload(request), signed=False)


def test_who_names_itself_may_send() -> None:
    answer = asked(ORIGIN, ("WebHook-Request-Rate", "120"))
    assert answer is not None
    assert (answer.status, answer.body) == (200, b"")
    assert dict(answer.fields) == {
        "Allow": "POST",
        "WebHook-Allowed-Origin": "eventgrid.azure.net",
        "WebHook-Allowed-Rate": "*",
    }
    assert b"WebHook-Allowed-Origin: eventgrid.azure.net\r\n" in answered(answer).extra


@pytest.mark.parametrize(
    "origin", ["", "a b", "<b>", "a\r\nX-Injected: 1", "x" * 254, "ü.example", "https://a.example", "a,b", "*"]
)
def test_what_is_no_host_is_not_given_back(origin: str) -> None:
    assert asked((ORIGIN[0], origin)) is None


def test_who_names_nobody_or_two_is_not_answered() -> None:
    assert asked() is None
    assert asked(ORIGIN, method="POST") is None
    with pytest.raises(RefusedRequest, match="ambiguous_header"):
        asked(ORIGIN, ORIGIN)


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
