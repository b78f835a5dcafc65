"""The universal payload: everything remembered, in any store, is an `Item`."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from datetime import UTC, datetime
from typing import Annotated, Any, Literal
from urllib.parse import quote
from uuid import NAMESPACE_URL, UUID, uuid5

from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

MemoryType = Literal["episodic", "semantic", "procedural"]

PATTERN = "pattern"
"""The tag of semantic items that are learned patterns."""

OWNER = "owner"
"""The user of items without one."""

RESERVED = "symbiont:"
"""Prefix of addresses that identify traces of deliveries, and summaries; callers may not use it."""

_NAMESPACE = uuid5(NAMESPACE_URL, "urn:symbiont:memory")
_SURROGATE = re.compile("[\ud800-\udfff]")
_DELIVERY = f"{RESERVED}delivery/"
_SUMMARY = f"{RESERVED}summary/"


def well_formed(text: str) -> str:
    """Replace each lone surrogate by U+FFFD: JSON allows them, UTF-8 does not."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def _well_formed(value: Any) -> Any:
    return well_formed(value) if isinstance(value, str) else value


def _in_utc(time: datetime) -> datetime:
    try:
        return time.astimezone(UTC)
    except OverflowError:
        raise ValueError("in UTC this time is before the year 1 or after the year 9999") from None


ItemText = Annotated[str, BeforeValidator(_well_formed)]
"""A text that UTF-8 can encode."""


def tag_form(tag: str) -> str:
    """Return a tag as it is stored and compared: in Unicode NFC, as texts are hashed."""
    return unicodedata.normalize("NFC", tag)


RiskTier = Literal["GREEN", "YELLOW", "RED"]


class Provenance(BaseModel):
    """The origin of an item; unknown fields are None or empty.

    `author`: who said it. `session_id`: the conversation or run that it belongs to; its neighbours there help to find
    it. `confidence`: 0 to 1. `git_commit`: as git abbreviates it. `sources`: files and addresses that prove it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    author: ItemText | None = None
    session_id: ItemText | None = None
    task: ItemText | None = None
    confidence: Annotated[float, Field(ge=0, le=1)] | None = None
    risk_tier: RiskTier | None = None
    git_commit: ItemText | None = None
    sources: tuple[ItemText, ...] = ()


NOTHING_KNOWN = Provenance()
"""The provenance of most items."""


class Item(BaseModel):
    """One remembered item. Frozen; `changed` returns a modified copy. Its JSON (`model_dump(mode="json")`, times as RFC
    3339 in UTC) is complete: `model_validate` returns the same item.

    `memory_id` is given by the store and empty before that. `chunk_hash` is computed if absent and checked if given
    (ValidationError). `timestamp` is in UTC; `tags` are sorted and unique. `source_uri`: the origin; a second append
    with one made by `delivery_uri` does nothing. `other_sources`: further origins of the same text.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    memory_id: str = ""
    project_id: ItemText | None = None
    agent_id: str
    user_id: ItemText = OWNER
    memory_type: MemoryType
    timestamp: Annotated[AwareDatetime, AfterValidator(_in_utc)]
    source_uri: ItemText | None = None
    other_sources: Annotated[tuple[ItemText, ...], AfterValidator(lambda sources: tuple(sorted(set(sources))))] = ()
    chunk_hash: str = ""
    tags: Annotated[tuple[ItemText, ...], AfterValidator(lambda tags: tuple(sorted(set(map(tag_form, tags)))))] = ()
    text: ItemText
    source_memory_ids: tuple[ItemText, ...] = ()
    provenance: Provenance = NOTHING_KNOWN

    @model_validator(mode="before")
    @classmethod
    def _hash_text(cls, data: Any) -> Any:
        if not isinstance(data, dict) or not isinstance(data.get("text"), str):
            return data
        expected = chunk_hash(data["text"])
        if data.get("chunk_hash") not in {None, "", expected}:
            raise ValueError("chunk_hash is not the hash of text")
        return data | {"chunk_hash": expected}

    def identified(self, section: str, occurrence: int) -> Item:
        """Return a copy with the uuid5 of its position (see `memory_id`)."""
        found = memory_id(self.agent_id, section, self.chunk_hash, occurrence, self.user_id)
        return self.model_copy(update={"memory_id": found})

    def changed(self, **fields: object) -> Item:
        """Return a validated copy with these fields. Raises ValidationError."""
        return Item.model_validate(dict(self) | fields)


def normalised(text: str) -> str:
    """Return the text that `chunk_hash` hashes: Unicode NFC, every run of white space as one space, none at the
    ends."""
    if text.isascii() and text.isprintable() and "  " not in text:
        return text.strip(" ")  # a shortcut with the same result, several times faster; it applies to most texts
    return " ".join(unicodedata.normalize("NFC", well_formed(text)).split())


def chunk_hash(text: str) -> str:
    """Return the sha256 of the normalised text in lower-case hex, equal for texts that differ only in spacing."""
    return hashlib.sha256(normalised(text).encode()).hexdigest()


def memory_id(agent_id: str, section: str, hash_of_chunk: str, occurrence: int, user_id: str = OWNER) -> str:
    """Deterministic id (uuid5) from agent, section, chunk hash, occurrence and user.

    `occurrence` counts from 0 the same user's earlier items with this chunk_hash in the same section, so that no id
    reveals another user's items.
    """
    whose = () if user_id == OWNER else (user_id,)
    return str(uuid5(_NAMESPACE, "\n".join((agent_id, section, hash_of_chunk, str(occurrence), *whose))))


def is_id(text: str) -> bool:
    """True for a UUID in its canonical spelling, the form of ids of items."""
    try:
        return len(text) == 36 and str(UUID(text)) == text
    except ValueError:
        return False


def delivery_uri(delivery_id: str, part: str | None = None) -> str:
    """Return the `source_uri` of items created for a delivery: `symbiont:delivery/ID`, or `…/ID#PART`.

    It is an idempotency key: a store writes it once, so a run that is repeated after a crash stores nothing twice. A
    run that writes several items gives each its own `part`, the same in every attempt.
    """
    fragment = "" if part is None else f"#{quote(part, safe='')}"
    return f"{_DELIVERY}{quote(delivery_id, safe='')}{fragment}"


def delivery_key(source_uri: str | None) -> str | None:
    """Return `source_uri` if `delivery_uri` created it, else None."""
    return source_uri if source_uri is not None and source_uri.startswith(_DELIVERY) else None


def is_delivery(source_uri: str | None) -> bool:
    """True if the item is the delivery itself: a `delivery_uri` without a part. An agent's notes about a delivery have
    a part."""
    return delivery_key(source_uri) is not None and "#" not in str(source_uri)


def summary_uri(key: str) -> str:
    """Return the `source_uri` of the summary with this key (`runtime.memory.summary.key`): a collection stores it once
    for each user, whatever its text."""
    return f"{_SUMMARY}{key}"


def is_summary_uri(source_uri: str | None) -> bool:
    """True if `summary_uri` created it."""
    return source_uri is not None and source_uri.startswith(_SUMMARY)


def rfc3339(time: datetime) -> str:
    """Format an aware time as RFC 3339 in UTC, with microseconds only if they are not zero."""
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z")
