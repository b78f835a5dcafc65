"""Coinbase Developer Platform."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from runtime.webhooks.keys.shared_secret import text_key
from runtime.webhooks.providers.provider import Provider
from runtime.webhooks.request.headers import Headers
from runtime.webhooks.request.refusal import RefusedRequest
from runtime.webhooks.request.request import WebhookRequest
from runtime.webhooks.schemes.hmac import Signing
from runtime.webhooks.schemes.scheme import Check, Match, Scheme, UnsignedRequest
from runtime.webhooks.schemes.timestamp import check_fresh, read_time

_HEADER = "X-Hook0-Signature"
_ID = "x-event-id"
_SIGNING = Signing("sha256", "hex")
_TOLERANCE = 300
_NAMES = re.compile(r"[a-z0-9-]{1,64}(?: [a-z0-9-]{1,64}){0,15}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedHeaders(Scheme):
    """HMAC-SHA256 over time, header names, header values and the body, joined by dots: `t=…,h=content-type
    x-event-id,v1=…`.

    Of the two signatures only `v1` counts: `v0` does not cover the headers. The event's id must be among the signed
    headers, since it identifies deliveries, and must not contain a dot, or values could be exchanged.
    """

    signed = ("timestamp", f"header:{_ID}", "body")
    tolerance = _TOLERANCE
    headers = (_HEADER,)
    words = "HMAC-SHA256, hex, of `{timestamp}.{names}.{values}.{body}`, with the headers that it names itself"

    def check(self, secrets: Sequence[bytes]) -> Check:
        keys = tuple(map(text_key, secrets))

        def verify(request: WebhookRequest, now: float) -> Match:
            value = request.headers.require(_HEADER.lower(), "missing_signature")
            timestamp, names, signature = _fields(value)
            time = read_time(timestamp, "s")
            message = _message(timestamp, names, request.headers, request.body)
            mac, index = _SIGNING.match(keys, [message], [signature])
            check_fresh(time, now, _TOLERANCE)
            return Match(mac, int(time), index)

        return verify

    def sign(self, secret: bytes, unsigned: UnsignedRequest) -> list[tuple[str, str]]:
        timestamp, held = str(int(unsigned.now)), Headers([(_ID, unsigned.delivery_id)])
        signature = _SIGNING.write(secret, _message(timestamp, _ID, held, unsigned.body))
        return [("X-Event-Id", unsigned.delivery_id), (_HEADER, f"t={timestamp},h={_ID},v1={signature}")]


def _fields(value: str) -> tuple[str, str, str]:
    """Return timestamp, names and signature of the header, each once. Raises `RefusedRequest`."""
    found: dict[str, str] = {}
    for each in value.split(","):
        key, equals, text = each.partition("=")
        if not equals or key in found:
            raise RefusedRequest("malformed_signature" if not equals else "ambiguous_signature")
        found[key] = text
    if "t" not in found:
        raise RefusedRequest("missing_timestamp")
    names = found.get("h", "")
    if not found.get("v1") or not _NAMES.fullmatch(names):
        raise RefusedRequest("malformed_signature")
    if _ID not in names.split(" "):
        raise RefusedRequest("missing_id")
    return found["t"], names, found["v1"]


def _message(timestamp: str, names: str, headers: Headers, body: bytes) -> bytes:
    values = [headers.require(name, "missing_id") for name in names.split(" ")]
    if "." in values[names.split(" ").index(_ID)]:
        raise RefusedRequest("malformed_id")
    return ".".join((timestamp, names, *values, "")).encode("utf-8", "surrogatepass") + body


COINBASE_CDP = Provider(
    name="coinbase-cdp",
    title="Coinbase Developer Platform",
    doc="Events of onchain activity, wallets and payments at Coinbase.",
    doc_url="https://docs.cdp.coinbase.com/webhooks/verify-signatures",
    scheme=SignedHeaders(),
    event=("header:X-Event-Type", "$.eventType"),
    sample_event="onchain.activity.detected",
    delivery_id=("header:X-Event-Id",),
)
