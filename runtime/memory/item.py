"""The universal payload: everything remembered, in whichever store, is an `Item`."""

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
"""The tag that makes a semantic item a learned pattern."""

OWNER = "owner"
"""Whose an item is that names no user."""

_NAMESPACE = uuid5(NAMESPACE_URL, "urn:symbiont:memory")
_SURROGATE = re.compile("[\ud800-\udfff]")
_DELIVERY = "symbiont:delivery/"
_SUMMARY = "symbiont:summary/"


def well_formed(text: str) -> str:
    """The text with U+FFFD in place of each lone surrogate: JSON allows them, UTF-8 does not."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def _well_formed(value: Any) -> Any:
    return well_formed(value) if isinstance(value, str) else value


def _in_utc(time: datetime) -> datetime:
    try:
        return time.astimezone(UTC)
    except OverflowError:
        raise ValueError("in UTC this time is before the year 1 or after the year 9999") from None


Text = Annotated[str, BeforeValidator(_well_formed)]
"""Text that UTF-8 can say."""


def tag_form(tag: str) -> str:
    """A tag as it is kept and compared: in Unicode NFC, as texts are hashed."""
    return unicodedata.normalize("NFC", tag)


RiskTier = Literal["GREEN", "YELLOW", "RED"]


class Provenance(BaseModel):
    """How something came to be remembered; what is not known is None or empty.

    `author`: who said it. `session_id`: the conversation or run it belongs to; what stands before and after it there
    helps to find it. `confidence` from 0 to 1. `git_commit` as git abbreviates it. `sources`: files and addresses that
    show it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    author: Text | None = None
    session_id: Text | None = None
    task: Text | None = None
    confidence: Annotated[float, Field(ge=0, le=1)] | None = None
    risk_tier: RiskTier | None = None
    git_commit: Text | None = None
    sources: tuple[Text, ...] = ()


NOTHING_KNOWN = Provenance()
"""What is known of how most items came to be remembered."""


class Item(BaseModel):
    """One thing remembered. Frozen; `changed` makes a changed copy. As JSON (`model_dump(mode="json")`, times as RFC
    3339 in UTC) it says everything, and `model_validate` of that is the same item.

    `memory_id` is the store's to give and is empty on an item no store has seen. `chunk_hash` is filled in when absent
    and checked when given (ValidationError). `timestamp` is kept in UTC; `tags` are kept sorted, each once.
    `source_uri` says where it is from; one made by `delivery_uri` also makes a second append of it a no-op.
    `other_sources` say the same.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    memory_id: str = ""
    project_id: Text | None = None
    agent_id: str
    user_id: Text = OWNER
    memory_type: MemoryType
    timestamp: Annotated[AwareDatetime, AfterValidator(_in_utc)]
    source_uri: Text | None = None
    other_sources: Annotated[tuple[Text, ...], AfterValidator(lambda sources: tuple(sorted(set(sources))))] = ()
    chunk_hash: str = ""
    tags: Annotated[tuple[Text, ...], AfterValidator(lambda tags: tuple(sorted(set(map(tag_form, tags)))))] = ()
    text: Text
    source_memory_ids: tuple[Text, ...] = ()
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
        """A copy with the uuid5 of where it stands (see `memory_id`)."""
        found = memory_id(self.agent_id, section, self.chunk_hash, occurrence, self.user_id)
        return self.model_copy(update={"memory_id": found})

    def changed(self, **fields: object) -> Item:
        """A copy with these fields, validated. Raises ValidationError."""
        return Item.model_validate(dict(self) | fields)


def normalised(text: str) -> str:
    """What `chunk_hash` hashes: Unicode NFC, every run of white space one space, none at the ends."""
    if text.isascii() and text.isprintable() and "  " not in text:
        return text.strip(" ")  # As it comes out below, and several times sooner: most texts are like this.
    return " ".join(unicodedata.normalize("NFC", well_formed(text)).split())


def chunk_hash(text: str) -> str:
    """sha256 of the normalised text, in lower-case hex: equal for texts that differ in spacing only."""
    return hashlib.sha256(normalised(text).encode()).hexdigest()


def memory_id(agent_id: str, section: str, hash_of_chunk: str, occurrence: int, user_id: str = OWNER) -> str:
    """The uuid5 of an item that has no id of its own: it is where and what it is, and whose.

    `occurrence` counts from 0 the user's items with this chunk_hash before it in the same section: no id tells what
    another user has.
    """
    whose = () if user_id == OWNER else (user_id,)
    return str(uuid5(_NAMESPACE, "\n".join((agent_id, section, hash_of_chunk, str(occurrence), *whose))))


def is_id(text: str) -> bool:
    """Whether it is an id as items have one: a UUID in its usual spelling."""
    try:
        return len(text) == 36 and str(UUID(text)) == text
    except ValueError:
        return False


def delivery_uri(delivery_id: str, part: str | None = None) -> str:
    """The `source_uri` of what a delivery left behind: `symbiont:delivery/ID`, or `…/ID#PART`.

    It is an idempotency key: a store writes it once, so a run that is done again after a crash leaves nothing twice.
    A run that writes several items gives each its own `part`, the same one on every attempt.
    """
    fragment = "" if part is None else f"#{quote(part, safe='')}"
    return f"{_DELIVERY}{quote(delivery_id, safe='')}{fragment}"


def delivery_key(source_uri: str | None) -> str | None:
    """`source_uri` when it is one of `delivery_uri`, else None."""
    return source_uri if source_uri is not None and source_uri.startswith(_DELIVERY) else None


def is_delivery(source_uri: str | None) -> bool:
    """Whether it is what a delivery itself said: the `delivery_uri` without a part. What an agent says about a delivery
    is a part of what it left behind."""
    return delivery_key(source_uri) is not None and "#" not in str(source_uri)


def summary_uri(key: str) -> str:
    """The `source_uri` of the summary with this key (`runtime.memory.summary.key`): a collection keeps it once for a
    user, whatever it says."""
    return f"{_SUMMARY}{key}"


def is_summary_uri(source_uri: str | None) -> bool:
    """Whether it is one of `summary_uri`."""
    return source_uri is not None and source_uri.startswith(_SUMMARY)


def rfc3339(time: datetime) -> str:
    """An aware time in UTC as RFC 3339, with microseconds only when there are some."""
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z")
