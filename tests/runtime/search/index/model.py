"""A model of an index in plain lists and dictionaries, and test steps for both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

import numpy as np
from hypothesis import strategies as st

from runtime.search.entry import ALL_SUBJECTS, EntryFilter, IndexEntry
from tests.runtime.search.index.entries import WHEN, entry, vector

WORDS = ("alpha", "beta", "gamma", "delta", "zebra")
AGENTS = ("a", "b")
PARTS = ("one", "two", "three")


@dataclass
class Plain:
    """The model: entries by id, each in the part that stored it last; revisions of parts; the ids of entries with a
    vector, and with token bits."""

    entries: dict[str, IndexEntry] = field(default_factory=dict)
    parts: dict[str, tuple[str, str]] = field(default_factory=dict)
    embedded: set[str] = field(default_factory=set)
    tokenized: set[str] = field(default_factory=set)

    def put(self, part: str, agent: str, revision: str, entries: Sequence[IndexEntry]) -> tuple[int, int, int]:
        """See `Index.put`."""
        fresh = {one.id: replace(one, part=part) for one in entries}
        gone = [one.id for one in self.entries.values() if one.part == part and one.id not in fresh]
        for identity in gone:
            self.forget(identity)
        changed = self.add(part, agent, revision, list(fresh.values()))
        return changed, len(fresh) - changed, len(gone)

    def grow(self, part: str, agent: str, before: str | None, after: str, entries: Sequence[IndexEntry]) -> bool:
        """See `Index.append`."""
        if before != self.parts.get(part, (None, None))[1]:
            return False
        self.add(part, agent, after, [replace(one, part=part) for one in entries])
        return True

    def add(self, part: str, agent: str, revision: str, entries: Sequence[IndexEntry]) -> int:
        """Put these into the part; return the number of changed entries."""
        self.parts[part] = (agent, revision)
        changed = 0
        for one in entries:
            before = self.entries.get(one.id)
            changed += (
                before is None or replace(before, part=part, line=one.line, order=one.order, rest=one.rest) != one
            )
            if before is None or before.hash != one.hash:
                self.unembed(one.id)
            self.entries[one.id] = one
        return changed

    def drop(self, parts: Sequence[str]) -> int:
        """See `Index.drop`."""
        gone = [one.id for one in self.entries.values() if one.part in parts]
        for identity in gone:
            self.forget(identity)
        for part in parts:
            self.parts.pop(part, None)
        return len(gone)

    def forget(self, identity: str) -> None:
        """Delete one entry."""
        del self.entries[identity]
        self.unembed(identity)

    def unembed(self, identity: str) -> None:
        """Delete the vector and the token bits of one entry."""
        self.embedded.discard(identity)
        self.tokenized.discard(identity)

    def clear(self) -> None:
        """See `Index.clear`."""
        self.entries, self.parts, self.embedded, self.tokenized = {}, {}, set(), set()

    def group(self, one: IndexEntry) -> list[IndexEntry]:
        """Return the entries of its group, in order."""
        if not one.group:
            return [one]
        group = [other for other in self.entries.values() if (other.agent, other.group) == (one.agent, one.group)]
        return sorted(group, key=lambda other: (other.time, other.order))

    def neighbours(self, one: IndexEntry) -> tuple[str | None, str | None]:
        """Return the ids before and after it."""
        group = [None, *(other.id for other in self.group(one)), None]
        at = group.index(one.id)
        return group[at - 1], group[at + 1]

    def hidden(self) -> set[str]:
        """Return the ids of hidden entries."""

        def named(one: IndexEntry, name: str | None) -> bool:
            other = self.entries.get(name or "")
            return other is not None and (other.agent, other.user, other.subject) == (one.agent, one.user, one.subject)

        retractions = [one for one in self.entries.values() if one.retracts is not None]
        retracted = {one.retracts for one in retractions if named(one, one.retracts)}
        replaced = {
            one.replaces for one in self.entries.values() if named(one, one.replaces) and one.id not in retracted
        }
        return {one.id for one in retractions} | {name for name in retracted | replaced if name is not None}

    def wants(self, wanted: EntryFilter, one: IndexEntry) -> bool:
        """True if an entry passes, with regard to hidden ones."""
        return wanted.wants(one) and not (wanted.current and one.id in self.hidden())

    def keyword(self, word: str, wanted: EntryFilter, *, context: bool = True) -> set[str]:
        """Return the ids of all entries with a word. `context`: also of those beside one."""
        found = set()
        for one in self.entries.values():
            beside = self.neighbours(one) if context else ()
            neighbours = [self.entries[other] for other in beside if other is not None]
            if self.wants(wanted, one) and any(word in other.text.split() for other in (one, *neighbours)):
                found.add(one.id)
        return found

    def nearest(self, text: str, wanted: EntryFilter, limit: int) -> list[float]:
        """Return the highest cosines."""
        there = [one for one in self.entries.values() if one.id in self.embedded and self.wants(wanted, one)]
        return sorted((float(np.dot(vector(one.text), vector(text))) for one in there), reverse=True)[:limit]

    def pending(self) -> list[float]:
        """Return the times of entries without a vector, newest first, then of those without token bits."""
        without = self.entries.keys() - self.embedded, self.embedded - self.tokenized
        times = [[self.entries[name].time.timestamp() for name in some] for some in without]
        return [time for some in times for time in sorted(some, reverse=True)]


texts = st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join)
numbers = st.integers(0, 14)
changed = st.one_of(st.none(), st.none(), numbers.map("id{}".format))


@st.composite
def entries_(draw: st.DrawFn) -> list[IndexEntry]:
    """Entries with few ids, so that they collide; time and order depend on the id, so no two are equal."""
    return [
        entry(
            f"id{number}",
            draw(texts),
            agent=draw(st.sampled_from(AGENTS)),
            time=WHEN + timedelta(hours=number // 2),
            order=number % 2,
            type=draw(st.sampled_from(["episodic", "semantic"])),
            user=draw(st.sampled_from(["owner", ""])),
            project=draw(st.sampled_from([None, "", "p"])),
            source=draw(st.sampled_from([None, "s"])),
            tags=tuple(draw(st.sets(st.sampled_from(["t", "u"])))),
            author=draw(st.sampled_from([None, "Ann", "Bob"])),
            group=draw(st.sampled_from(["", "g", "h"])),
            line=draw(st.sampled_from([None, 1, 2])),
            subject=draw(st.sampled_from([None, None, "", "x"])),
            replaces=draw(changed),
            retracts=draw(changed),
        )
        for number in draw(st.lists(numbers, max_size=6))
    ]


steps = st.one_of(
    st.tuples(st.just("put"), st.sampled_from(PARTS), st.sampled_from(AGENTS), entries_()),
    st.tuples(st.just("grow"), st.sampled_from(PARTS), st.booleans(), entries_()),
    st.tuples(st.just("drop"), st.lists(st.sampled_from(PARTS), max_size=2)),
    st.tuples(st.just("embed"), st.integers(1, 9), st.booleans()),
    st.tuples(st.just("open")),
    st.tuples(st.just("clear")),
)

filters = st.builds(
    EntryFilter,
    agent=st.sampled_from([None, "a", "b"]),
    project=st.sampled_from([None, None, "", "p"]),
    type=st.sampled_from([None, None, "semantic"]),
    user=st.sampled_from([None, None, "", "owner"]),
    source=st.sampled_from([None, None, "s"]),
    tags_any=st.frozensets(st.sampled_from(["t", "u", "v"]), max_size=2),
    tags_all=st.frozensets(st.sampled_from(["t", "u"]), max_size=2),
    since=st.one_of(st.none(), numbers.map(lambda number: WHEN + timedelta(hours=number))),
    until=st.one_of(st.none(), numbers.map(lambda number: WHEN + timedelta(hours=number))),
    subject=st.sampled_from([ALL_SUBJECTS, ALL_SUBJECTS, None, "", "x"]),
    changes_of=st.frozensets(numbers.map("id{}".format), max_size=1),
    current=st.booleans(),
)
