"""HMAC over a template of the request: the scheme of most senders."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import msgspec

from runtime.webhooks.keys.encoding import canonical_base64
from runtime.webhooks.keys.shared_secret import text_key
from runtime.webhooks.request.headers import Headers
from runtime.webhooks.request.json_path import compile_path, plain_steps
from runtime.webhooks.request.payload import decode_json
from runtime.webhooks.request.refusal import RefusedRequest
from runtime.webhooks.request.request import WebhookRequest
from runtime.webhooks.schemes.scheme import Check, Match, Scheme, UnsignedRequest
from runtime.webhooks.schemes.signature_header import BARE, SignatureHeader
from runtime.webhooks.schemes.template import Template, TemplateValues
from runtime.webhooks.schemes.timestamp import Unit, check_fresh, read_time, write_time

Algorithm = Literal["sha256", "sha512", "sha1"]
Encoding = Literal["hex", "base64"]


class Signing(NamedTuple):
    """Algorithm and encoding of a MAC: lower-case hex or padded base64, so that one MAC has one text."""

    algorithm: Algorithm = "sha256"
    encoding: Encoding = "hex"

    def write(self, key: bytes, message: bytes) -> str:
        """Return the MAC's text."""
        return _ENCODE[self.encoding](hmac.digest(key, message, self.algorithm)).decode()

    def match(self, keys: Sequence[bytes], messages: Sequence[bytes], signatures: Sequence[str]) -> tuple[bytes, int]:
        """Return the first MAC, with the index of its key, that is among `signatures` for one of `keys` and one of
        `messages`.

        Every key is tried on every message and signature, in constant time. Raises `RefusedRequest` if none matches.
        """
        encode, algorithm = _ENCODE[self.encoding], self.algorithm
        candidates = [signature.encode("utf-8", "surrogatepass") for signature in signatures]
        found: tuple[bytes, int] | None = None
        for index, key in enumerate(keys):
            for message in messages:
                mac = hmac.digest(key, message, algorithm)
                expected = encode(mac)
                for candidate in candidates:
                    if hmac.compare_digest(expected, candidate) and found is None:
                        found = mac, index
        if found is None:
            raise RefusedRequest(self._mismatch_reason(candidates))
        return found

    def _mismatch_reason(self, candidates: Sequence[bytes]) -> str:
        """Return the audit's reason for signatures that did not match."""
        size = hashlib.new(self.algorithm, usedforsecurity=False).digest_size
        formed = any(_is_well_formed(candidate, self.encoding, size) for candidate in candidates)
        if not formed and any(_is_well_formed(candidate.lower(), self.encoding, size) for candidate in candidates):
            return "uppercase_signature" if self.encoding == "hex" else "malformed_signature"
        return "signature_mismatch" if formed else "malformed_signature"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hmac(Scheme):
    """HMAC (RFC 2104). Raises ValueError if its parameters contradict each other.

    `header` contains the signature in the format `form`; `more_headers` are alternatives for senders with several keys.
    `payload` is the template of the signed text. A timestamp is written in `unit` and signed: it comes from the
    signature's header, from `timestamp_header`, or as a number at `timestamp_path`, a JSONPath into the signed body.
    `id_header` contains the `{id}` of the payload, and `id_border` is the character that no id of this sender contains,
    if it writes no separator after it. `lenient`: the signature's letters may be of either case in hexadecimal, and
    blanks may follow the prefix, for senders that are not in the table. `last`: the last value of a duplicate key
    is in the template; otherwise a body with one is refused if the template reads it.

    `begins`: the beginning of every body, for a sender whose key also signs other texts, which must never be accepted
    as a body. `url`: returns another form of `{url}` that the sender may sign. `rewritten`: returns the body as the
    sender sometimes signs it instead of as sent; no two bodies may have the same result. `key` derives the key from a
    secret, `other_key` an alternative key that the sender may use, or None.
    """

    header: str
    more_headers: tuple[str, ...] = ()
    form: SignatureHeader = BARE
    algorithm: Algorithm = "sha256"
    encoding: Encoding = "hex"
    payload: str = "{body}"
    timestamp_header: str | None = None
    timestamp_path: str | None = None
    id_header: str | None = None
    id_border: str = ""
    lenient: bool = False
    last: bool = False
    unit: Unit = "s"
    tolerance: float | None = None
    begins: bytes = b""
    url: Callable[[str], str] = str
    rewritten: Callable[[bytes], bytes] | None = None
    key: Callable[[bytes], bytes] = text_key
    other_key: Callable[[bytes], bytes | None] = lambda secret: None

    def __post_init__(self) -> None:
        fields = self._template.fields
        timed = self.form.timed or self.timestamp_header is not None
        if timed != ("timestamp" in fields):
            raise ValueError("a timestamp is sent and signed, or neither: {timestamp} and its header need one another")
        if timed and self.timestamp_path is not None:
            raise ValueError("a timestamp is either in a header or in the body")
        if (timed or self.timestamp_path is not None) != (self.tolerance is not None):
            raise ValueError("a timestamp needs a tolerance, and a tolerance a timestamp")
        if (self.id_header is not None) != ("id" in fields):
            raise ValueError("{id} and its header need one another")
        if self.more_headers and self.form.timed:
            raise ValueError("a header that also contains the timestamp must be the only one")

    @property
    def _template(self) -> Template:
        return Template(self.payload, self.id_border)

    @property
    def signed(self) -> tuple[str, ...]:
        return tuple(name.lower() if name.startswith("header:") else name for name in self._template.fields)

    @property
    def headers(self) -> tuple[str, ...]:
        """The names of the headers with signature, timestamp and id."""
        more = self.more_headers if len(self.more_headers) < 2 else ("…", self.more_headers[-1])
        names = (self.header, *more, self.timestamp_header, self.id_header)
        return tuple(name for name in names if name is not None)

    def check(self, secrets: Sequence[bytes]) -> Check:
        made = ((index, key(secret)) for index, secret in enumerate(secrets) for key in (self.key, self.other_key))
        owners, keys = zip(*((index, key) for index, key in made if key is not None), strict=True)
        form, signing, tolerance = self.form, Signing(self.algorithm, self.encoding), self.tolerance
        names = tuple(name.lower() for name in (self.header, *self.more_headers))
        fill, unit, begins, write = self._template.compile(), self.unit, self.begins, self._normalize
        rewritten, other_url, read_signed, lenient = self.rewritten, self.url, self._values_reader(), self.lenient
        in_body = None if self.timestamp_path is None else compile_path(self.timestamp_path)

        def verify(request: WebhookRequest, now: float) -> Match:
            signatures, sent = _read_signatures(request.headers, names, form)
            if lenient:
                signatures = [write(signature) for signature in signatures]
            signed = read_signed(request, sent)
            time = read_time(signed.timestamp, unit) if tolerance is not None and in_body is None else None
            messages: tuple[bytes, ...] = (fill(signed),)
            if other_url(signed.url) != signed.url:
                messages += (fill(signed._replace(url=other_url(signed.url))),)
            if rewritten is not None:
                messages += (fill(signed._replace(body=rewritten(signed.body))),)
            mac, index = signing.match(keys, messages, signatures)
            if not request.body.startswith(begins):
                raise RefusedRequest("signature_mismatch")
            if in_body is not None:
                time = _body_time(in_body(decode_json(request.body)), unit)
            if time is not None and tolerance is not None:
                check_fresh(time, now, tolerance)
            return Match(mac, None if time is None else int(time), owners[index])

        return verify

    def sign(self, secret: bytes, unsigned: UnsignedRequest) -> list[tuple[str, str]]:
        timestamp = write_time(unsigned.now, self.unit)
        identity, url, sent = unsigned.delivery_id, unsigned.url or "", {}
        try:
            others = _body_values(self._paths, unsigned.body, last=self.last)
        except RefusedRequest:
            raise ValueError("the body lacks a value that is signed: a text or a whole number") from None
        for name in self._header_names:
            held = {key.lower(): value for key, value in unsigned.headers}
            sent[name] = others[f"header:{name}"] = held.get(name.lower(), identity)
        signed = TemplateValues(unsigned.body, timestamp, identity, url, unsigned.method, others)
        text = Signing(self.algorithm, self.encoding).write(self.key(secret), self._template.compile()(signed))
        headers = [*sent.items(), (self.header, self.form.write(text, timestamp))]
        if self.timestamp_header is not None:
            headers.insert(0, (self.timestamp_header, timestamp))
        if self.id_header is not None:
            headers.insert(0, (self.id_header, unsigned.delivery_id))
        return headers

    def embed(self, secret: bytes, unsigned: UnsignedRequest) -> bytes:
        """Return the body, with the time in it if the sender puts it there. Raises ValueError if that is impossible."""
        steps = plain_steps(self.timestamp_path) if self.timestamp_path is not None else None
        if not steps:
            return unsigned.body
        try:
            value = msgspec.json.decode(unsigned.body)
        except ValueError:
            value = None
        if not isinstance(value, dict) or len(steps) != 1:
            raise ValueError(f"the body has no place for {self.timestamp_path}: it is a JSON object")
        return msgspec.json.encode({**value, str(steps[0]): int(write_time(unsigned.now, self.unit))})

    def _values_reader(self) -> Callable[[WebhookRequest, str], TemplateValues]:
        """Return a function of a request, and the timestamp beside its signature, to the template's values. It raises
        `RefusedRequest` if a header that they come from is missing or repeated."""
        timestamp_header, id_header = self.timestamp_header, self.id_header
        paths, last = self._paths, self.last
        names = [(f"header:{name}", name.lower()) for name in self._header_names]

        def read(request: WebhookRequest, timestamp: str) -> TemplateValues:
            headers = request.headers
            if timestamp_header is not None:
                timestamp = headers.require(timestamp_header.lower(), "missing_timestamp")
            identity = headers.require(id_header.lower(), "missing_id") if id_header is not None else ""
            others = _body_values(paths, request.body, last=last)
            others |= {part: headers.require(name, "missing_id") for part, name in names}
            return TemplateValues(request.body, timestamp, identity, request.url or "", request.method, others)

        return read

    def _normalize(self, signature: str) -> str:
        """Return a signature of a lenient scheme in the one way in which it is compared."""
        signature = signature.lstrip(" \t")
        return signature.lower() if self.encoding == "hex" else signature

    @property
    def _paths(self) -> tuple[str, ...]:
        return tuple(name for name in self._template.fields if name.startswith("json:"))

    @property
    def _header_names(self) -> tuple[str, ...]:
        return tuple(name.removeprefix("header:") for name in self._template.fields if name.startswith("header:"))


