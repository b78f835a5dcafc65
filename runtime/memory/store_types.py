"""What stores are asked, and what they answer."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict

from dslc.blocks.memory import Memory
from runtime.clock import Clock
from runtime.memory.item import Item, MemoryType

if TYPE_CHECKING:
    from runtime.database.connection import Database


class StorePlace(NamedTuple):
    """The memory to open a store for, where its data is, and its options with their secrets in place."""

    memory: Memory
    path: Path
    """Absolute; unused by a store whose items are rows of the database."""
    database: Database | None
    """Never None for such a store; it outlives the store."""
    clock: Clock
    options: Mapping[str, object]


class Scan(BaseModel):
    """Which items are wanted; what is None or empty excludes nothing."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    agent_id: str | None = None
    user_id: str | None = None
    project_id: str | None = None
    memory_type: MemoryType | None = None
    source_uri: str | None = None
    """The whole of it, or of another source of the item."""
    memory_ids: frozenset[str] = frozenset()
    since: datetime | None = None
    """The earliest time that is wanted (aware)."""
    until: datetime | None = None
    """The first time that is not wanted any more (aware)."""
    tags: frozenset[str] = frozenset()
    """An item must have all of them."""
    tags_any: frozenset[str] = frozenset()
    """An item must have one or more of them."""
    newest_first: bool = False
    limit: int | None = None

    def wants(self, item: Item) -> bool:
        """Whether an item passes; the limit is the scanner's matter."""
        return (
            self.agent_id in (None, item.agent_id)
            and self.user_id in (None, item.user_id)
            and self.project_id in (None, item.project_id)
            and self.memory_type in (None, item.memory_type)
            and (self.source_uri in (None, item.source_uri) or self.source_uri in item.other_sources)
            and (not self.memory_ids or item.memory_id in self.memory_ids)
            and (self.since is None or item.timestamp >= self.since)
            and (self.until is None or item.timestamp < self.until)
            and self.tags.issubset(item.tags)
            and (not self.tags_any or not self.tags_any.isdisjoint(item.tags))
        )


class ItemLocation(NamedTuple):
    """Where an item stands: the file, and its line counted from 1 where files have lines."""

    file: str
    line: int | None


class Position(NamedTuple):
    """An item's place in the order of `Store.newest`: by time, then by id."""

    timestamp: datetime
    memory_id: str


def position_of(item: Item) -> Position:
    """Return where `newest` lists an item; the greatest comes first."""
    return Position(item.timestamp, item.memory_id)


class Part(NamedTuple):
    """What a store reads at once: a file, or all it has of an agent. Its revision changes when what it holds does; its
    name is the only one of the whole store, `AGENT/…`."""

    name: str
    agent_id: str
    revision: str


class Append(NamedTuple):
    """Items that were added at the end of a part, and its revision `before` (None: it was not there) and after."""

    part: Part
    before: str | None
    items: tuple[Item, ...]


Severity = Literal["error", "warning"]


class StoreProblem(NamedTuple):
    """Something in the store that is not as it should be, and why: a file that could not be read and is kept as it is.

    A `warning` is for a person to know; nothing is lost or refused because of it.
    """

    file: str
    message: str
    severity: Severity = "error"
    line: int | None = None
    """Counted from 1, where it is in one."""


class Compaction(NamedTuple):
    """What compacting did: long-term items put where they stay, expired logs or entries deleted, and what had to be
    kept."""

    flushed: int
    deleted: int
    problems: tuple[StoreProblem, ...] = ()


class StoreStats(NamedTuple):
    """`agents`, `files` and their `bytes`; the days of the oldest and newest log, if any; what could not be read."""

    agents: int
    files: int
    bytes: int
    oldest: date | None = None
    newest: date | None = None
    problems: tuple[StoreProblem, ...] = ()


class Upserted(NamedTuple):
    """What an upsert came to: the items that were not there, those that were and say something else about themselves
    now, and how many were there already or came twice."""

    inserted: tuple[Item, ...] = ()
    updated: tuple[Item, ...] = ()
    skipped: int = 0


class Inspection(NamedTuple):
    """What a person reads of one agent's memory: the long-term text and one day's log, None where there is none."""

    agent_id: str
    day: date
    memory: str | None
    log: str | None
    memory_file: str
    """Where it stands: a path, or what else a person calls it where there are no files."""
    log_file: str
