"""Adyen."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from runtime.webhooks.keys.shared_secret import hex_key
from runtime.webhooks.providers.provider import Provider
from runtime.webhooks.request.payload import decode_json
from runtime.webhooks.request.refusal import RefusedRequest
from runtime.webhooks.request.request import StaticAnswer, WebhookRequest
from runtime.webhooks.schemes.hmac import Signing
from runtime.webhooks.schemes.scheme import Check, Match, Scheme, UnsignedRequest

_SIGNING = Signing("sha256", "base64")
_ITEMS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedItems(Scheme):
    """HMAC-SHA256 over eight fields of each notification, joined by colons, in the item's `additionalData`.

    Every item must verify, with the same secret. Only the merchant's own reference may contain a colon, or the borders
    between the fields could be moved. The other fields of an item are not signed.
    """

    signed = ("id",)
    words = "HMAC-SHA256, base64, of eight fields of each item, in the body; the other fields are not signed"

    def check(self, secrets: Sequence[bytes]) -> Check:
        keys = tuple(hex_key(secret) for secret in secrets)

        def verify(request: WebhookRequest, now: float) -> Match:
            macs: list[bytes] = []
            used: set[int] = set()
            for item in _items(decode_json(request.body)):
                more = item.get("additionalData")
                signature = more.get("hmacSignature") if isinstance(more, dict) else None
                if not isinstance(signature, str) or not signature:
                    raise RefusedRequest("missing_signature")
                mac, index = _SIGNING.match(keys, [_message(item)], [signature])
                macs.append(mac)
                used.add(index)
            if len(used) != 1:
                raise RefusedRequest("signature_mismatch")
            return Match(macs[0] if len(macs) == 1 else hashlib.sha256(b"".join(macs)).digest(), None, used.pop())

        return verify

    def embed(self, secret: bytes, unsigned: UnsignedRequest) -> bytes:
        """Return the body with each item signed. Raises ValueError for a body without items."""
        key, value = hex_key(secret), msgspec.json.decode(unsigned.body)
        try:
            for item in _items(value):
                more = item.get("additionalData")
                signature = _SIGNING.write(key, _message(item))
                item["additionalData"] = {**(more if isinstance(more, dict) else {}), "hmacSignature": signature}
        except RefusedRequest:
            raise ValueError("the body must be a standard Adyen notification") from None
        return msgspec.json.encode(value)


def _items(value: object) -> list[dict[str, object]]:
    """Return the items of a notification, at least one. Raises `RefusedRequest`."""
    held = value.get("notificationItems") if isinstance(value, dict) else None
    if not isinstance(held, list) or not 0 < len(held) <= _ITEMS:
        raise RefusedRequest("missing_signature")
    items = [each.get("NotificationRequestItem") if isinstance(each, dict) else None for each in held]
    found = [item for item in items if isinstance(item, dict)]
    if len(found) < len(items):
        raise RefusedRequest("missing_signature")
    return found


def _message(item: dict[str, object]) -> bytes:
    """Return the signed text of an item. Raises `RefusedRequest` for fields of another type."""
    amount = item.get("amount")
    if not isinstance(amount, dict):
        raise RefusedRequest("malformed_signature")
    parts: list[str] = []
    for name in _FIELDS:
        part = (amount if name in _AMOUNT else item).get(name, "")
        if name == "value" and isinstance(part, int) and not isinstance(part, bool):
            part = str(part)
        if not isinstance(part, str) or (":" in part and name != "merchantReference"):
            raise RefusedRequest("malformed_signature")
        parts.append(part)
    return ":".join(parts).encode("utf-8", "surrogatepass")


_FIELDS = (
    *("pspReference", "originalReference", "merchantAccountCode", "merchantReference"),
    *("value", "currency", "eventCode", "success"),
)
_AMOUNT = ("value", "currency")
_ITEM = "$.notificationItems[*].NotificationRequestItem"
_FIRST = "$.notificationItems[0].NotificationRequestItem"

ADYEN = Provider(
    name="adyen",
    title="Adyen",
    doc="Adyen's standard notifications of payments. It signs eight fields of them; the secret is hexadecimal.",
    doc_url="https://docs.adyen.com/development-resources/webhooks/secure-webhooks/verify-hmac-signatures",
    scheme=SignedItems(),
    key_form="hexadecimal of the key",
    event=(f"{_FIRST}.eventCode",),
    delivery_id=(f"{_ITEM}.pspReference + {_ITEM}.eventCode + {_ITEM}.success",),
    answer=StaticAnswer(body=b"[accepted]"),
)
