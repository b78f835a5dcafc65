"""Signatures verified with a public key, in a header: Ed25519 and ECDSA over a template of the request."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from runtime.webhooks.keys.encoding import canonical_base64
from runtime.webhooks.keys.public_key import Load
from runtime.webhooks.request.refusal import RefusedRequest
from runtime.webhooks.request.request import WebhookRequest
from runtime.webhooks.schemes.scheme import CannotSign, Check, Match, Scheme, UnsignedRequest
from runtime.webhooks.schemes.signature_header import BARE, SignatureHeader
from runtime.webhooks.schemes.template import Template, TemplateValues
from runtime.webhooks.schemes.timestamp import check_fresh, read_timestamp

_HEX = re.compile(r"(?:[0-9a-f]{2})+", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicKey(Scheme):
    """A signature over `payload`, verified with the key that `key` derives from a secret.

    The secret is the sender's public key. A private key verifies too, and signs: tests use one to make deliveries.
    `header` contains the signature in `form`, in lower-case hex or padded base64. The timestamp, in seconds, is in
    `timestamp_header`, the id in `id_header`.

    A match's MAC is the SHA-256 of the signed text, since an ECDSA signature has two forms for every message.
    """

    key: Load
    header: str
    form: SignatureHeader = BARE
    encoding: Literal["hex", "base64"] = "base64"
    payload: str = "{timestamp}{body}"
    timestamp_header: str
    id_header: str | None = None
    tolerance: float = 300

    def __post_init__(self) -> None:
        fields = self.signed
        if "timestamp" not in fields or self.form.timed:
            raise ValueError("the timestamp is in its own header and is signed")
        if (self.id_header is not None) != ("id" in fields):
            raise ValueError("{id} and its header need one another")

    @property
    def signed(self) -> tuple[str, ...]:
        return Template(self.payload).fields

    def check(self, secrets: Sequence[bytes]) -> Check:
        keys = tuple(self.key(secret) for secret in secrets)
        header, form, fill = self.header.lower(), self.form, Template(self.payload).compile()

        def verify(request: WebhookRequest, now: float) -> Match:
            value = request.headers.require(header, "missing_signature")
            signatures = [raw for text in form.read(value)[0] if (raw := _decode_signature(text, self.encoding))]
            signed = self._template_values(request)
            # Timestamp and body may be adjacent, so only digits fix the border between them.
            timestamp = read_timestamp(signed.timestamp)
            message = fill(signed)
            if not signatures:
                raise RefusedRequest("malformed_signature")
            for index, key in enumerate(keys):
                if any(key.verify(signature, message) for signature in signatures):
                    check_fresh(timestamp, now, self.tolerance)
                    return Match(hashlib.sha256(message).digest(), timestamp, index)
            raise RefusedRequest("signature_mismatch")

        return verify

    def sign(self, secret: bytes, unsigned: UnsignedRequest) -> list[tuple[str, str]]:
        signer = self.key(secret).sign
        if signer is None:
            raise CannotSign(
                "a public key verifies and cannot sign: a test delivery needs the private key as its secret"
            )
        timestamp = str(int(unsigned.now))
        signed = TemplateValues(unsigned.body, timestamp, unsigned.delivery_id, unsigned.url or "", unsigned.method)
        raw = signer(Template(self.payload).compile()(signed))
        text = raw.hex() if self.encoding == "hex" else base64.b64encode(raw).decode()
        headers = [(self.timestamp_header, timestamp), (self.header, self.form.write(text, timestamp))]
        return headers if self.id_header is None else [(self.id_header, unsigned.delivery_id), *headers]

    def _template_values(self, request: WebhookRequest) -> TemplateValues:
        headers = request.headers
        timestamp = headers.require(self.timestamp_header.lower(), "missing_timestamp")
        identity = headers.require(self.id_header.lower(), "missing_id") if self.id_header is not None else ""
        return TemplateValues(request.body, timestamp, identity, request.url or "", request.method)


def _decode_signature(text: str, encoding: str) -> bytes | None:
    """Return the bytes of a signature; None unless it is in this scheme's encoding."""
    if encoding == "hex":
        return bytes.fromhex(text) if _HEX.fullmatch(text) else None
    return canonical_base64(text)
