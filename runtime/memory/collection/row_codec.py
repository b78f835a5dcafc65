"""Converts items to rows and back. Columns to search by are in the clear; text and provenance are sealed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec
from sqlalchemy import select

from runtime.crypto import SealedBytes
from runtime.database.connection import Database
from runtime.database.keys.ring import KeyRing
from runtime.database.schema import item_parts, items
from runtime.database.sealed import Seal
from runtime.database.text import escaped, hash_key, unescaped
from runtime.memory.item import NOTHING_KNOWN, Item, Provenance
from runtime.memory.store import text_bytes

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TICK: Final = timedelta(microseconds=1)


class ItemRow(NamedTuple):
    """A row of `items`, in the order in which rows are written and read, with texts as stored."""

    memory: str
    id: str
    user_id: str
    agent_id: str
    project_id: str | None
    memory_type: Any
    timestamp: int
    source_uri: str | None
    source_key: str | None
    chunk_hash: str
    tags: str
    part: int
    position: int
    subject: str | None = None
    subject_key: str | None = None
    replaces: str | None = None
    retracts: str | None = None
    run_id: str | None = None
    version: int = 0
    content: bytes = b""


COLUMNS: Final = ItemRow._fields
META: Final = COLUMNS[:-1]
"""The columns in the clear."""


class Codec:
    """Converts the rows of one collection memory."""

    def __init__(self, memory: str, keys: KeyRing) -> None:
        self.memory = memory
        self._seal = Seal(keys, items.c.content)
        self.count = keys.texts.add

    def row(self, item: Item, part: int, position: int, version: int = 0) -> ItemRow:
        """Return the row of an item that has its memory_id. `version`: the number of its changes. It is counted."""
        self.count(item.user_id, text_bytes(item))
        return ItemRow(
            self.memory,
            item.memory_id,
            escaped(item.user_id),
            item.agent_id,
            _escaped_or_none(item.project_id),
            item.memory_type,
            ticks(item.timestamp),
            _escaped_or_none(item.source_uri),
            hash_key(item.source_uri),
            item.chunk_hash,
            tags_text(item.tags),
            part,
            position,
            _escaped_or_none(item.subject),
            hash_key(item.subject),
            _escaped_or_none(item.replaces),
            _escaped_or_none(item.retracts),
            _escaped_or_none(item.provenance.run_id),
            version,
            self.seal(item, version),
        )

    def seal(self, item: Item, version: int) -> SealedBytes:
        """Seal the item's content: its text and its provenance, if any."""
        content: dict[str, Any] = {"text": item.text}
        if item.source_memory_ids:
            content["of"] = item.source_memory_ids
        if item.provenance is not NOTHING_KNOWN and (known := item.provenance.known_fields()):
            content["about"] = known
        row = self._place(item.memory_id)
        return self._seal.close(msgspec.json.encode(content), row=row, user_id=item.user_id, version=version)

    def item(self, row: Sequence[Any], other_sources: Sequence[str] = ()) -> Item:
        """Return the item of a row and of its other sources. Raises `Unsealable` for content that was changed or
        belongs to another row."""
        (_, memory_id, user, agent, project, kind, time, source, _, chunk_hash, tags, _, _, *more, content) = row
        subject, _, replaces, retracts, _, version = more
        user, place = unescaped(user), self._place(memory_id)
        opened = msgspec.json.decode(self._seal.open(content, row=place, user_id=user, version=version))
        about = opened.get("about")
        # Not validated: it was valid when written, and `verify` compares its hash.
        return Item.model_construct(
            memory_id=memory_id,
            project_id=unescaped_or_none(project),
            agent_id=agent,
            user_id=user,
            memory_type=kind,
            timestamp=_EPOCH + time * _TICK,
            source_uri=unescaped_or_none(source),
            other_sources=tuple(sorted(map(unescaped, other_sources))),
            chunk_hash=chunk_hash,
            tags=tags_of(tags),
            text=opened["text"],
            source_memory_ids=tuple(opened.get("of", ())),
            provenance=NOTHING_KNOWN if about is None else Provenance.model_validate(about),
            subject=unescaped_or_none(subject),
            replaces=unescaped_or_none(replaces),
            retracts=unescaped_or_none(retracts),
        )

    def _place(self, memory_id: str) -> str:
        return f"{self.memory}/{memory_id}"


def ticks(time: datetime) -> int:
    """Return microseconds since 1970, UTC."""
    return (time - _EPOCH) // _TICK


def _escaped_or_none(text: str | None) -> str | None:
    return None if text is None else escaped(text)


def unescaped_or_none(text: str | None) -> str | None:
    """Do `unescaped` for a column that may be empty."""
    return None if text is None else unescaped(text)


@lru_cache(maxsize=1024)
def tags_text(tags: tuple[str, ...]) -> str:
    """Return tags as they are stored in the clear."""
    return json.dumps(tags, ensure_ascii=False, separators=(",", ":")) if tags else "[]"


def tags_of(text: str) -> tuple[str, ...]:
    """Reverse `tags_text`."""
    return () if text == "[]" else tuple(json.loads(text))


async def holds(database: Database, memory: str) -> bool:
    """True if the database has anything of this collection memory, even an empty collection. Raises `Unavailable`."""
    query = select(item_parts.c.part).where(item_parts.c.memory == memory).limit(1)
    async with database.read() as connection:
        return (await connection.execute(query)).first() is not None
