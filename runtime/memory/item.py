"""The universal payload: everything remembered, in any store, is an `Item`."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import quote
from uuid import NAMESPACE_URL, UUID, uuid5

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    FailFast,
    Field,
    model_validator,
)

from dslc.blocks.values.names import NAME_RULE, is_name
from runtime.memory.errors import RefusedItem

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
_RUN = f"{RESERVED}run/"
_RETRACTION = f"{RESERVED}retraction/"
_IDEMPOTENT = (_DELIVERY, _RUN, _RETRACTION)
_SUMMARY = f"{RESERVED}summary/"


def well_formed(text: str) -> str:
    """Replace each lone surrogate by U+FFFD: JSON allows them, UTF-8 does not."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def _replace_surrogates(value: Any) -> Any:
    return well_formed(value) if isinstance(value, str) else value


def _in_utc(time: datetime) -> datetime:
    try:
        return time.astimezone(UTC)
    except OverflowError:
        raise ValueError("in UTC this time is before the year 1 or after the year 9999") from None


ItemText = Annotated[str, BeforeValidator(_replace_surrogates)]
"""A text that UTF-8 can encode."""

_Texts = Annotated[tuple[ItemText, ...], FailFast()]


def from_delivery(webhook: str | None = None) -> str:
    """Return the mark of a text that was written by a run which a delivery woke: it may be a stranger's."""
    return f"from a delivery of {webhook}" if webhook else "from a delivery"


def tag_form(tag: str) -> str:
    """Return a tag as it is stored and compared: in Unicode NFC, as texts are hashed."""
    return unicodedata.normalize("NFC", tag)


RiskTier = Literal["GREEN", "YELLOW", "RED"]

SaidBy = Literal["person", "agent", "tool", "payload"]
"""Who said an item: a person, an agent, a client's call of a tool, or the sender of a webhook's payload."""


class Provenance(BaseModel):
    """The origin of an item; unknown fields are None or empty.

    `author`: who said it. `session_id`: the conversation or run that it belongs to; its neighbours there help to find
    it. `confidence`: 0 to 1. `git_commit`: as git abbreviates it. `sources`: files and addresses that prove it.
    `run_id`: the run that wrote it. `said_by`: where the text comes from.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    author: ItemText | None = None
    session_id: ItemText | None = None
    task: ItemText | None = None
    confidence: Annotated[float, Field(ge=0, le=1)] | None = None
    risk_tier: RiskTier | None = None
    git_commit: ItemText | None = None
    sources: _Texts = ()
    run_id: ItemText | None = None
    said_by: SaidBy | None = None

    def known_fields(self) -> dict[str, Any]:
        """Return the fields that are known, by name."""
        return {name: value for name, value in self.__dict__.items() if value is not None and value != ()}


NOTHING_KNOWN = Provenance()
"""The provenance of most items."""


class Item(BaseModel):
    """One remembered item. Frozen; `with_fields` returns a modified copy. Its JSON (`model_dump(mode="json")`, times as
    RFC 3339 in UTC) is complete: `model_validate` returns the same item.

    `memory_id` is given by the store and empty before that. `chunk_hash` is computed if absent and checked if given
    (ValidationError). `timestamp` is in UTC; `tags` are sorted and unique. `source_uri`: the origin; a second append
    with an idempotency key (`idempotency_key`) does nothing. `other_sources`: further origins of the same text.

    `subject`: the subject of the keyed thread that it belongs to; None for all other items. `replaces`: the memory_id
    of the older item that it supersedes; `retracts`: that of an item that it withdraws. Both have effect only on items
    of the same agent, user and subject (see `runtime.memory.succession`).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    memory_id: str = ""
    project_id: ItemText | None = None
    agent_id: str
    user_id: ItemText = OWNER
    memory_type: MemoryType
    timestamp: Annotated[AwareDatetime, AfterValidator(_in_utc)]
    source_uri: ItemText | None = None
    other_sources: Annotated[_Texts, AfterValidator(lambda sources: tuple(sorted(set(sources))))] = ()
    chunk_hash: str = ""
    tags: Annotated[_Texts, AfterValidator(lambda tags: tuple(sorted(set(map(tag_form, tags)))))] = ()
    text: ItemText
    source_memory_ids: _Texts = ()
    provenance: Provenance = NOTHING_KNOWN
    subject: ItemText | None = None
    replaces: ItemText | None = None
    retracts: ItemText | None = None

    @model_validator(mode="before")
    @classmethod
    def _hash_text(cls, data: Any) -> Any:
        if not isinstance(data, dict) or not isinstance(data.get("text"), str):
            return data
        expected = chunk_hash(data["text"])
        if data.get("chunk_hash") not in {None, "", expected}:
            raise ValueError("chunk_hash is not the hash of text")
        return data | {"chunk_hash": expected}

    def with_id(self, section: str, occurrence: int) -> Item:
        """Return a copy with the uuid5 of its position (see `memory_id`)."""
        found = memory_id(self.agent_id, section, occurrence, self.twins)
        return self.model_copy(update={"memory_id": found})

    @property
    def twins(self) -> Twins:
        """Return the fields that it shares with items from which only an occurrence distinguishes it."""
        return Twins(self.chunk_hash, self.user_id, self.subject, self.replaces)

    def with_fields(self, **fields: object) -> Item:
        """Return a validated copy with these fields. Raises ValidationError."""
        return Item.model_validate(dict(self) | fields)


