"""The body of a request as data: decoded at most once, on demand."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import Final
from urllib.parse import unquote_to_bytes

from runtime import json_text
from runtime.json_bounds import TOO_DEEP, excess
from runtime.webhooks.request.content import FORM
from runtime.webhooks.request.multipart import MULTIPART, Part, read_parts
from runtime.webhooks.request.refusal import RefusedRequest

OFF_THE_LOOP: Final = 256 * 1024
"""Bytes of a body above which it is verified, decoded, filtered, encrypted and recorded in threads, since the event
loop would block other requests."""

MOST_VALUES: Final = 1_000_000
"""Maximum values of a JSON body: a sender's largest bodies have one in 20 bytes."""
MOST_IN_ONE: Final = 200_000
"""Maximum values of one list or object of a body, whose decoding no other request interrupts."""

Decoder = Callable[[bytes, str], object]
"""Takes the body and its content type, in lower case and without parameters; that of `multipart/form-data` as received.
Raises only `RefusedRequest`."""

# More fields than any sender's form has.
_FORM_FIELDS = 1000

_PART = 256 * 1024

_JSON_BEGINNINGS = (b"{", b"[")
# What URL encoders write (WHATWG URL section 5.2, and the marks that JavaScript and Python leave as they are).
_ONLY_FORM = re.compile(rb"[\w%+&*.~!'()-]+=[\w%+&*.~!'()=-]*", re.ASCII)


def decode_json(body: bytes, content_type: str = "application/json", *, last: bool = False) -> object:
    """Decode the JSON value that is the whole body, see `runtime.json_text.decode`.

    Raises `RefusedRequest` `invalid_json`, `too_deep`, `too_complex` or `duplicate_key`.
    """
    # A value and its comma have two bytes at least.
    if len(body) > 2 * MOST_IN_ONE and (what := excess(body, MOST_VALUES, MOST_IN_ONE)) is not None:
        raise RefusedRequest("too_deep" if what is TOO_DEEP else "too_complex")
    try:
        return json_text.decode(body, last=last)
    except json_text.DecodeError as error:
        raise RefusedRequest(error.reason) from None


def decode_form(body: bytes, content_type: str = FORM) -> object:
    """Return the form's fields by name; a repeated field is a list. Raises `RefusedRequest` `invalid_form`."""
    fields: dict[str, str | list[str]] = {}
    if not body.isascii() or body.count(b"&") >= _FORM_FIELDS:
        raise RefusedRequest("invalid_form")
    for pair in body.split(b"&") if body else ():
        sent, equals, given = pair.partition(b"=")
        if not equals:
            raise RefusedRequest("invalid_form")
        try:
            name, value = _unquoted(sent), _unquoted(given)
        except UnicodeDecodeError:
            raise RefusedRequest("invalid_form") from None
        earlier = fields.get(name)
        if earlier is None:
            fields[name] = value
        elif isinstance(earlier, list):
            earlier.append(value)
        else:
            fields[name] = [earlier, value]
    return fields


def _unquoted(text: bytes) -> str:
    """Decode `+` and percent escapes. In parts, since no other request is answered while one is decoded."""
    parts, at = [], 0
    while at < len(text):
        end = at + _PART
        if (escape := text.rfind(b"%", end - 2, end)) >= 0 and end < len(text):
            end = escape
        parts.append(unquote_to_bytes(text[at:end].replace(b"+", b" ")))
        at = end
    return b"".join(parts).decode()


def decode_multipart(body: bytes, content_type: str, *, last: bool = False) -> object:
    """Return the form's fields by name; a repeated field is a list. A file is its `filename`, `content_type` and `size`
    in bytes; a field that is sent as JSON is its value; `last` as in `runtime.json_text.decode`. Raises
    `RefusedRequest`."""
    fields: dict[str, object] = {}
    repeated: set[str] = set()
    for part in read_parts(body, content_type):
        value = _field(part, last=last)
        if part.name not in fields:
            fields[part.name] = value
        elif part.name in repeated:
            held = fields[part.name]
            assert isinstance(held, list)
            held.append(value)
        else:
            repeated.add(part.name)
            fields[part.name] = [fields[part.name], value]
    return fields


def _field(part: Part, *, last: bool) -> object:
    if part.filename is not None:
        return {"filename": part.filename, "content_type": part.content_type, "size": len(part.data)}
    if part.content_type == "application/json":
        return decode_json(part.data, last=last)
    return part.data.decode("utf-8", "replace")


def json_or_form(field: str = "payload", *, plain: bool = False, last: bool = False) -> Decoder:
    """Return a decoder of JSON, or of a form whose `field` contains JSON.

    `plain`: a form without that field, or with files, is decoded as its own fields, and a body that begins like JSON is
    JSON whatever the header says: no form begins so, and `curl --data` sends everything as a form. Without a header, a
    body that has only a form's characters and a `=` is one: no JSON value is so.

    `last`: as in `runtime.json_text.decode`.
    """

    def decode(body: bytes, content_type: str) -> object:
        if plain and content_type[: len(MULTIPART)].lower() == MULTIPART:
            return decode_multipart(body, content_type, last=last)
        form = content_type == FORM
        if plain and form:
            form = json_text.without_mark(body).lstrip()[:1] not in _JSON_BEGINNINGS
        elif plain and not content_type:
            form = _ONLY_FORM.fullmatch(body) is not None
        if not form:
            return decode_json(body, last=last)
        fields = decode_form(body)
        assert isinstance(fields, dict)
        held = fields.get(field)
        if held is None and plain:
            return fields
        if not isinstance(held, str):
            raise RefusedRequest("invalid_form")
        return decode_json(held.encode(), last=last)

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
        """Return a dict, list, str, int, float, bool or None. Raises `RefusedRequest` if the body is not what the
        provider sends."""
        if self._outcome is None:
            given = self._content_type or ""
            media = given.partition(";")[0].strip().lower()
            try:
                self._outcome = (self._decoder(self._body, given.strip() if media == MULTIPART else media), None)
            except RefusedRequest as refused:
                self._outcome = (None, refused.reason)
        value, reason = self._outcome
        if reason is not None:
            raise RefusedRequest(reason)
        return value

    def value_or_none(self) -> object:
        """Return the value, or None for a body that cannot be decoded: for what decides nothing."""
        try:
            return self.value()
        except RefusedRequest:
            return None

    def problem(self) -> str | None:
        """Return why the body cannot be decoded, for people; None if it can."""
        try:
            self.value()
        except RefusedRequest as refused:
            return refused.message
        return None
