"""One record: a JSON file named by its time and id, with the fields of the second design and the other fields of an
item.

Its checksum is `sha256:` and the hex of sha256 over its canonical JSON without `UNSIGNED`: keys sorted, no white space,
every character beyond ASCII escaped. `STATUS`, the state of copies, is the only part that is written again.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any, NamedTuple
from uuid import NAMESPACE_URL, uuid5

from pydantic import ValidationError

from runtime.memory.item import PATTERN, Item, MemoryType, Provenance, idempotency_key, rfc3339

STATUS = ("store_location", "remote_store_attempted", "remote_store_error")
UNSIGNED = frozenset({"checksum", *STATUS})
NOT_CONFIGURED = "not_configured"
PENDING = "pending"
"""The `remote_store_error` of a record that was not yet tried to be sent."""
LARGEST = 64 * 1024 * 1024
"""Maximum bytes of a file that is read as a record."""

_NAME = re.compile(
    r"([0-9]{4})([0-9]{2})([0-9]{2})_[0-9]{6}_"
    r"([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\.json"
)
_DELIVERIES = uuid5(NAMESPACE_URL, "urn:symbiont:records")
_TYPES = {"semantic": "fact", "procedural": "procedure", "episodic": "episode"}
MEMORY_TYPES: Mapping[str, MemoryType] = {
    "pattern": "semantic",
    "fact": "semantic",
    "procedure": "procedural",
    "episode": "episodic",
}


class DamagedRecord(Exception):  # noqa: N818 - it says what is the case
    """The file is not a complete, unchanged record; the text says why."""


class Name(NamedTuple):
    """The parts of a record's name."""

    day: date
    id: str


class Record(NamedTuple):
    """The fields of a record's file, including those of later versions, and its item."""

    fields: dict[str, Any]
    item: Item


def stamp(time: datetime) -> str:
    """Format the beginning of names: `YYYYMMDD_HHMMSS` in UTC."""
    at = time.astimezone(UTC)
    return f"{at.year:04d}{at.month:02d}{at.day:02d}_{at.hour:02d}{at.minute:02d}{at.second:02d}"


def name_of(item: Item) -> str:
    """Return the file name of an item that has its id."""
    return f"{stamp(item.timestamp)}_{item.memory_id}.json"