def normalised(text: str) -> str:
    """Return the text that `chunk_hash` hashes: Unicode NFC, every run of white space as one space, none at the
    ends."""
    if text.isascii() and text.isprintable() and "  " not in text:
        return text.strip(" ")  # a shortcut with the same result, several times faster; it applies to most texts
    return " ".join(unicodedata.normalize("NFC", well_formed(text)).split())


def delivery_origin(item: Item) -> str | None:
    """Return the mark of an item from a delivery, for contexts and hits; None for other items."""
    author = item.provenance.author or ""
    if author.startswith(from_delivery()):
        return author
    return from_delivery() if is_delivery(item.source_uri) else None


def chunk_hash(text: str) -> str:
    """Return the sha256 of the normalised text in lower-case hex, equal for texts that differ only in spacing."""
    return hashlib.sha256(normalised(text).encode()).hexdigest()


def valid_agent(agent_id: str) -> str:
    """Return the valid name of an agent, which is also the name of a folder. Raises RefusedItem if it is invalid."""
    if not is_name(agent_id):
        raise RefusedItem(f"{agent_id[:80]!r} is not a valid name of an agent", hint=NAME_RULE)
    return agent_id


class Twins(NamedTuple):
    """Common fields of items that only their occurrence in a section distinguishes.

    With user and subject, no id reveals another one's items. With `replaces`, an item that gives a fact its earlier
    text again keeps its id when the earlier item is deleted.
    """

    chunk_hash: str
    user_id: str = OWNER
    subject: str | None = None
    replaces: str | None = None


def memory_id(agent_id: str, section: str, occurrence: int, twins: Twins) -> str:
    """Deterministic id (uuid5) from agent, section, chunk hash, occurrence, user, subject and replaced item.

    `occurrence` counts from 0 the earlier `twins` in the same section.
    """
    more: list[str] = []
    if twins.user_id != OWNER:
        more = [twins.user_id]
    if twins.subject is not None or twins.replaces is not None:
        more = [json.dumps(twins[1:])]
    return str(uuid5(_NAMESPACE, "\n".join((agent_id, section, twins.chunk_hash, str(occurrence), *more))))


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


def run_uri(run_id: str, key: str) -> str:
    """Return the `source_uri` of the item that a call in a run writes, `symbiont:run/RUN#KEY`, an idempotency key.
    `key`: of the call within the run, the same on every attempt."""
    return f"{_RUN}{quote(run_id, safe='')}#{quote(key, safe='')}"


def retraction_uri(memory_id: str) -> str:
    """Return the `source_uri` of the retraction of this item, an idempotency key: one retraction is enough."""
    return f"{_RETRACTION}{memory_id}"


def idempotency_key(source_uri: str | None) -> str | None:
    """Return `source_uri` if a store writes it only once (`delivery_uri`, `run_uri`, `retraction_uri`), else None."""
    return source_uri if source_uri is not None and source_uri.startswith(_IDEMPOTENT) else None


def is_delivery(source_uri: str | None) -> bool:
    """True if the item is the delivery itself: a `delivery_uri` without a part. An agent's notes about a delivery have
    a part."""
    return source_uri is not None and source_uri.startswith(_DELIVERY) and "#" not in source_uri


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
