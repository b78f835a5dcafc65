"""Facts about all entries in memory: one column of numbers each, by key, so that a filter is a few operations on
whole columns."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from runtime.search.dependence import size_with_context
from runtime.search.entry import ALL_SUBJECTS, EntryFilter
from runtime.search.index.embedded.schema import Content, microseconds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Keys = NDArray[np.int64]
    Mask = NDArray[np.bool_]

QUESTION_MARKS = "?？؟"
"""Marks of Latin, Chinese and Arabic scripts and those derived from them."""

_FIRST = 1024
_CODED = ("agent", "user", "project", "type", "source", "subject")
_NAMING = ("replaces", "retracts")
_EMPTIED = (
    "id",
    *_CODED,
    *_NAMING,
    "part",
    "time",
    "order",
    "author",
    "group",
    "before",
    "after",
    "text_size",
    "about_size",
)
_HANDLE = 32  # the low bits of a handle; the bits above contain the time at which its key was assigned
_lives = count(1)


class Rows:
    """Columns by key. Key 0 is not an entry: it represents a missing neighbour and has no words.

    Ids and names are compared by Python's 64-bit hash, which differs in every process: collisions are improbable and
    cannot be provoked. `author` is a number in `authors`, 0 for none; `before` and `after` are the keys of the
    neighbours; `text_size` and `about_size` count words. `end` is the first key that was never used.
    """

    def __init__(self) -> None:
        self.id = _numbers(_FIRST)
        self.agent, self.user, self.project, self.type, self.source = (_numbers(_FIRST) for _ in range(5))
        self.subject, self.replaces, self.retracts = (_numbers(_FIRST) for _ in range(3))
        self.author, self.group, self.part, self.time, self.order = (_numbers(_FIRST) for _ in range(5))
        self.before, self.after, self.text_size, self.about_size = (_numbers(_FIRST) for _ in range(4))
        # Handles of a deleted index are invalid in the one that replaces it.
        self.generation = _numbers(_FIRST) + (next(_lives) % 2**14 << 16)
        self.alive: Mask = np.zeros(_FIRST, np.bool_)
        self.embedded: Mask = np.zeros(_FIRST, np.bool_)
        self.tokenized: Mask = np.zeros(_FIRST, np.bool_)
        self.asks: Mask = np.zeros(_FIRST, np.bool_)
        self.authors: list[str] = []
        self.end = 1
        self._author_numbers: dict[str | None, int] = {None: 0}
        self._size: Keys | None = None
        self._hidden: Keys | None = None

    def new_keys(self, count: int) -> list[int]:
        """Return free keys, the lowest first; they are taken when they are `put`."""
        free: list[int] = (np.flatnonzero(~self.alive[1 : self.end])[:count] + 1).tolist()
        return [*free, *range(self.end, self.end + count - len(free))]

    def put(
        self,
        keys: Sequence[int],
        ids: Sequence[str],
        contents: Sequence[Content],
        parts: Sequence[int],
        orders: Sequence[int],
        asking: Sequence[bool],
        *,
        link: bool = True,
    ) -> None:
        """Record entries under these keys. Without `link`, their neighbour links are left to `link_all_neighbours`."""
        if not keys:
            return
        at = np.array(keys, np.int64)
        self._reserve(int(at.max()))
        columns: Any = Content._make(zip(*contents, strict=True))
        touched = self.group[at]
        self.id[at] = list(map(hash, ids))
        for name in _CODED:
            getattr(self, name)[at] = list(map(hash, getattr(columns, name)))
        for name in _NAMING:
            getattr(self, name)[at] = [hash(named) if named is not None else 0 for named in getattr(columns, name)]
        self.time[at], self.part[at], self.order[at], self.asks[at] = columns.time, parts, orders, asking
        whose = zip(columns.agent, columns.group, strict=True)
        self.group[at] = [hash(group) if group[1] else 0 for group in whose]
        self.author[at] = self._numbers_of(columns.author)
        self.alive[at] = True
        self.before[at] = self.after[at] = 0
        self.end = max(self.end, int(at.max()) + 1)
        self._size = self._hidden = None
        if link:
            self._link_neighbours(np.concatenate((touched, self.group[at])))

    def of_parts(self, parts: Sequence[int]) -> list[int]:
        """Return the keys of entries in the parts with these keys."""
        column = self.part[: self.end]
        mask = column == parts[0] if len(parts) == 1 else np.isin(column, parts)
        keys: list[int] = np.flatnonzero(mask & self.alive[: self.end]).tolist()
        return keys

    def of_ids(self, ids: Collection[str]) -> list[int]:
        """Return the keys of the entries with these ids."""
        codes = np.fromiter(map(hash, ids), np.int64, len(ids))
        keys: list[int] = np.flatnonzero(np.isin(self.id[: self.end], codes) & self.alive[: self.end]).tolist()
        return keys

    def link_all_neighbours(self) -> None:
        """Recompute the neighbour links of all groups."""
        self._link_neighbours(self.group[: self.end])

    def measure(self, keys: Sequence[int], text_sizes: Sequence[int], about_sizes: Sequence[int]) -> None:
        """Set the numbers of words of these entries."""
        at = np.array(keys, np.int64)
        self.text_size[at], self.about_size[at] = list(text_sizes), list(about_sizes)
        self._size = None

    def remove(self, keys: Sequence[int]) -> None:
        """Remove the entries under these keys, which become free."""
        if not keys:
            return
        at = np.array(keys, np.int64)
        touched = self.group[at]
        for name in _EMPTIED:
            getattr(self, name)[at] = 0
        self.alive[at] = self.embedded[at] = self.tokenized[at] = self.asks[at] = False
        self.generation[at] += 1
        self._hidden = None
        self._link_neighbours(touched)

    def filter_mask(self, filters: EntryFilter) -> Mask:
        """Return the keys up to `end` that pass, without regard to tags and sources."""
        mask = self.alive[: self.end].copy()
        for name in ("agent", "user", "project", "type"):
            value = getattr(filters, name)
            if value is not None:
                mask &= getattr(self, name)[: self.end] == hash(value)
        if filters.since is not None:
            mask &= self.time[: self.end] >= microseconds(filters.since)
        if filters.until is not None:
            mask &= self.time[: self.end] < microseconds(filters.until)
        return self._change_mask(mask, filters)

    def _change_mask(self, mask: Mask, filters: EntryFilter) -> Mask:
        if filters.subject is not ALL_SUBJECTS:
            mask &= self.subject[: self.end] == hash(filters.subject)
        if filters.changes_of:
            named = np.fromiter(map(hash, filters.changes_of), np.int64, len(filters.changes_of))
            mask &= np.isin(self.replaces[: self.end], named) | np.isin(self.retracts[: self.end], named)
        if filters.current:
            mask[self.hidden_keys()] = False
        return mask

    def hidden_keys(self) -> Keys:
        """Return the keys of hidden entries, see `runtime.memory.succession`."""
        if self._hidden is None:
            retractions, retracted = self._references(self.retracts)
            replacing, replaced = self._references(self.replaces)
            replaced = replaced[~np.isin(replacing, retracted)]
            hidden = np.unique(np.concatenate((retractions, retracted, replaced)))
            self._hidden = hidden[hidden > 0]
        return self._hidden

    def _references(self, column: Keys) -> tuple[Keys, Keys]:
        """Return the keys that name another entry in this column, and the keys of those entries; 0 where that is
        missing or belongs to another agent, user or subject."""
        naming = np.flatnonzero(column[: self.end])
        ids = self.id[: self.end]
        there = np.flatnonzero(np.isin(ids, column[naming])) if naming.size else naming
        if there.size == 0:
            return naming, np.zeros_like(naming)
        there = there[np.argsort(ids[there])]
        named = there[np.minimum(np.searchsorted(ids[there], column[naming]), there.size - 1)]
        same = ids[named] == column[naming]
        for scope in (self.agent, self.user, self.subject):
            same &= scope[named] == scope[naming]
        return naming, np.where(same, named, 0)

    def size(self) -> Keys:
        """Return the words of each entry with its context, by key up to `end`."""
        if self._size is None:
            columns = (self.text_size, self.about_size, self.before, self.after)
            self._size = size_with_context(*(column[: self.end] for column in columns))
        return self._size

    def handles(self, keys: Keys) -> Keys:
        """Return the handles of these keys for callers: another number whenever a key is reused; 0 stays 0."""
        return np.where(keys > 0, keys | (self.generation[keys] << _HANDLE), 0)

    def keys(self, handles: Keys) -> Keys:
        """Return the keys of these handles, 0 if the entry is gone."""
        keys = handles & ((1 << _HANDLE) - 1)
        keys = np.where((keys > 0) & (keys < self.end), keys, 0)
        return np.where(self.alive[keys] & (self.handles(keys) == handles), keys, 0)

    def newest(self, mask: Mask, limit: int) -> Keys:
        """Return up to `limit` keys of the mask, newest first."""
        keys = np.flatnonzero(mask)
        return keys[np.lexsort((keys, -self.time[keys]))[:limit]]

    def _numbers_of(self, authors: Sequence[str | None]) -> list[int]:
        known = self._author_numbers
        for author in set(authors) - known.keys():
            assert author is not None
            self.authors.append(author)
            known[author] = len(self.authors)
        return [known[author] for author in authors]

    def _reserve(self, key: int) -> None:
        room = len(self.alive)
        if key < room:
            return
        more = max(2 * room, key + 1) - room
        self.generation = np.concatenate((self.generation, np.full(more, self.generation[0])))
        for name in (*_EMPTIED, "alive", "embedded", "tokenized", "asks"):
            column = getattr(self, name)
            setattr(self, name, np.concatenate((column, np.zeros(more, column.dtype))))

    def _link_neighbours(self, groups: Keys) -> None:
        """Recompute the neighbour links in these groups."""
        self._size = None
        groups = np.unique(groups[groups != 0])
        column = self.group[: self.end]
        if groups.size == 0:
            return
        keys = np.flatnonzero(column == groups[0] if groups.size == 1 else np.isin(column, groups))
        keys = keys[np.lexsort((keys, self.order[keys], self.time[keys], column[keys]))]
        together = column[keys[1:]] == column[keys[:-1]]
        self.before[keys] = self.after[keys] = 0
        self.before[keys[1:]] = np.where(together, keys[:-1], 0)
        self.after[keys[:-1]] = np.where(together, keys[1:], 0)


def asks(text: str) -> bool:
    """True if the text has a question mark."""
    # Much faster than a pattern.
    return "?" in text or (not text.isascii() and any(mark in text for mark in QUESTION_MARKS))


def _numbers(count: int) -> Keys:
    return np.zeros(count, np.int64)
