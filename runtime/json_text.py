"""JSON of senders and clients, decoded at once by msgspec, or tolerantly if that refuses what real senders write."""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable, Iterator
from typing import Any, Final, Literal, Never

import msgspec

Members = Callable[[list[tuple[str, Any]]], dict[str, Any]]
Reason = Literal["invalid_json", "too_deep", "duplicate_key"]

_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_elements = msgspec.json.Decoder(list[msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode

decode_strictly: Final = msgspec.json.Decoder(float_hook=float).decode
"""Decodes JSON as msgspec does. Raises ValueError and RecursionError. Its own conversion of numbers would take fifty
times as long for some, such as 1.5e300, and no other thread runs meanwhile."""

_PART: Final = 1 << 18
"""Size of the parts in which a large text is decoded, and halves of characters are replaced: no other thread runs while
one is converted."""
_MOST_LEVELS: Final = 8
"""Depth to which a large text is divided: it is looked through once for each."""


class DecodeError(ValueError):
    """A text that is not decoded. Its message follows a subject: `is not UTF-8`, `has a duplicate key`."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def decode(data: bytes, *, last: bool = False) -> object:
    """Decode the JSON value that is all of `data` (RFC 8259), in UTF-8.

    What no information depends on is accepted: a byte-order mark (section 8.1), half of a character (a lone surrogate,
    section 8.2), which becomes U+FFFD, and a number beyond doubles (section 6), which becomes infinity. Integers of up
    to 4,300 digits are exact. NaN and the word Infinity are not JSON.

    Raises DecodeError, also for a duplicate key: the sender's parser may use the first value and this one the last
    (section 4 leaves it open), so nothing is decided on such a text. `last`: the last value counts, as the sender's
    own parser is known to read it.
    """
    try:
        return _decode_in_parts(data, _MOST_LEVELS, last=last)
    except RecursionError:
        raise _too_deep() from None
    except DecodeError:
        raise
    except ValueError:  # includes msgspec's errors and UnicodeDecodeError
        return _decode_tolerantly(data, dict if last else _unique_members)


def without_mark(data: bytes) -> bytes:
    """Return `data` without a byte-order mark of UTF-8 at its beginning."""
    return data.removeprefix(codecs.BOM_UTF8)


def _decode_in_parts(data: bytes, levels: int, *, last: bool) -> object:
    """Decode a text; a large object or list in parts, so that other threads run in between."""
    begin = data[:_PART].lstrip()[:1] if len(data) > _PART and levels else b""
    if begin == b"{":
        members = _members(data)
        if not last and _loses_a_member(data, members):
            raise _duplicate_key()
        return {key: _decode_in_parts(bytes(part), levels - 1, last=last) for key, part in members.items()}
    if begin == b"[":
        return [each for part in _elements_of(data) for each in _decode_elements(part, levels - 1, last=last)]
    value = decode_strictly(data)
    if not last and _repeats_a_key(data, value):
        raise _duplicate_key()
    return value


def _elements_of(data: bytes) -> Iterator[list[msgspec.Raw]]:
    """Yield the elements of a list, together as many as make one part, and a larger one alone."""
    part: list[msgspec.Raw] = []
    size = 0
    for element in _elements(data):
        if part and size + len(element) > _PART:
            yield part
            part, size = [], 0
        part.append(element)
        size += len(element) + 1
    yield part


def _decode_elements(part: list[msgspec.Raw], levels: int, *, last: bool) -> list[Any]:
    if len(part) == 1:
        return [_decode_in_parts(bytes(part[0]), levels, last=last)]
    decoded = _decode_in_parts(b"[%s]" % b",".join(part), 0, last=last)
    assert isinstance(decoded, list)
    return decoded


def _loses_a_member(data: bytes, members: dict[str, msgspec.Raw]) -> bool:
    """Return True if the object has a duplicate key, and `members` only one of its values: see `_repeats_a_key`."""
    in_keys = sum(key.count(":") for key in members)
    if in_keys and b"\\u003" in data:
        return _repeats(data)
    return data.count(b":") != in_keys + len(members) + sum(bytes(part).count(b":") for part in members.values())


def _repeats_a_key(data: bytes, value: object) -> bool:
    r"""Return True if an object in `data`, from which `value` was decoded, has a duplicate key.

    Decoding keeps one member of a duplicate key, so at least one colon is lost. Otherwise the number of colons is
    unchanged, inside texts or not, unless an escape (`\u003a`) hid one. Two counts, over the data and over the value
    encoded again, decide this in less time than decoding took.
    """
    if b"\\u003" not in data:
        return data.count(b":") != _encode(value).count(b":")
    return _repeats(data)


def _repeats(data: bytes) -> bool:
    """Return True if an object in `data` has a duplicate key."""
    try:
        json.loads(data, object_pairs_hook=_unique_members)
    except DecodeError:
        return True
    return False


def _decode_tolerantly(data: bytes, members: Members) -> object:
    try:
        text = "".join(part.decode("utf-8", "surrogatepass") for part in _parts(without_mark(data)))
    except UnicodeDecodeError:
        raise DecodeError("invalid_json", "is not UTF-8") from None
    try:
        value = json.loads(text, object_pairs_hook=members, parse_constant=_no_constant, parse_int=_number)
        return _well_formed(value, members)
    except RecursionError:
        raise _too_deep() from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise DecodeError("invalid_json", f"is not JSON: {error.msg.lower()} ({where})") from None


def _parts(data: bytes) -> Iterator[bytes]:
    """Yield `data` in parts that begin with a character."""
    at = 0
    while at < len(data):
        end = at + _PART
        while end < len(data) and data[end] & 0xC0 == 0x80:
            end += 1
        yield data[at:end]
        at = end


def _well_formed(value: Any, members: Members) -> Any:
    """Return `value` with a character for the two halves of one that follow each other, and U+FFFD for other halves.
    Keys that were different may be the same now."""
    match value:
        case str():
            return value if value.isascii() else _well_formed_text(value)
        case list():
            return [_well_formed(each, members) for each in value]
        case dict():
            return members([(_well_formed(key, members), _well_formed(each, members)) for key, each in value.items()])
    return value


def _well_formed_text(text: str) -> str:
    parts, at = [], 0
    while at < len(text):
        end = at + _PART
        if "\ud800" <= text[end - 1 : end] <= "\udbff" and "\udc00" <= text[end : end + 1] <= "\udfff":
            end += 1
        parts.append(text[at:end].encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"))
        at = end
    return "".join(parts)


def _unique_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _duplicate_key()
    return found


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:  # Python's limit of digits
        return float(text)


def _no_constant(name: str) -> Never:
    raise DecodeError("invalid_json", f"is not JSON: {name} is no number of JSON")


def _duplicate_key() -> DecodeError:
    return DecodeError("duplicate_key", "has a duplicate key")


def _too_deep() -> DecodeError:
    return DecodeError("too_deep", "is nested too deeply")
