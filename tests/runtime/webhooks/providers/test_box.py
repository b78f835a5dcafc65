"""Box signs some bodies unchanged and some escaped again; an ASCII body is the same in both forms."""

from __future__ import annotations

import json

import pytest

from runtime.webhooks.request.headers import Headers
from runtime.webhooks.request.refusal import RefusedRequest
from runtime.webhooks.request.request import WebhookRequest
from tests.clocks import START
from tests.signatures import prepare, sign

SECRET = "0123456789abcdef"


def test_a_body_of_ascii_has_no_second_form_under_the_same_signature() -> None:
    sent = json.dumps({"id": "1", "trigger": "FILE.UPLOADED", "source": {"name": "a\\b"}}).encode()
    shorter = sent.replace(b"\\\\", b"\\")
    assert json.loads(shorter) != json.loads(sent)
    headers = Headers(sign("box", SECRET, sent, now=START, delivery_id="1"))
    verifier = prepare("box", [SECRET])
    verifier.check(WebhookRequest(headers, sent), START)
    with pytest.raises(RefusedRequest, match="signature_mismatch"):
        verifier.check(WebhookRequest(headers, shorter), START)
