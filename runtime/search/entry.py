"""What an index holds of an item, and which of them a search is about."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One item as indexes see it: the universal payload, who said it, and what stands around it.

    `time` is in UTC. Entries of one `group` (a conversation, a day's log) are each other's neighbours in the order of
    `time`, then `order`; an empty group has no neighbours. `part` is what the store reads at once (a file); `line` is
    counted from 1, None where it is not known. `rest` is what else the caller wants back with it, as it was given:
    nothing is looked for in it. `other_sources` say the same as `source` does.
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


@dataclass(frozen=True, slots=True)
class Filter:
    """Which entries are wanted; what is None or empty excludes nothing. Times are aware: `since` included, `until` not.

    `source` is a whole `source_uri`, or another source of the entry. Of `tags_any` an entry has one or more, of
    `tags_all` every one.
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

    def wants(self, entry: IndexEntry) -> bool:
        """Whether an entry passes."""
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
        )