def read_name(name: str) -> Name | None:
    """Parse a record's name; None for any other name."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    try:
        return Name(date(int(match[1]), int(match[2]), int(match[3])), match[4])
    except ValueError:
        return None


def fixed_id(item: Item) -> str | None:
    """Return the fixed id of an item with an idempotency key, so that it is found again; None for other items."""
    key = idempotency_key(item.source_uri)
    return None if key is None else str(uuid5(_DELIVERIES, f"{item.agent_id}\n{key}"))


def type_of(item: Item) -> str:
    """Return `pattern`, `fact`, `procedure` or `episode`."""
    return "pattern" if item.memory_type == "semantic" and PATTERN in item.tags else _TYPES[item.memory_type]


def fields_of(item: Item, gates: Mapping[str, str], *, remote: bool) -> dict[str, Any]:
    """Return the record of an item that has its id. `remote`: True if it is to be sent."""
    about = item.provenance
    fields: dict[str, Any] = {
        "id": item.memory_id,
        "type": type_of(item),
        "summary": item.text,
        "sources": list(about.sources),
        "date": rfc3339(item.timestamp),
        "tags": list(item.tags),
        "task": about.task,
        "confidence": about.confidence,
        "session_id": about.session_id,
        "risk_tier": about.risk_tier,
        "git_commit": about.git_commit,
        "checksum": "",
        "store_location": "local",
        "remote_store_attempted": False,
        "remote_store_error": PENDING if remote else NOT_CONFIGURED,
        "author": about.author,
        "gates": dict(gates),
        "project_id": item.project_id,
        "agent_id": item.agent_id,
        "user_id": item.user_id,
        "memory_type": item.memory_type,
        "source_uri": item.source_uri,
        "chunk_hash": item.chunk_hash,
        "source_memory_ids": list(item.source_memory_ids),
    }
    if item.other_sources:
        fields["other_sources"] = list(item.other_sources)
    later = {
        "run_id": about.run_id,
        "said_by": about.said_by,
        "subject": item.subject,
        "replaces": item.replaces,
        "retracts": item.retracts,
    }
    fields |= {name: value for name, value in later.items() if value is not None}
    fields["checksum"] = checksum_of(fields)
    return fields


def checksum_of(fields: Mapping[str, Any]) -> str:
    """Return the checksum for a record of these fields."""
    signed = {name: value for name, value in fields.items() if name not in UNSIGNED}
    canonical = json.dumps(signed, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return f"sha256:{hashlib.sha256(canonical.encode()).hexdigest()}"


def encode(fields: Mapping[str, Any]) -> bytes:
    """Return the content of a record's file, readable for people."""
    try:
        return (json.dumps(fields, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()
    except UnicodeEncodeError:
        return (json.dumps(fields, indent=2, allow_nan=False) + "\n").encode()


def decode(name: str, agent_id: str, data: bytes | None) -> Record:
    """Parse the file of this name in this agent's folder. Raises DamagedRecord, whose text never quotes the content."""
    fields = _fields(data)
    known, own = read_name(name), fields.get("id")
    if not isinstance(own, str) or not own:
        raise DamagedRecord("it has no id")
    if known is None or own != known.id:
        raise DamagedRecord("its id is not the one in its name")
    given = fields.get("checksum")
    if not isinstance(given, str):
        raise DamagedRecord("it has no checksum")
    if given != _checksum(fields):
        raise DamagedRecord("its checksum is not that of its content: it was changed after it was written")
    if fields.get("agent_id", agent_id) != agent_id:
        raise DamagedRecord("it belongs to another agent")
    try:
        item = _item(fields, agent_id)
    except (ValidationError, KeyError, TypeError, ValueError, OverflowError):
        raise DamagedRecord("this version cannot read its fields") from None
    if name != name_of(item):
        raise DamagedRecord("its date is not the one in its name")
    return Record(fields, item)


def _fields(data: bytes | None) -> dict[str, Any]:
    if data is None:
        raise DamagedRecord("it is missing")
    if not data.strip(b"\0 \t\r\n"):
        raise DamagedRecord("it is empty")
    try:
        fields = json.loads(data.decode(), object_pairs_hook=_once, parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise DamagedRecord("it is incomplete: its content is not JSON") from None
    if not isinstance(fields, dict):
        raise DamagedRecord("its content is not a JSON object")
    return fields


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("it has a duplicate key")
    return found


def _no_number(_: str) -> float:
    raise ValueError("no JSON number")


def _checksum(fields: Mapping[str, Any]) -> str | None:
    try:
        return checksum_of(fields)
    except (ValueError, RecursionError):
        return None


def _item(fields: Mapping[str, Any], agent_id: str) -> Item:
    """Return the item, deriving fields that the record lacks, as records of the second design do."""
    when = datetime.fromisoformat(fields["date"])
    known = {name: fields.get(name) for name in Provenance.model_fields}
    return Item.model_validate(
        {
            "memory_id": fields["id"],
            "project_id": fields.get("project_id"),
            "agent_id": agent_id,
            "user_id": "owner" if fields.get("user_id") is None else fields["user_id"],
            "memory_type": fields.get("memory_type") or MEMORY_TYPES[fields["type"]],
            "timestamp": when if when.tzinfo is not None else when.replace(tzinfo=UTC),
            "source_uri": fields.get("source_uri"),
            "other_sources": fields.get("other_sources") or (),
            "chunk_hash": fields.get("chunk_hash") or "",
            "tags": fields.get("tags") or (),
            "text": fields["summary"],
            "source_memory_ids": fields.get("source_memory_ids") or (),
            "provenance": known | {"sources": known["sources"] or ()},
            "subject": fields.get("subject"),
            "replaces": fields.get("replaces"),
            "retracts": fields.get("retracts"),
        }
    )
