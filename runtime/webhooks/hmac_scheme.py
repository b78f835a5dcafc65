"""HMAC over a template of the request: how most senders sign."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from runtime.webhooks.headers import Headers
from runtime.webhooks.refusal import Refused
from runtime.webhooks.request import Request
from runtime.webhooks.scheme import Check, Draft, Match
from runtime.webhooks.secret_key import text_key
from runtime.webhooks.signature_header import BARE, SignatureHeader
from runtime.webhooks.template import Signed, Template
from runtime.webhooks.timestamp import check_fresh, read_timestamp

Algorithm = Literal["sha256", "sha512", "sha1"]
Encoding = Literal["hex", "base64"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hmac:
    """HMAC (RFC 2104). Raises ValueError when its parameters contradict each other.

    `header` holds the signature in the form `form`, in lower-case hex or padded base64: exactly as this scheme would
    write it, so that one signature has one text. `payload` says what is signed. A timestamp comes from the header
    itself or from `timestamp_header`, counts in `unit`, and is signed. `id_header` holds the `{id}` of the payload.
    `key` makes the key of a secret.
    """

    header: str
    form: SignatureHeader = BARE
    algorithm: Algorithm = "sha256"
    encoding: Encoding = "hex"
    payload: str = "{body}"
    timestamp_header: str | None = None
    id_header: str | None = None
    unit: Literal["s", "ms"] = "s"
    tolerance: float | None = None
    key: Callable[[bytes], bytes] = text_key

    def __post_init__(self) -> None:
        fields = Template(self.payload).fields
        timed = self.form.timed or self.timestamp_header is not None
        if timed != ("timestamp" in fields):
            raise ValueError("a timestamp is sent and signed, or neither: {timestamp} and its header need one another")
        if timed != (self.tolerance is not None):
            raise ValueError("a timestamp needs a tolerance, and a tolerance a timestamp")
        if (self.id_header is not None) != ("id" in fields):
            raise ValueError("{id} and its header need one another")

    @property
    def signed(self) -> tuple[str, ...]:
        return Template(self.payload).fields

    def check(self, secrets: Sequence[bytes]) -> Check:
        keys = tuple(self.key(secret) for secret in secrets)
        header, form, algorithm, encode = self.header.lower(), self.form, self.algorithm, _ENCODE[self.encoding]
        fill, tolerance = Template(self.payload).compile(), self.tolerance
        scale = 1 if self.unit == "s" else 1000

        def verify(request: Request, now: float) -> Match:
            value = request.headers.one(header, repeated="ambiguous_signature")
            if not value:
                raise Refused("missing_signature")
            signatures, sent = form.read(value)
            signed = self._signed(request, sent)
            ticks = read_timestamp(signed.timestamp) if tolerance is not None else None
            message = fill(signed)
            candidates = [signature.encode("utf-8", "surrogatepass") for signature in signatures]
            found: Match | None = None
            for index, key in enumerate(keys):
                mac = hmac.digest(key, message, algorithm)
                expected = encode(mac)
                for candidate in candidates:
                    if hmac.compare_digest(expected, candidate) and found is None:
                        found = Match(mac, None if ticks is None else ticks // scale, index)
            if found is None:
                raise Refused(self._why(candidates))
            if ticks is not None and tolerance is not None:
                check_fresh(ticks / scale, now, tolerance)
            return found

        return verify

    def sign(self, secret: bytes, draft: Draft) -> list[tuple[str, str]]:
        timestamp = str(int(draft.now * (1 if self.unit == "s" else 1000))) if self.tolerance is not None else ""
        signed = Signed(draft.body, timestamp, draft.delivery_id, draft.url or "", draft.method)
        mac = hmac.digest(self.key(secret), Template(self.payload).compile()(signed), self.algorithm)
        headers = [(self.header, self.form.write(_ENCODE[self.encoding](mac).decode(), timestamp))]
        if self.timestamp_header is not None:
            headers.insert(0, (self.timestamp_header, timestamp))
        if self.id_header is not None:
            headers.insert(0, (self.id_header, draft.delivery_id))
        return headers

    def _signed(self, request: Request, timestamp: str) -> Signed:
        """The template's values. Raises `Refused` when a header they come from is missing or repeated."""
        headers = request.headers
        if self.timestamp_header is not None:
            timestamp = _required(headers, self.timestamp_header, "missing_timestamp")
        identity = _required(headers, self.id_header, "missing_id") if self.id_header is not None else ""
        return Signed(request.body, timestamp, identity, request.url or "", request.method)

    def _why(self, candidates: Sequence[bytes]) -> str:
        """What the audit calls signatures that did not match."""
        size = hashlib.new(self.algorithm, usedforsecurity=False).digest_size
        formed = any(_well_formed(candidate, self.encoding, size) for candidate in candidates)
        return "signature_mismatch" if formed else "malformed_signature"


def _required(headers: Headers, name: str, missing: str) -> str:
    value = headers.one(name.lower(), repeated="ambiguous_signature")
    if not value:
        raise Refused(missing)
    return value


def _hex(mac: bytes) -> bytes:
    return mac.hex().encode()


_ENCODE: dict[str, Callable[[bytes], bytes]] = {"hex": _hex, "base64": base64.b64encode}


def _well_formed(text: bytes, encoding: Encoding, size: int) -> bool:
    if encoding == "hex":
        return re.fullmatch(rb"[0-9a-f]{%d}" % (2 * size), text) is not None
    try:
        decoded = base64.b64decode(text, validate=True)
    except binascii.Error:
        return False
    return len(decoded) == size and base64.b64encode(decoded) == text
