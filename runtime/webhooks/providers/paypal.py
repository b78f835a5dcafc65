"""PayPal."""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import Field

from dslc.blocks.options import Options
from dslc.blocks.values.types import Form
from runtime.webhooks.keys.certificate import is_valid, private_key, read_signature, signing_key, write_signature
from runtime.webhooks.providers.provider import Provider
from runtime.webhooks.request.refusal import RefusedRequest
from runtime.webhooks.request.request import WebhookRequest
from runtime.webhooks.schemes.scheme import CannotSign, Check, KeyNeeded, Match, Scheme, UnsignedRequest
from runtime.webhooks.schemes.timestamp import check_fresh, read_time, write_time

_ID = re.compile(r"[A-Za-z0-9-]{1,64}")
_URL = re.compile(r"https://api(?:-m)?\.(sandbox\.)?paypal\.com/v1/notifications/certs/[A-Za-z0-9_-]{1,128}")
_NAMES = re.compile(r"(?:[a-z0-9-]+\.)+paypal\.com")
_DAYS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class PayPalSignature(Scheme):
    """An RSA signature over transmission id, time, webhook id and the body's CRC-32.

    A CRC does not prevent another body with the same checksum, so the body does not count as signed. A reader of one
    delivery can only send the same transmission again, which is refused. The certificate comes from a host of PayPal's.
    PayPal retries a delivery for three days and does not document the time it then sends.
    """

    webhook_id: str = ""
    sandbox: bool = False
    tolerance: float = _DAYS * 86400

    signed = ("id", "timestamp")
    headers = ("PAYPAL-TRANSMISSION-SIG", "PAYPAL-TRANSMISSION-TIME", "PAYPAL-TRANSMISSION-ID", "PAYPAL-CERT-URL")
    words = "RSA with PayPal's certificate, of id, time, webhook id and the body's CRC-32"

    def check(self, secrets: Sequence[bytes]) -> Check:
        def verify(request: WebhookRequest, now: float) -> Match:
            headers = request.headers
            signature = read_signature(headers.require("paypal-transmission-sig", "missing_signature"))
            identity = headers.require("paypal-transmission-id", "malformed_signature")
            time = headers.require("paypal-transmission-time", "malformed_signature")
            url = _URL.fullmatch(headers.require("paypal-cert-url", "malformed_signature"))
            if not _ID.fullmatch(identity) or url is None or bool(url[1]) != self.sandbox:
                raise RefusedRequest("malformed_signature")
            if headers.require("paypal-auth-algo", "malformed_signature") != "SHA256withRSA":
                raise RefusedRequest("outdated_signature")
            sent = read_time(time, "rfc3339")
            document = request.keys(url[0])
            if document is None:
                raise KeyNeeded(url[0], named=True)
            text = self._text(identity, time, request.body)
            if not is_valid(signing_key(document, now, _NAMES), signature, text):
                raise RefusedRequest("signature_mismatch")
            check_fresh(sent, now, self.tolerance)
            return Match(hashlib.sha256(text).digest(), int(sent), 0, url[0])

        return verify

    def sign(self, secret: bytes, unsigned: UnsignedRequest) -> list[tuple[str, str]]:
        key = private_key(secret)
        if key is None:
            raise CannotSign("only PayPal can sign: it keeps the private key; send from its webhooks simulator")
        identity, time = unsigned.delivery_id, write_time(unsigned.now, "rfc3339")
        host = "api.sandbox.paypal.com" if self.sandbox else "api.paypal.com"
        return [
            ("PAYPAL-TRANSMISSION-ID", identity),
            ("PAYPAL-TRANSMISSION-TIME", time),
            ("PAYPAL-CERT-URL", f"https://{host}/v1/notifications/certs/CERT-0"),
            ("PAYPAL-AUTH-ALGO", "SHA256withRSA"),
            ("PAYPAL-TRANSMISSION-SIG", write_signature(key, self._text(identity, time, unsigned.body))),
        ]

    def _text(self, identity: str, time: str, body: bytes) -> bytes:
        return f"{identity}|{time}|{self.webhook_id}|{zlib.crc32(body)}".encode()


class PayPalOptions(Options):
    """The webhook of the deliveries: its id is signed with each."""

    webhook_id: Annotated[
        str, Form(_ID.pattern, "a webhook's id: letters and digits, such as 8PT597110X687430LKGECATA")
    ] = Field(description="The id that PayPal gave to the webhook.", examples=["8PT597110X687430LKGECATA"])
    sandbox: bool = Field(False, description="Set for a webhook of PayPal's sandbox.", examples=[True])


PAYPAL = Provider(
    name="paypal",
    title="PayPal",
    doc="PayPal's webhooks. Its signature covers only a CRC-32 of the body, which proves almost nothing about it.",
    doc_url="https://developer.paypal.com/api/rest/webhooks/rest/",
    scheme=PayPalSignature(),
    event=("$.event_type",),
    delivery_id=("$.id",),
    options=PayPalOptions,
    configure=lambda row, options: replace(
        row, scheme=PayPalSignature(webhook_id=options.webhook_id, sandbox=options.sandbox)
    ),
    keyless=True,
)
