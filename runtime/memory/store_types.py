"""Arguments and results of stores."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from dslc.blocks.memory import Memory
from runtime.clock import Clock
from runtime.errors import UsageError
from runtime.memory.item import Item, MemoryType
from runtime.search.entry import ALL_SUBJECTS, WantedSubject

if TYPE_CHECKING:
    from runtime.database.connection import Database


class StorePlace(NamedTuple):
    """The memory to open a store for, where its data is, and its options with secrets resolved."""

    memory: Memory
    path: Path
    """Absolute; unused by a store whose items are rows of the database."""
    database: Database | None
    """Never None for such a store; it outlives the store."""
    clock: Clock
    options: Mapping[str, object]


def check_options(model: type[BaseModel], options: Mapping[str, object], gives: str) -> None:
    """Raise UsageError for options that a row of a table, with this model, does not take. `gives`: which block gives
    them to what."""
    try:
        model.model_validate(dict(options))
    except ValidationError as error:
        names = (".".join(map(str, problem["loc"])) for problem in error.errors(include_input=False))
        raise UsageError(f"{gives} options it does not take", hint=", ".join(names)) from None


class Scan(BaseModel):
    """Criteria of items; a field that is None or empty excludes nothing."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    agent_id: str | None = None
    user_id: str | None = None
    project_id: str | None = None
    memory_type: MemoryType | None = None
    source_uri: str | None = None
    """The whole `source_uri`, or one of the item's other sources."""
    memory_ids: frozenset[str] = frozenset()
    since: datetime | None = None
    """The earliest wanted time (aware)."""
    until: datetime | None = None
    """The end of the wanted time (aware), exclusive."""
    tags: frozenset[str] = frozenset()
    """An item must have all of them."""
    tags_any: frozenset[str] = frozenset()
    """An item must have one or more of them."""
    subject: WantedSubject = ALL_SUBJECTS
    """One subject, as `redacted_subject` returns it, or None: only items without one."""
    run_id: str | None = None
    """The run that wrote it."""
    chunk_hash: str | None = None
    changes_of: frozenset[str] = frozenset()
    """Only items that replace or retract one of these ids."""
    changes: bool = False
    """Only items that replace or retract another one."""
    newest_first: bool = False
    limit: int | None = None

    def wants(self, item: Item) -> bool:
        """True if an item passes; the limit is not considered."""
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
            and self.subject in (ALL_SUBJECTS, item.subject)
            and self.run_id in (None, item.provenance.run_id)
            and self.chunk_hash in (None, item.chunk_hash)
            and (not self.changes_of or not self.changes_of.isdisjoint((item.replaces, item.retracts)))
            and (not self.changes or item.replaces is not None or item.retracts is not None)
        )


class ItemLocation(NamedTuple):
    """The file of an item, and its line counted from 1 if the file has lines."""

    file: str
    line: int | None


class Position(NamedTuple):
    """An item's place in the order of `Store.newest`: by time, then by id."""

    timestamp: datetime
    memory_id: str


def position_of(item: Item) -> Position:
    """Return where `newest` lists an item; the greatest comes first."""
    return Position(item.timestamp, item.memory_id)


UNREADABLE: Final = "unreadable"
"""The revision of the only part that is listed for an agent whose folder cannot be read at the moment."""


class Part(NamedTuple):
    """The unit in which a store is read: a file, or all items of an agent. Its revision changes with its content; its
    name, `AGENT/…`, is unique in the store."""

    name: str
    agent_id: str
    revision: str


class Changes(NamedTuple):
    """The parts that changed since an earlier look, as they are now, and the names of parts that are gone, or may never
    have existed. `mark`: what the next look begins at."""

    mark: str
    parts: tuple[Part, ...] = ()
    gone: tuple[str, ...] = ()


class Append(NamedTuple):
    """Items that were added at the end of a part, and its revisions `before` (None: it did not exist) and after."""

    part: Part
    before: str | None
    items: tuple[Item, ...]


Severity = Literal["error", "warning"]


class StoreProblem(NamedTuple):
    """A problem in the store and its cause, such as an unreadable file, which is left as it is.

    A `warning` is for a person to know; nothing is lost or refused because of it.
    """

    file: str
    message: str
    severity: Severity = "error"
    line: int | None = None
    """Counted from 1, if the problem is in one line."""


class Compaction(NamedTuple):
    """The result of a compaction: bullets promoted, expired logs or entries deleted, and what could not be deleted."""

    flushed: int
    deleted: int
    problems: tuple[StoreProblem, ...] = ()


class StoreStats(NamedTuple):
    """Numbers of `agents` and `files`, their `bytes`, the days of the oldest and newest log if any, and what could not
    be read."""

    agents: int
    files: int
    bytes: int
    oldest: date | None = None
    newest: date | None = None
    problems: tuple[StoreProblem, ...] = ()


class UpsertResult(NamedTuple):
    """The result of an upsert: new items, changed items, and the number of those that existed unchanged or came
    twice."""

    inserted: tuple[Item, ...] = ()
    updated: tuple[Item, ...] = ()
    skipped: int = 0


class Inspection(NamedTuple):
    """One agent's memory as text: long-term memory and one day's log, each None if absent."""

    agent_id: str
    day: date
    memory: str | None
    log: str | None
    memory_file: str
    """A path, or a description in a store without files."""
    log_file: str
