"""Twilio's signatures: of the URL with a form's fields, or with the hash of any other body."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Any

import pytest

from runtime.webhooks.verification import VerifiedRequest
from tests.signatures import NOW, refusal, sign, verify

URL = "https://hooks.example/sms?from=there"
FORM = ("Content-Type", "application/x-www-form-urlencoded; charset=UTF-8")
JSON = ("Content-Type", "application/json")


def twilio(body: bytes, url: str = URL, headers: tuple[tuple[str, str], ...] = (FORM,), algorithm: str = "sha1",
           **given: Any) -> VerifiedRequest:  # fmt: skip
    signed = dict(sign("twilio", "t", body, now=NOW, delivery_id="", url=url, options={"algorithm": algorithm}))
    sent = [*headers, ("X-Twilio-Signature", signed["X-Twilio-Signature"])]
    return verify("twilio", ["t"], sent, given.pop("body", body), now=NOW, **{"url": url, **given})


def by_hash(body: bytes, url: str = URL) -> tuple[str, str]:
    """Return the query with the body's hash, and the signature of the URL with that query."""
    query = f"bodySHA256={hashlib.sha256(body).hexdigest()}"
    mac = hmac.digest(b"t", f"{url}{'&' if '?' in url else '?'}{query}".encode(), "sha1")
    return query, base64.b64encode(mac).decode()


def test_twilios_forms_verify_with_fields_in_any_order() -> None:
    assert twilio(b"b=2&a=1&c=%C3%A9&empty=").mac == twilio(b"empty=&c=%C3%A9&a=1&b=2").mac
    assert twilio(b"MessageSid=SM1&MessageStatus=sent").event == "sent"


def test_the_signature_of_twilios_documentation_verifies() -> None:
    body = b"CallSid=CA1234567890ABCDE&Caller=%2B14158675309&Digits=1234&From=%2B14158675309&To=%2B18005551212"
    headers = [FORM, ("X-Twilio-Signature", "RSOYDt4T1cUTdK1PDd93/VVr8B8=")]
    url = "https://mycompany.com/myapp.php?foo=1&bar=2"
    assert verify("twilio", ["12345"], headers, body, now=NOW, url=url).secret_index == 0


def test_twilio_may_write_the_port_or_leave_it_out() -> None:
    for declared, called in (
        ("https://h.example/x", "https://h.example:443/x"),
        ("https://h.example:443/x", "https://h.example/x"),
        ("http://h.example/x", "http://h.example:80/x"),
        ("https://h.example:8443/x", "https://h.example:8443/x"),
        ("https://[2001:db8::1]/x", "https://[2001:db8::1]:443/x"),
    ):
        signature = dict(sign("twilio", "t", b"a=1", now=NOW, delivery_id="", url=called))["X-Twilio-Signature"]
        assert verify("twilio", ["t"], [FORM, ("X-Twilio-Signature", signature)], b"a=1", now=NOW, url=declared).mac
    assert refusal("twilio", "t", [FORM, ("X-Twilio-Signature", signature)], b"a=1", url="https://[2001:db8::1]:8/x")


def test_a_body_that_is_no_form_is_signed_by_its_hash_in_the_query() -> None:
    body = b'{"type": "com.twilio.x"}'
    query, signature = by_hash(body)
    sent = [JSON, ("X-Twilio-Signature", signature)]
    assert verify("twilio", ["t"], sent, body, now=NOW, url=URL, query="from=there&" + query).mac
    assert verify("twilio", ["t"], sent, body, now=NOW, url=f"{URL}&{query}").mac
    assert refusal("twilio", "t", sent, body + b" ", url=URL, query=query) == "signature_mismatch"
    assert refusal("twilio", "t", sent, body, url=URL) == "signature_mismatch"
    assert refusal("twilio", "t", sent, body, url=URL, query=f"{query}&{query}") == "signature_mismatch"


