"""Converts items to rows and back. Columns to search by are in the clear; text and provenance are sealed."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec
from sqlalchemy import select

from runtime.crypto import MasterKey, SealedBytes
from runtime.database.connection import Database
from runtime.database.schema import item_parts, items
from runtime.database.sealed import Seal
from runtime.database.text import hash_key
from runtime.memory.item import NOTHING_KNOWN, Item, Provenance

META: Final = (
    "memory", "id", "user_id", "agent_id", "project_id", "memory_type", "timestamp", "source_uri", "source_key",
    "chunk_hash", "tags", "part", "position", "subject", "subject_key", "replaces", "retracts", "run_id",
)  # fmt: skip
"""The columns in the clear, in the order in which rows are written and read."""
COLUMNS: Final = (*META, "content")

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TICK: Final = timedelta(microseconds=1)
_ESCAPED: Final = re.compile("[\x00\x1b]")
_ESCAPE: Final = re.compile("\x1b(.)")


class ItemRow(NamedTuple):
    """A row of `items` in the order of `COLUMNS`, with texts as stored."""

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
    content: bytes = b""


class Codec:
    """Converts the rows of one collection memory."""

    def __init__(self, memory: str, key: MasterKey) -> None:
        self.memory = memory
        self._seal = Seal(key, items.c.content)

    def row(self, item: Item, part: int, position: int) -> ItemRow:
        """Return the row of an item that has its memory_id."""
        return ItemRow(
            self.memory,
            item.memory_id,
            written(item.user_id),
            item.agent_id,
            _maybe_written(item.project_id),
            item.memory_type,
            ticks(item.timestamp),
            _maybe_written(item.source_uri),
            hash_key(item.source_uri),
            item.chunk_hash,
            tags_text(item.tags),
            part,
            position,
            _maybe_written(item.subject),
            hash_key(item.subject),
            _maybe_written(item.replaces),
            _maybe_written(item.retracts),
            _maybe_written(item.provenance.run_id),
            self.seal(item),
        )

    def seal(self, item: Item) -> SealedBytes:
        """Seal the item's content: its text and its provenance, if any."""
        content: dict[str, Any] = {"text": item.text}
        if item.source_memory_ids:
            content["of"] = item.source_memory_ids
        if item.provenance is not NOTHING_KNOWN and item.provenance != NOTHING_KNOWN:
            known = item.provenance.__dict__.items()
            content["about"] = {name: value for name, value in known if value is not None and value != ()}
        return self._seal.close(msgspec.json.encode(content), row=self._place(item.memory_id), user_id=item.user_id)

    def item(self, row: Sequence[Any], other_sources: Sequence[str] = ()) -> Item:
        """Return the item of a row and of its other sources. Raises `Unsealable` for content that was changed or
        belongs to another row."""
        (_, memory_id, user, agent, project, kind, time, source, _, chunk_hash, tags, _, _, *more, content) = row
        subject, _, replaces, retracts, _ = more
        user = read(user)
        opened = msgspec.json.decode(self._seal.open(content, row=self._place(memory_id), user_id=user))
        about = opened.get("about")
        # Not validated: it was valid when written, and `verify` compares its hash.
        return Item.model_construct(
            memory_id=memory_id,
            project_id=_maybe_read(project),
            agent_id=agent,
            user_id=user,
            memory_type=kind,
            timestamp=_EPOCH + time * _TICK,
            source_uri=_maybe_read(source),
            other_sources=tuple(sorted(map(read, other_sources))),
            chunk_hash=chunk_hash,
            tags=tags_of(tags),
            text=opened["text"],
            source_memory_ids=tuple(opened.get("of", ())),
            provenance=NOTHING_KNOWN if about is None else Provenance.model_validate(about),
            subject=_maybe_read(subject),
            replaces=_maybe_read(replaces),
            retracts=_maybe_read(retracts),
        )

    def _place(self, memory_id: str) -> str:
        return f"{self.memory}/{memory_id}"


def written(text: str) -> str:
    """Return a text as it is stored in the clear: PostgreSQL takes no NUL."""
    if "\x00" not in text and "\x1b" not in text:
        return text
    return _ESCAPED.sub(lambda found: "\x1b0" if found[0] == "\x00" else "\x1b\x1b", text)


def read(text: str) -> str:
    """Reverse `written`."""
    return _ESCAPE.sub(lambda found: "\x00" if found[1] == "0" else found[1], text) if "\x1b" in text else text


def ticks(time: datetime) -> int:
    """Return microseconds since 1970, UTC."""
    return (time - _EPOCH) // _TICK


def _maybe_written(text: str | None) -> str | None:
    return None if text is None else written(text)


def _maybe_read(text: str | None) -> str | None:
    return None if text is None else read(text)


@lru_cache(maxsize=1024)
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
