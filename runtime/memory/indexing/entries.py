"""Converts items to entries of an index and back. An entry carries its whole item, so a hit needs no access to the
store."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from runtime.memory.item import NOTHING_KNOWN, Item
from runtime.memory.store_types import ItemLocation, Part
from runtime.search.entry import IndexEntry


def entries_of(part: Part, items: Sequence[tuple[Item, ItemLocation | None]], *, first: int = 0) -> list[IndexEntry]:
    """Return the entries of a part's items in order, counted from `first`."""
    return [_entry(part, item, place, order) for order, (item, place) in enumerate(items, first)]


def _entry(part: Part, item: Item, place: ItemLocation | None, order: int) -> IndexEntry:
    return IndexEntry(
        id=item.memory_id,
        agent=item.agent_id,
        user=item.user_id,
        project=item.project_id,
        type=item.memory_type,
        time=item.timestamp,
        source=item.source_uri,
        tags=item.tags,
        text=item.text,
        hash=item.chunk_hash,
        author=item.provenance.author,
        group=group_of(part, item),
        order=order,
        part=part.name,
        line=None if place is None else place.line,
        rest=_encode_rest(item, place),
        other_sources=item.other_sources,
        subject=item.subject,
        replaces=item.replaces,
        retracts=item.retracts,
    )


def group_of(part: Part, item: Item) -> str:
    """Return the group of items that are its neighbours: its user, project, subject, and its session or the day's log.

    Long-term items without a session have none: their order in a file has no meaning. Items of another user or subject
    never affect how an item is found or scored.
    """
    whose = repr(item.user_id) if item.project_id is None else f"{item.user_id!r}/{item.project_id!r}"
    if item.subject is not None:
        whose = f"{whose}/{item.project_id is None}/{item.subject!r}"
    if item.provenance.session_id:
        return f"{item.agent_id}/{whose}/{item.provenance.session_id}"
    return f"{part.name}/{whose}" if item.memory_type == "episodic" else ""


def item_of(entry: IndexEntry) -> Item:
    """Return the item as the store gave it."""
    more = _decode_rest(entry.rest).get("item", {})
    return Item(
        memory_id=entry.id,
        project_id=entry.project,
        agent_id=entry.agent,
        user_id=entry.user,
        memory_type=entry.type,  # type: ignore[arg-type]  # it was one when it was put
        timestamp=entry.time,
        source_uri=entry.source,
        other_sources=entry.other_sources,
        tags=entry.tags,
        text=entry.text,
        subject=entry.subject,
        replaces=entry.replaces,
        retracts=entry.retracts,
        **more,
    )


def place_of(entry: IndexEntry) -> ItemLocation | None:
    """Return the item's location when its part was read, or None if unknown."""
    file = _decode_rest(entry.rest).get("file")
    return None if file is None else ItemLocation(file, entry.line)


def _encode_rest(item: Item, place: ItemLocation | None) -> str:
    rest: dict[str, Any] = {}
    more: dict[str, Any] = {}
    if item.source_memory_ids:
        more["source_memory_ids"] = item.source_memory_ids
    if item.provenance is not NOTHING_KNOWN and (known := item.provenance.known_fields()):
        more["provenance"] = known
    if more:
        rest["item"] = more
    if place is not None:
        rest["file"] = place.file
    return json.dumps(rest, ensure_ascii=False, separators=(",", ":")) if rest else ""


def _decode_rest(rest: str) -> dict[str, Any]:
    found = json.loads(rest) if rest else {}
    assert isinstance(found, dict)
    return found
