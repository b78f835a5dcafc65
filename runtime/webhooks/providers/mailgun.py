"""Mailgun."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import msgspec

from runtime.webhooks.keys.shared_secret import text_key
from runtime.webhooks.providers.provider import MIB, Provider
from runtime.webhooks.request.payload import Payload, json_or_form
from runtime.webhooks.request.refusal import RefusedRequest
from runtime.webhooks.request.request import OK, WebhookRequest
from runtime.webhooks.schemes.hmac import Signing
from runtime.webhooks.schemes.scheme import Check, Match, Scheme, UnsignedRequest
from runtime.webhooks.schemes.timestamp import check_fresh, read_time

_DECODER = json_or_form("payload", plain=True)
_READ = partial(Payload, _DECODER)
_SIGNING = Signing("sha256", "hex")
_TOLERANCE = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenInBody(Scheme):
    """HMAC-SHA256 over `timestamp` and `token`, both beside the `signature`: in the `signature` object of an event, and
    among the fields of a form, with files or without, of a mail that a route forwards.

    It proves that Mailgun created the token, and nothing about the rest of the body: a reader of one request could
    write another body with its signature. So a token is accepted once, and only while it is fresh. There is no
    separator between timestamp and token, but moving a digit changes the timestamp by years.
    """

    signed = ("timestamp", "id")
    tolerance = _TOLERANCE
    words = "HMAC-SHA256, hex, of timestamp and token, all three in the body; the rest of it is not signed"

    def check(self, secrets: Sequence[bytes]) -> Check:
        keys = tuple(map(text_key, secrets))

        def verify(request: WebhookRequest, now: float) -> Match:
            timestamp, token, signature = _signature(_READ(request.body, request.headers.get("content-type")).value())
            time = read_time(timestamp, "s")
            if not (token.isascii() and token.isalnum() and len(token) <= 128):
                raise RefusedRequest("malformed_id")
            mac, index = _SIGNING.match(keys, [(timestamp + token).encode()], [signature])
            check_fresh(time, now, _TOLERANCE)
            return Match(mac, int(time), index)

        return verify

    def embed(self, secret: bytes, unsigned: UnsignedRequest) -> bytes:
        """Return the body, a JSON object, with the signature. Raises ValueError for another body."""
        timestamp, token = str(int(unsigned.now)), unsigned.delivery_id.encode().hex().ljust(50, "0")
        signature = {
            "timestamp": timestamp,
            "token": token,
            "signature": _SIGNING.write(secret, (timestamp + token).encode()),
        }
        value = msgspec.json.decode(unsigned.body)
        if not isinstance(value, dict):
            raise ValueError("the body has no place for a signature: it must be a JSON object")
        return msgspec.json.encode({**value, "signature": signature})


def _signature(value: object) -> tuple[str, str, str]:
    """Return timestamp, token and signature of a payload as texts. Raises `RefusedRequest`."""
    held = value.get("signature") if isinstance(value, dict) else None
    if isinstance(held, str):
        held = value
    if not isinstance(held, dict):
        raise RefusedRequest("missing_signature")
    texts: list[str] = []
    for name, missing in _PARTS:
        text = held.get(name)
        if name == "timestamp" and isinstance(text, int) and not isinstance(text, bool):
            text = str(text)
        if not isinstance(text, str) or not text:
            raise RefusedRequest(missing)
        texts.append(text)
    timestamp, token, signature = texts
    return timestamp, token, signature


_PARTS = (("timestamp", "missing_timestamp"), ("token", "missing_id"), ("signature", "missing_signature"))

MAILGUN = Provider(
    name="mailgun",
    title="Mailgun",
    doc="Events of mail sent with Mailgun, and mail that it receives. It signs a token, not the body: do not use "
    "filters for important decisions.",
    doc_url="https://documentation.mailgun.com/docs/mailgun/user-manual/webhooks/securing-webhooks",
    scheme=TokenInBody(),
    # Undocumented for a mail with its attachments:
    # https://documentation.mailgun.com/docs/mailgun/user-manual/receive-forward-store/receive-http
    # It must be decoded before it can be verified, so more has to be allowed by the webhook.
    body_limit=4 * MIB,
    decoder=_DECODER,
    event=("$['event-data'].event",),
    delivery_id=("$.signature.token", "$.token"),
    answer=OK,
)
