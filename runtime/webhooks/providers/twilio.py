"""Twilio."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal
from urllib.parse import parse_qs, urlsplit

from pydantic import Field

from dslc.blocks.block import GroupModel
from runtime.webhooks.keys.shared_secret import text_key
from runtime.webhooks.providers.provider import Provider
from runtime.webhooks.request.content import FORM
from runtime.webhooks.request.payload import decode_form, json_or_form
from runtime.webhooks.request.refusal import RefusedRequest
from runtime.webhooks.request.request import StaticAnswer, WebhookRequest
from runtime.webhooks.schemes.hmac import Signing
from runtime.webhooks.schemes.scheme import Check, Match, Scheme, UnsignedRequest

_HEADER = "X-Twilio-Signature"
_HASH = "bodySHA256"


@dataclass(frozen=True, slots=True, kw_only=True)
class FormUrl(Scheme):
    """HMAC over the URL followed by the form's fields, sorted by name, with no separators between names and values.

    The query is that of the request if it has one, else that of the declared URL: the signature covers it, so Twilio
    may be given a URL with parameters of a single call. By GET the fields are in the query.

    A body that is not a form is signed by its SHA-256, which Twilio puts into the query as `bodySHA256` and signs with
    the URL; without it the request is refused, since nothing would cover the body. If the hash is present it must be
    right, whatever the content type. Twilio signs the URL sometimes with its port and sometimes without: both are
    accepted. Since there are no separators, a holder of one signed request could move the border between a name and its
    value.
    """

    algorithm: Literal["sha1", "sha256"] = "sha1"

    signed = ("url", "body")
    headers = (_HEADER,)

    @property
    def words(self) -> str:
        return f"HMAC-{self.algorithm.upper()}, base64, of URL and sorted form fields, or of the URL with `bodySHA256`"

    def check(self, secrets: Sequence[bytes]) -> Check:
        keys = tuple(map(text_key, secrets))
        signing = Signing(self.algorithm, "base64")

        def verify(request: WebhookRequest, now: float) -> Match:
            signature = request.headers.require(_HEADER.lower(), "missing_signature")
            url, fields = _parts(request)
            messages = [(each + fields).encode("utf-8", "surrogatepass") for each in _ports(url)]
            mac, index = signing.match(keys, messages, [signature])
            return Match(mac, None, index)

        return verify

    def sign(self, secret: bytes, unsigned: UnsignedRequest) -> list[tuple[str, str]]:
        try:
            message = (unsigned.url or "") + _fields(unsigned.body)
        except RefusedRequest:
            raise ValueError("the body is not a form, as Twilio's are") from None
        return [(_HEADER, Signing(self.algorithm, "base64").write(secret, message.encode()))]


def _parts(request: WebhookRequest) -> tuple[str, str]:
    """Return the URL as Twilio called it, and the fields that are signed after it. Raises `RefusedRequest`."""
    url = request.url or ""
    if request.query:
        url = f"{url.partition('?')[0]}?{request.query}"
    if request.method == "GET":
        if request.body:
            raise RefusedRequest("signature_mismatch")
        return url, ""
    hashes = parse_qs(urlsplit(url).query).get(_HASH)
    if hashes is not None:
        expected = hashlib.sha256(request.body).hexdigest()
        if len(hashes) != 1 or not hmac.compare_digest(hashes[0].encode("utf-8", "surrogatepass"), expected.encode()):
            raise RefusedRequest("signature_mismatch")
        return url, ""
    media = (request.headers.get("content-type") or FORM).partition(";")[0].strip().lower()
    if media != FORM and request.body:
        raise RefusedRequest("signature_mismatch")
    try:
        return url, _fields(request.body)
    except RefusedRequest:
        # Twilio never sends this; it is refused like any other wrong body.
        raise RefusedRequest("signature_mismatch") from None


def _fields(body: bytes) -> str:
    form = decode_form(body) if body else {}
    assert isinstance(form, dict)
    return "".join(
        name + value
        for name in sorted(form)
        for value in (sorted(set(form[name])) if isinstance(form[name], list) else (form[name],))
    )


def _ports(url: str) -> list[str]:
    """Return the URL without and with its port."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    name = parts.netloc.rpartition(":")[0] if parts.netloc.endswith(f":{parts.port}") else parts.netloc
    if not host:
        return [url]
    port = parts.port or (443 if parts.scheme == "https" else 80)
    bare, numbered = parts._replace(netloc=name), parts._replace(netloc=f"{name}:{port}")
    return list(dict.fromkeys((url, bare.geturl(), numbered.geturl())))


class TwilioOptions(GroupModel):
    """The expected one of Twilio's two kinds of signatures."""

    algorithm: Literal["sha1", "sha256"] = Field(
        "sha1", description="`sha1` for the account's auth token; `sha256` for a shared key that signs with it."
    )


TWILIO = Provider(
    name="twilio",
    title="Twilio",
    doc="Messages, calls and events of Twilio, by POST or GET. It signs the URL, so `public_url` is needed, and with "
    "SHA-1 by default.",
    doc_url="https://www.twilio.com/docs/usage/security",
    scheme=FormUrl(),
    methods=("POST", "GET"),
    content_type=FORM,
    decoder=json_or_form("payload", plain=True),
    event=("$.EventType", "$.MessageStatus", "$.SmsStatus", "$.CallStatus", "$[0].type"),
    delivery_id=("header:I-Twilio-Idempotency-Token",),
    # Twilio logs any answer that is neither TwiML nor empty as an error of the webhook.
    answer=StaticAnswer(200, "text/xml; charset=utf-8", b"<Response/>"),
    options=TwilioOptions,
    # The request names an algorithm in X-Twilio-Webhooks-Signature-Settings, but the webhook's owner decides.
    configure=lambda row, options: replace(row, scheme=FormUrl(algorithm=options.algorithm)),
)
