"""A handshake echoes text or JSON, never a page, whatever the request contains."""

from __future__ import annotations

import json
import time
from urllib.parse import quote

import pytest

from tests.runtime.attacks.conftest import STRIPE_SECRET, TOKEN_SECRET
from tests.runtime.attacks.wire import exchange, request
from tests.runtime.daemon.running import Daemon
from tests.signatures import sign

GOOD = "kVb3-_x9"
PAGES = (
    *("<script>alert(1)</script>", "<svg/onload=alert(1)>", "javascript:alert(1)", '"><img src=x onerror=alert(1)>'),
    *("a\r\nX-Injected: 1", "a\r\n\r\n<html>", "+ADw-script+AD4-", "\u2028alert(1)", "\x00<b>", "{{7*7}}", "%3Cb%3E"),
    *("\ufeff<html>", "x" * 100_000),
)
# The requests of each provider, with `@` in place of the challenge.
ASKED = {
    "dropbox": ("GET", "/hooks/dropbox?challenge=@", None),
    "meta": ("GET", f"/hooks/meta?hub.mode=subscribe&hub.verify_token={quote(TOKEN_SECRET)}&hub.challenge=@", None),
    "twitter": ("GET", "/hooks/twitter?crc_token=@", None),
    "graph": ("POST", "/hooks/graph?validationToken=@", None),
    "slack": ("POST", "/hooks/slack", {"type": "url_verification", "challenge": "@"}),
    "zoom": ("POST", "/hooks/zoom", {"event": "endpoint.url_validation", "payload": {"plainToken": "@"}}),
    "azure": (
        "POST",
        "/hooks/azure",
        [{"eventType": "Microsoft.EventGrid.SubscriptionValidationEvent", "data": {"validationCode": "@"}}],
    ),
    "okta": ("GET", "/hooks/okta", None),
    "cloud events": ("OPTIONS", "/hooks/azure", None),
}

# The header that contains the challenge, if it is not in the path or the body.
HEADERS = {"okta": "X-Okta-Verification-Challenge", "cloud events": "WebHook-Request-Origin"}


def answered(daemon: Daemon, name: str, text: str) -> tuple[int, dict[str, str], bytes]:
    method, path, document = ASKED[name]
    body, headers = b"", []
    if document is not None:
        body = json.dumps(document).replace('"@"', json.dumps(text)).encode()
        if name in {"slack", "zoom"}:
            headers = sign(name, STRIPE_SECRET, body, now=time.time(), delivery_id="")
        elif name == "azure":
            headers = [("aeg-event-type", "SubscriptionValidation"), ("Content-Type", "application/json")]
    elif name in HEADERS:
        shown = "".join(each for each in text if each.isprintable() and each.isascii())[:4000]
        headers = [(HEADERS[name], shown)]
    where = path.replace("@", quote(text[:2000], safe="", errors="replace"))
    head, _, content = exchange(daemon, request(where, body, headers, method)).partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    fields = {key.lower(): value for key, _, value in (line.partition(": ") for line in lines[1:])}
    return int(lines[0].split(" ")[1]), fields, content


@pytest.mark.parametrize("name", ASKED)
def test_a_challenge_is_answered_as_text_and_cannot_be_sniffed(daemon: Daemon, name: str) -> None:
    status, fields, content = answered(daemon, name, GOOD)
    assert status == 200, (status, content)
    assert GOOD.encode() in content or GOOD in fields.get("webhook-allowed-origin", "") or name == "twitter"
    assert fields["content-type"] in {"text/plain; charset=utf-8", "application/json"}
    assert fields["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("name", ASKED)
def test_no_page_is_given_back(daemon: Daemon, name: str) -> None:
    for text in PAGES:
        status, fields, content = answered(daemon, name, text)
        assert status < 500, (text[:80], content)
        assert fields["content-type"] in {"text/plain; charset=utf-8", "application/json"}, text
        assert "x-injected" not in fields
        assert status >= 400 or fields["x-content-type-options"] == "nosniff"
        assert "<" not in fields.get("webhook-allowed-origin", "")
        for mark in (b"<", b">", b"\r", b"\n", b"\0", b"alert(1)" if "javascript" not in text else b"<"):
            assert mark not in content, (text[:80], content)
        assert len(content) < 1024
