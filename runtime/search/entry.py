"""The entry of an index for an item, and the filter of a search."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Final


class Subjects(Enum):
    """A wanted subject that is neither one subject nor None."""

    ALL = "all"


ALL_SUBJECTS: Final = Subjects.ALL
"""Items of every subject and those without one."""

WantedSubject = str | Subjects | None
"""One subject, `ALL_SUBJECTS`, or None: only items without a subject."""


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One item in an index: the universal payload, its author, and its position among others.

    `time` is in UTC. Entries of one `group` (a conversation, a day's log) are neighbours in the order of `time`, then
    `order`; an empty group has none. `part` is the store's unit of reading (a file); `line` is counted from 1, None if
    unknown. `rest` is returned to the caller unchanged and not searched. `other_sources` are further sources of the
    same text. `subject`, `replaces` and `retracts` are those of the item; an index hides entries as
    `runtime.memory.succession` describes.
    """

    id: str
    agent: str
    user: str
    project: str | None
    type: str
    time: datetime
    source: str | None
    tags: tuple[str, ...]
    text: str
    hash: str
    author: str | None
    group: str
    order: int
    part: str
    line: int | None = None
    rest: str = ""
    other_sources: tuple[str, ...] = ()
    subject: str | None = None
    replaces: str | None = None
    retracts: str | None = None


@dataclass(frozen=True, slots=True)
class EntryFilter:
    """Criteria of entries; a field that is None or empty excludes nothing. Times are aware: `since` inclusive,
    `until` exclusive.

    `source` is the whole `source_uri` or another source of the entry. An entry has at least one of `tags_any`, and all
    of `tags_all`. `changes_of`: only entries that replace or retract one of these ids. `current`: without hidden
    entries, see `runtime.memory.succession`.
    """

    agent: str | None = None
    project: str | None = None
    type: str | None = None
    user: str | None = None
    source: str | None = None
    tags_any: frozenset[str] = frozenset()
    tags_all: frozenset[str] = frozenset()
    since: datetime | None = None
    until: datetime | None = None
    subject: WantedSubject = ALL_SUBJECTS
    changes_of: frozenset[str] = frozenset()
    current: bool = False

    def wants(self, entry: IndexEntry) -> bool:
        """True if an entry passes. Other entries decide about `current`, which is not considered."""
        return (
            self.agent in (None, entry.agent)
            and self.project in (None, entry.project)
            and self.type in (None, entry.type)
            and self.user in (None, entry.user)
            and (self.source in (None, entry.source) or self.source in entry.other_sources)
            and (not self.tags_any or not self.tags_any.isdisjoint(entry.tags))
            and self.tags_all.issubset(entry.tags)
            and (self.since is None or entry.time >= self.since)
            and (self.until is None or entry.time < self.until)
            and self.subject in (ALL_SUBJECTS, entry.subject)
            and (not self.changes_of or not self.changes_of.isdisjoint((entry.replaces, entry.retracts)))
        )


EVERY_ENTRY: Final = EntryFilter()
"""The filter that every entry passes."""
