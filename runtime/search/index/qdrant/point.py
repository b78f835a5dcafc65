"""The point of an entry in Qdrant: its id, its payload, and filters."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final
from uuid import NAMESPACE_URL, UUID, uuid5

from runtime.search.entry import ALL_SUBJECTS, EntryFilter, IndexEntry

if TYPE_CHECKING:
    from qdrant_client import models

INDEXED: Final = {
    **dict.fromkeys(("project_id", "memory_type", "tags"), "keyword"),
    "timestamp": "datetime",
    **dict.fromkeys(("chunk_hash", "agent_id", "user_id", "source_uri", "other_sources", "subject"), "keyword"),
}
"""The filtered fields of a payload, each with the kind of its payload index."""

_NAMESPACE = uuid5(NAMESPACE_URL, "urn:symbiont:index")


def point_id(identity: str) -> str:
    """Return the id of an entry's point. Qdrant takes numbers and UUIDs; any other text becomes its uuid5."""
    try:
        if str(UUID(identity)) == identity:
            return identity
    except ValueError:
        pass
    return str(uuid5(_NAMESPACE, identity))


def payload_of(entry: IndexEntry) -> dict[str, Any]:
    """Return the universal payload without None, with the author. The item's location on this machine is not in it."""
    payload: dict[str, Any] = {
        "memory_id": entry.id,
        "project_id": entry.project,
        "agent_id": entry.agent,
        "user_id": entry.user,
        "memory_type": entry.type,
        "timestamp": _rfc3339(entry.time),
        "source_uri": entry.source,
        "other_sources": list(entry.other_sources) or None,
        "chunk_hash": entry.hash,
        "tags": list(entry.tags),
        "text": entry.text,
        "author": entry.author,
        "subject": entry.subject,
        "replaces": entry.replaces,
        "retracts": entry.retracts,
    }
    return {**more_of(entry.rest), **{name: value for name, value in payload.items() if value is not None}}


def filter_of(wanted: EntryFilter, hidden: Sequence[str] = ()) -> models.Filter | None:
    """Return the filter for Qdrant, without the points `hidden`; None: no filter. Which entries are hidden, only the
    index's own file knows."""
    from qdrant_client import models

    said = {
        "agent_id": wanted.agent,
        "project_id": wanted.project,
        "memory_type": wanted.type,
        "user_id": wanted.user,
    }
    must: list[models.Condition] = [_is(name, value) for name, value in said.items() if value is not None]
    if wanted.source is not None:
        must.append(models.Filter(should=[_is(name, wanted.source) for name in ("source_uri", "other_sources")]))
    must += [_is("tags", tag) for tag in sorted(wanted.tags_all)]
    if wanted.tags_any:
        must.append(models.FieldCondition(key="tags", match=models.MatchAny(any=sorted(wanted.tags_any))))
    if wanted.since is not None or wanted.until is not None:
        span = models.DatetimeRange(gte=wanted.since, lt=wanted.until)
        must.append(models.FieldCondition(key="timestamp", range=span))
    if wanted.subject is None:
        must.append(models.IsEmptyCondition(is_empty=models.PayloadField(key="subject")))
    elif wanted.subject is not ALL_SUBJECTS:
        must.append(_is("subject", str(wanted.subject)))
    if wanted.changes_of:
        either = models.MatchAny(any=sorted(wanted.changes_of))
        names = ("replaces", "retracts")
        must.append(models.Filter(should=[models.FieldCondition(key=name, match=either) for name in names]))
    must_not: list[models.Condition] | None = [models.HasIdCondition(has_id=list(hidden))] if hidden else None
    return models.Filter(must=must, must_not=must_not) if must or must_not else None


def among(wanted: EntryFilter, points: list[str]) -> models.Filter:
    """Return the filter of `filter_of`, limited to these points."""
    from qdrant_client import models

    conditions: list[Any] = [models.HasIdCondition(has_id=list(points))]
    found = filter_of(wanted)
    return models.Filter(must=[*conditions, *(found.must if found is not None and found.must else [])])


def _is(name: str, value: str) -> models.FieldCondition:
    from qdrant_client import models

    return models.FieldCondition(key=name, match=models.MatchValue(value=value))


def _rfc3339(time: datetime) -> str:
    return time.isoformat().replace("+00:00", "Z")


def more_of(rest: str) -> dict[str, Any]:
    """Return further fields of an item, such as `source_memory_ids`, which are stored in the entry as JSON."""
    try:
        found = json.loads(rest) if rest else None
    except ValueError:
        return {}
    item = found.get("item") if isinstance(found, dict) else None
    return item if isinstance(item, dict) else {}
