"""An entry of the key-value store: its bounds, and the form in which it is sealed and looked up."""

from __future__ import annotations

import hmac
import json
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import BindParameter, ColumnElement, or_

from runtime.crypto import SealedBytes
from runtime.database.keys.ring import KeyRing
from runtime.database.schema import kv, user_storage
from runtime.database.sealed import Seal
from runtime.errors import UsageError

LONGEST_NAME: Final = 256
"""Characters."""
MOST_TAGS: Final = 20
LONGEST_TAG: Final = 64
"""Characters."""
LARGEST_VALUE: Final = 64 * 1024
"""Bytes of a value as compact JSON in UTF-8."""
DEEPEST: Final = 64
"""Lists and objects within each other in a value."""
ENTRY_BYTES: Final = 200
TAG_BYTES: Final = 100
"""Bytes that an entry, and each of its tags, take besides name, tags and value."""


class InvalidEntry(UsageError):  # noqa: N818
    """A name, tag, value or time is out of bounds; nothing was changed. `field`: the parameter."""

    def __init__(self, field: str, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.field = field


class KvEntry(NamedTuple):
    """A stored entry. `value`: a JSON value. `version`: grows with each change of an entry of the user, and is never
    used again. Times: Unix milliseconds; `expires_at` None: never. `subject`: of the keyed threads to which it belongs;
    None: to none."""

    name: str
    value: Any
    tags: Sequence[str]
    version: int
    expires_at: int | None
    created_at: int
    updated_at: int
    subject: str | None


def entry_name(text: str) -> str:
    """Return a name as it is stored and compared: in Unicode NFC. Raises InvalidEntry."""
    name = unicodedata.normalize("NFC", text)
    if not 1 <= len(name) <= LONGEST_NAME:
        raise InvalidEntry("key", f"a key has 1 to {LONGEST_NAME} characters")
    return name


def entry_tags(texts: Iterable[str]) -> tuple[str, ...]:
    """Return tags as they are stored and compared: in Unicode NFC, each once. Raises InvalidEntry."""
    tags = tuple(dict.fromkeys(unicodedata.normalize("NFC", text) for text in texts))
    if len(tags) > MOST_TAGS:
        raise InvalidEntry("tags", f"there are at most {MOST_TAGS} tags")
    if any(not 1 <= len(tag) <= LONGEST_TAG or not tag.strip() for tag in tags):
        raise InvalidEntry("tags", f"a tag has 1 to {LONGEST_TAG} characters, and is not blank")
    return tags


def value_json(value: Any) -> bytes:
    """Return a JSON value as compact JSON. Raises InvalidEntry for a value that is too large or nested too deep, and
    for a number that JSON does not have."""
    if _is_deeper(value, DEEPEST):
        raise InvalidEntry("value", f"lists and objects are nested deeper than {DEEPEST} levels")
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError:
        what = "a number is not finite, or has too many digits"
        raise InvalidEntry("value", what, hint="write such a number as text") from None
    encoded = text.encode()
    if len(encoded) > LARGEST_VALUE:
        raise InvalidEntry(
            "value",
            f"the value has {len(encoded):,} bytes as JSON; {LARGEST_VALUE:,} is the maximum",
            hint="split it into several entries",
        )
    return encoded


def _is_deeper(value: Any, levels: int) -> bool:
    if not isinstance(value, dict | list):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_is_deeper(each, levels - 1) for each in inner)


def content_of(name: str, tags: Sequence[str], value: bytes, subject: str | None) -> bytes:
    """Return what is sealed of an entry. `value`: as `value_json` returns it."""
    head = json.dumps([name, list(tags)], ensure_ascii=False, separators=(",", ":")).encode()
    tail = b"" if subject is None else b"," + json.dumps(subject, ensure_ascii=False).encode()
    return head[:-1] + b"," + value + tail + b"]"


def counted_bytes(content: bytes, tags: Sequence[str]) -> int:
    """Return the bytes that an entry counts towards the storage of its user."""
    return ENTRY_BYTES + TAG_BYTES * len(tags) + len(content)


def is_alive(now: int | BindParameter[int]) -> ColumnElement[bool]:
    """Return the condition that an entry has not expired."""
    return or_(kv.c.expires_at.is_(None), kv.c.expires_at > now)


class KvSeals:
    """Seals and opens entries, and the keys with which names and tags are coded."""

    def __init__(self, keys: KeyRing) -> None:
        self._content = Seal(keys, kv.c.content)
        self._key = Seal(keys, user_storage.c.kv_key)

    def close(self, content: bytes, entry_id: str, version: int, user_id: str) -> SealedBytes:
        """Seal the content of a row."""
        return self._content.close(content, row=entry_id, version=version, user_id=user_id)

    def open(self, row: Any, user_id: str) -> KvEntry:
        """Return the entry of a row with all columns of `kv`. Raises `Unsealable`."""
        content = self._content.open(bytes(row.content), row=row.id, version=row.version, user_id=user_id)
        name, tags, value, *subject = json.loads(content)
        times = row.expires_at, row.created_at, row.updated_at
        return KvEntry(name, value, tags, row.version, *times, subject[0] if subject else None)

    def close_key(self, key: bytes, user_id: str) -> SealedBytes:
        """Seal a new key of a user."""
        return self._key.close(key, row="", user_id=user_id)

    def codes(self, sealed: bytes, user_id: str) -> Codes:
        """Return the codes with a user's key. Raises `Unsealable`."""
        return Codes(self._key.open(bytes(sealed), row="", user_id=user_id))


class Codes:
    """The codes by which names, tags and subjects of one user are looked up. Without the key they reveal only which are
    equal; other users have other codes for the same."""

    __slots__ = ("_key",)

    def __init__(self, key: bytes) -> None:
        """`key`: 32 bytes."""
        self._key = key

    def __repr__(self) -> str:
        return "Codes()"

    def name(self, name: str, subject: str | None) -> bytes:
        """Return the code of a name among the entries of a subject, or among those of none."""
        code = self.subject(subject)
        return self._code("name" if code is None else f"name {code.hex()}", name)

    def subject(self, subject: str | None) -> bytes | None:
        """Return the code of a subject; None for None."""
        return None if subject is None else self._code("subject", subject)

    def tag(self, tag: str) -> bytes:
        """Return the code of a tag."""
        return self._code("tag", tag)

    def _code(self, what: str, text: str) -> bytes:
        return hmac.digest(self._key, f"{what}\0{text}".encode(), "sha256")