def test_nothing_covers_a_body_whose_hash_is_not_signed() -> None:
    bare = dict(sign("twilio", "t", b"", now=NOW, delivery_id="", url=URL))["X-Twilio-Signature"]
    for content in (JSON, ("Content-Type", "text/plain"), ("Content-Type", "multipart/form-data; boundary=x")):
        assert refusal("twilio", "t", [content, ("X-Twilio-Signature", bare)], b'{"a": 1}', url=URL)
    # A request whose body was signed by its hash, with the body removed or declared as a form.
    query, signature = by_hash(b'{"a": 1}')
    for content in (JSON, FORM):
        for body in (b"", b"a=1"):
            assert refusal("twilio", "t", [content, ("X-Twilio-Signature", signature)], body, url=URL, query=query)


def signature(url: str) -> list[tuple[str, str]]:
    mac = hmac.digest(b"t", url.encode(), "sha1")
    return [("X-Twilio-Signature", base64.b64encode(mac).decode())]


def test_the_signed_query_is_that_of_the_request() -> None:
    called = "https://hooks.example/sms?order=17&x=%20a"
    sent = [FORM, *signature(called + "a1")]
    query = called.partition("?")[2]
    for declared in (URL, "https://hooks.example/sms"):
        assert verify("twilio", ["t"], sent, b"a=1", now=NOW, url=declared, query=query).mac
        for other in ("order=18&x=%20a", "order=17&x=+a", "order=17"):
            assert refusal("twilio", "t", sent, b"a=1", url=declared, query=other) == "signature_mismatch"
    assert refusal("twilio", "t", sent, b"a=1", url="https://other.example/sms", query=query) == "signature_mismatch"
    assert refusal("twilio", "t", sent, b"a=1", url="https://hooks.example/calls", query=query) == "signature_mismatch"


def test_the_fields_of_a_get_are_signed_with_its_url() -> None:
    called = "https://hooks.example/sms?MessageSid=SM1&Body=Hello%20you"
    query, sent = called.partition("?")[2], [FORM, *signature(called)]
    assert verify("twilio", ["t"], sent, b"", now=NOW, url="https://hooks.example/sms", method="GET", query=query).mac
    for changed, body in ((query + "&x=1", b""), ("", b""), (query, b"Body=x")):
        given = {"url": "https://hooks.example/sms", "method": "GET", "query": changed}
        assert refusal("twilio", "t", sent, body, **given) == "signature_mismatch"


def test_the_owner_says_which_hash_twilio_uses_and_the_request_does_not() -> None:
    options = {"algorithm": "sha256"}
    strong = dict(sign("twilio", "t", b"a=1", now=NOW, delivery_id="", url=URL, options=options))["X-Twilio-Signature"]
    weak = dict(sign("twilio", "t", b"a=1", now=NOW, delivery_id="", url=URL))["X-Twilio-Signature"]
    said = ("X-Twilio-Webhooks-Signature-Settings", "key=k,algorithm=HMAC_SHA1")
    sent = [FORM, said, ("X-Twilio-Signature", weak)]
    assert verify("twilio", ["t"], sent, b"a=1", now=NOW, url=URL).mac
    assert refusal("twilio", "t", sent, b"a=1", url=URL, options=options)
    assert verify(
        "twilio", ["t"], [FORM, ("X-Twilio-Signature", strong)], b"a=1", now=NOW, url=URL, options=options
    ).mac


@pytest.mark.parametrize("body", [b"a=%ff", b"a", b"\xff=1", b"&".join(b"a=1" for _ in range(2000))])
def test_a_form_that_twilio_never_sends_is_refused(body: bytes) -> None:
    signature = dict(sign("twilio", "t", b"a=1", now=NOW, delivery_id="", url=URL))["X-Twilio-Signature"]
    assert refusal("twilio", "t", [FORM, ("X-Twilio-Signature", signature)], body, url=URL) == "signature_mismatch"
