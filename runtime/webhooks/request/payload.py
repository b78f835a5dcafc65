"""The body of a request as data: decoded at most once, on demand."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Final
from urllib.parse import parse_qsl

import msgspec

from runtime.webhooks.request.refusal import Refused

OFF_THE_LOOP: Final = 256 * 1024
"""Bytes of a body above which it is verified, decoded, filtered, encrypted and recorded in threads, since the event
loop would block other requests."""

Decoder = Callable[[bytes, str], object]
"""Takes the body and its content type, in lower case and without parameters. Raises only `Refused`."""

# More fields than any sender's form has.
_FORM_FIELDS = 1000

_FORM = "application/x-www-form-urlencoded"
_JSON_BEGINNINGS = (b"{", b"[")

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def decode_json(body: bytes, content_type: str = "application/json") -> object:
    """Decode the JSON value that is the whole body (RFC 8259): UTF-8 without a byte-order mark, no NaN, no infinity.

    Raises `Refused` `invalid_json`, `too_deep`, or `duplicate_key`: of a duplicate key the sender's parser may use the
    first value and this one the last (section 4 leaves it open), so nothing is decided on such a body.
    """
    try:
        value = _decode(body)
        repeats = _repeats_a_key(body, value)
    except RecursionError:
        raise Refused("too_deep") from None
    except ValueError:  # includes msgspec's errors and UnicodeDecodeError
        raise Refused("invalid_json") from None
    if repeats:
        raise Refused("duplicate_key")
    return value


def _repeats_a_key(body: bytes, value: object) -> bool:
    r"""Return True if an object in `body`, from which `value` was decoded, has a duplicate key.

    Decoding keeps one member of a duplicate key, so at least one colon is lost. Otherwise the number of colons is
    unchanged, inside texts or not, unless an escape (`\u003a`) hid one. Two counts, over the body and over the value
    encoded again, decide this in less time than decoding took.
    """
    if b"\\u003" not in body:
        return body.count(b":") != _encode(value).count(b":")
    found = False

    def notice(pairs: list[tuple[str, object]]) -> None:
        nonlocal found
        found = found or len({key for key, _ in pairs}) < len(pairs)

    json.loads(body, object_pairs_hook=notice)
    return found


def decode_form(body: bytes, content_type: str = _FORM) -> object:
    """Return the form's fields by name; a repeated field is a list. Raises `Refused` `invalid_form`."""
    fields: dict[str, str | list[str]] = {}
    try:
        pairs = parse_qsl(
            body.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=True,
            errors="strict",
            max_num_fields=_FORM_FIELDS,
        )
    except ValueError:
        raise Refused("invalid_form") from None
    for name, value in pairs:
        earlier = fields.get(name)
        if earlier is None:
            fields[name] = value
        elif isinstance(earlier, list):
            earlier.append(value)
        else:
            fields[name] = [earlier, value]
    return fields


def json_or_form(field: str = "payload", *, plain: bool = False) -> Decoder:
    """Return a decoder of JSON, or of a form whose `field` contains JSON.

    `plain`: a form without that field is decoded as its own fields, and a body that begins like JSON is JSON whatever
    the header says: no form begins so, and `curl --data` sends everything as a form.
    """

    def decode(body: bytes, content_type: str) -> object:
        if content_type != _FORM or (plain and body[:1] in _JSON_BEGINNINGS):
            return decode_json(body)
        fields = decode_form(body)
        assert isinstance(fields, dict)
        held = fields.get(field)
        if held is None and plain:
            return fields
        if not isinstance(held, str):
            raise Refused("invalid_form")
        return decode_json(held.encode())

    return decode


class Payload:
    """The decoded body. `value()` decodes on its first call and remembers the outcome, including a refusal."""

    __slots__ = ("_body", "_content_type", "_decoder", "_digest", "_outcome")

    def __init__(self, decoder: Decoder, body: bytes, content_type: str | None) -> None:
        """`content_type`: the header's value with parameters; None if it was not sent."""
        self._decoder = decoder
        self._body = body
        self._content_type = content_type
        self._outcome: tuple[object, str | None] | None = None
        self._digest: str | None = None

    def sha256(self) -> str:
        """Return the raw body's SHA-256 in hexadecimal, computed once."""
        if self._digest is None:
            self._digest = hashlib.sha256(self._body).hexdigest()
        return self._digest

    def value(self) -> object:
        """Return a dict, list, str, int, float, bool or None. Raises `Refused` if the body is not what the provider
        sends."""
        if self._outcome is None:
            media = (self._content_type or "").partition(";")[0].strip().lower()
            try:
                self._outcome = (self._decoder(self._body, media), None)
            except Refused as refused:
                self._outcome = (None, refused.reason)
        value, reason = self._outcome
        if reason is not None:
            raise Refused(reason)
        return value

    def unambiguous_or_none(self) -> object:
        """Return the value, or None for a body that cannot be decoded. Still raises `Refused` `duplicate_key`: the
        value to read may occur twice."""
        try:
            return self.value()
        except Refused as refused:
            if refused.reason == "duplicate_key":
                raise
            return None

    def value_or_none(self) -> object:
        """Return the value, or None for a body that cannot be decoded."""
        try:
            return self.value()
        except Refused:
            return None
