"""The parts of a collection memory in a transaction: where items go, and how many of each type there are."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import Connection, func, select

from runtime.database import bulk
from runtime.database.schema import item_parts as table
from runtime.database.text import escaped
from runtime.memory.collection.row_codec import ItemRow
from runtime.memory.item import Item
from runtime.memory.store_types import Append, Part

LARGEST: Final = 512
"""Maximum number of items of a part, the unit of reading and indexing."""

TYPES: Final = ("episodic", "semantic", "procedural")
_KEYS: Final = ("memory", "part")
_STATE: Final = ("revision", "used", *TYPES, "bytes")
_COLUMNS: Final = (*_KEYS, "user_id", "agent_id", *_STATE)


def part_name(agent_id: str, number: int) -> str:
    """Return the name of a part, unique in the store."""
    return f"{agent_id}/{number}"


@dataclass(slots=True)
class OpenPart:
    """A part's current state, and what this transaction changed."""

    number: int
    user: str
    """As stored in the database."""
    agent: str
    revision: str | None
    """Before this transaction; None for a new part."""
    used: int
    counts: dict[str, int]
    bytes: int
    had_items: bool
    """True if it had items before."""
    added: list[Item] = field(default_factory=list)
    changed: bool = False
    """True if it changed other than by appending."""

    @property
    def items(self) -> int:
        """Return the number of its items."""
        return sum(self.counts.values())

    def count(self, row: ItemRow, by: int) -> None:
        """Count one item more or less."""
        self.counts[row.memory_type] += by
        self.bytes += by * len(row.content)


class PartTable:
    """The parts that one transaction reads and writes. The transaction has exclusive access to the memory."""

    def __init__(self, connection: Connection, memory: str) -> None:
        self._connection = connection
        self._memory = memory
        self._parts: dict[int, OpenPart] = {}
        self._newest: dict[tuple[str, str], OpenPart] = {}
        self._last: int | None = None
        self._emptied: set[str] = set()

    def place(self, agent: str, user: str) -> OpenPart:
        """Return the part of this agent and user that takes the next item."""
        open_part = self.newest(agent, user)
        return open_part if open_part is not None and open_part.used < LARGEST else self.begin(agent, user)

    def newest(self, agent: str, user: str) -> OpenPart | None:
        """Return the last part of this agent and user."""
        key = agent, user
        if key not in self._newest:
            query = (
                select(*table.c[*_COLUMNS])
                .where(table.c.memory == self._memory, table.c.agent_id == agent, table.c.user_id == escaped(user))
                .order_by(table.c.part.desc())
                .limit(1)
            )
            found = self._connection.execute(query).first()
            if found is None:
                return None
            self._newest[key] = self._parts.get(found.part) or self._learn(found)
        return self._newest[key]

    def begin(self, agent: str, user: str) -> OpenPart:
        """Create an empty part."""
        if self._last is None:
            query = select(func.max(table.c.part)).where(table.c.memory == self._memory)
            self._last = self._connection.execute(query).scalar() or 0
        self._last += 1
        open_part = OpenPart(self._last, escaped(user), agent, None, 0, dict.fromkeys(TYPES, 0), 0, had_items=False)
        self._parts[open_part.number] = self._newest[agent, user] = open_part
        return open_part

    def of(self, number: int) -> OpenPart:
        """Return the existing part with this number."""
        if number not in self._parts:
            query = select(*table.c[*_COLUMNS]).where(table.c.memory == self._memory, table.c.part == number)
            self._learn(self._connection.execute(query).one())
        return self._parts[number]

    def _learn(self, row: Any) -> OpenPart:
        counts = {name: getattr(row, name) for name in TYPES}
        open_part = OpenPart(
            row.part, row.user_id, row.agent_id, row.revision, row.used, counts, row.bytes, any(counts.values())
        )
        self._parts[open_part.number] = open_part
        return open_part

    def forget(self, agent: str, numbers: Sequence[int]) -> None:
        """Forget these deleted parts of this agent."""
        self._parts = {number: each for number, each in self._parts.items() if number not in numbers}
        self._newest = {key: each for key, each in self._newest.items() if each.number not in numbers}
        self._emptied.add(agent)

    def finish(self) -> tuple[list[Append], frozenset[str]]:
        """Write the changed parts. Returns what was appended, and the agents with other changes."""
        appends: list[Append] = []
        changed = set(self._emptied)
        new: list[tuple[Any, ...]] = []
        written_again: list[tuple[Any, ...]] = []
        for each in self._parts.values():
            if not (each.added or each.changed or each.revision is None):
                continue
            revision = secrets.token_hex(16)
            state = (revision, each.used, *(each.counts[name] for name in TYPES), each.bytes)
            if each.changed and not each.items and self._is_passed(each):
                self._drop(each.number)
            elif each.revision is None:
                new.append((self._memory, each.number, each.user, each.agent, *state))
            else:
                written_again.append((self._memory, each.number, *state))
            if each.changed:
                changed.add(each.agent)
            elif each.added:
                part = Part(part_name(each.agent, each.number), each.agent, revision)
                appends.append(Append(part, each.revision if each.had_items else None, tuple(each.added)))
        bulk.insert(self._connection, table, _COLUMNS, new)
        bulk.update(self._connection, table, _KEYS, _STATE, written_again)
        return appends, frozenset(changed)

    def _is_passed(self, part: OpenPart) -> bool:
        """True if a later part of the same agent and user takes new items."""
        query = select(func.max(table.c.part)).where(
            table.c.memory == self._memory, table.c.agent_id == part.agent, table.c.user_id == part.user
        )
        later = [each.number for each in self._parts.values() if (each.agent, each.user) == (part.agent, part.user)]
        return part.number < max(self._connection.execute(query).scalar() or 0, *later)

    def _drop(self, number: int) -> None:
        self._connection.execute(table.delete().where(table.c.memory == self._memory, table.c.part == number))