def _read_signatures(headers: Headers, names: tuple[str, ...], form: SignatureHeader) -> tuple[list[str], str]:
    """Return the signatures of every header among `names` that was sent, and the timestamp of the first."""
    values = [value for name in names if (value := headers.one(name, repeated="ambiguous_signature"))]
    if not values:
        raise RefusedRequest("missing_signature")
    signatures, timestamp = form.read(values[0])
    for value in values[1:]:
        signatures += form.read(value)[0]
    return signatures, timestamp


def _body_values(parts: Sequence[str], body: bytes, *, last: bool) -> dict[str, str]:
    """Return the texts and whole numbers at the paths of `parts` in a body. Raises `RefusedRequest`."""
    values: dict[str, str] = {}
    document = decode_json(body, last=last) if parts else None
    for part in parts:
        [value] = compile_path(part.removeprefix("json:"))(document) or [None]
        if type(value) is not str and type(value) is not int:
            raise RefusedRequest("missing_id")
        values[part] = str(value)
    return values


def _body_time(nodes: list[object], unit: Unit) -> float:
    """Return the time in a signed body, a whole number at its node. Raises `RefusedRequest`."""
    if not nodes:
        raise RefusedRequest("missing_timestamp")
    return read_time(str(nodes[0]) if type(nodes[0]) is int else "", unit)


def _hex(mac: bytes) -> bytes:
    return mac.hex().encode()


_ENCODE: dict[str, Callable[[bytes], bytes]] = {"hex": _hex, "base64": base64.b64encode}


def _is_well_formed(text: bytes, encoding: Encoding, size: int) -> bool:
    if encoding == "hex":
        return re.fullmatch(rb"[0-9a-f]{%d}" % (2 * size), text) is not None
    raw = canonical_base64(text.decode("latin-1"))
    return raw is not None and len(raw) == size
