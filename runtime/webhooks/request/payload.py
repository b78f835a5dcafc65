"""A request's body as data: decoded at most once, and only when something asks for it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Final
from urllib.parse import parse_qsl

import msgspec

from runtime.webhooks.request.refusal import Refused

OFF_THE_LOOP: Final = 256 * 1024
"""Bodies over so many bytes are verified, decoded, filtered, sealed, opened and recorded in threads: in the event loop
that would hold up all other requests."""

Decoder = Callable[[bytes, str], object]
"""Takes the body and its content type, lower case and without parameters. Raises `Refused` and nothing else."""

# Enough for any sender's form; the body's limit bounds the rest.
_FORM_FIELDS = 1000

_FORM = "application/x-www-form-urlencoded"
_JSON_BEGINNINGS = (b"{", b"[")

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def decode_json(body: bytes, content_type: str = "application/json") -> object:
    """The JSON value that is the whole body (RFC 8259): UTF-8 without a byte-order mark, no NaN, no infinity.

    Raises `Refused` `invalid_json`, `too_deep`, or `duplicate_key`: of a key given twice in one object the sender's
    reader may take the first and ours the last (section 4 leaves it open), so nothing is decided on such a body.
    """
    try:
        value = _decode(body)
        repeats = _repeats_a_key(body, value)
    except RecursionError:
        raise Refused("too_deep") from None
    except ValueError:  # msgspec's errors and UnicodeDecodeError are all this
        raise Refused("invalid_json") from None
    if repeats:
        raise Refused("duplicate_key")
    return value


def _repeats_a_key(body: bytes, value: object) -> bool:
    """Whether an object in `body`, of which `value` was decoded, has a key twice.

    Of a key that was given twice one member is left, and with the other at least one colon has gone. What is left has
    as many colons as before, whether they stand in texts or not, unless an escape (`\\u003a`) hid one. So two counts
    over the body and what it is written as again tell, in less time than decoding took.
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
    """The form's fields by name; a field given several times is a list. Raises `Refused` `invalid_form`."""
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
    """JSON, or a form whose `field` holds JSON.

    `plain`: a form without that field is its own fields, and what begins as JSON is JSON whatever the header says:
    no form begins so, and `curl --data` calls everything a form.
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
    """The decoded body. `value()` decodes on its first call and remembers the outcome, a refusal too."""

    __slots__ = ("_body", "_content_type", "_decoder", "_digest", "_outcome")

    def __init__(self, decoder: Decoder, body: bytes, content_type: str | None) -> None:
        """`content_type`: the header's value, parameters and all; None when it was not sent."""
        self._decoder = decoder
        self._body = body
        self._content_type = content_type
        self._outcome: tuple[object, str | None] | None = None
        self._digest: str | None = None

    def sha256(self) -> str:
        """The raw body's SHA-256 in hexadecimal; worked out once."""
        if self._digest is None:
            self._digest = hashlib.sha256(self._body).hexdigest()
        return self._digest

    def value(self) -> object:
        """dict, list, str, int, float, bool or None. Raises `Refused` when the body is not what the provider sends."""
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
        """The same, but None for a body that can't be decoded. Raises `Refused` `duplicate_key` all the same: whatever
        was to be read of it may be there twice."""
        try:
            return self.value()
        except Refused as refused:
            if refused.reason == "duplicate_key":
                raise
            return None

    def value_or_none(self) -> object:
        """The same, but None for a body that can't be decoded."""
        try:
            return self.value()
        except Refused:
            return None
