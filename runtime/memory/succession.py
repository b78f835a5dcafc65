"""Facts change: an item may replace an older one, or retract another one (its `replaces` and `retracts`).

Both have effect only on items of the same agent, user and subject. A retraction hides itself and the item that it
names. An item that replaces another hides it, unless it is retracted itself; that it is replaced in turn does not
matter, so a chain shows its newest item only. Hidden items stay in their store and are listed; searches leave them out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from runtime.memory.item import Item


class SubjectScope(NamedTuple):
    """Identifies items that may change one another."""

    agent_id: str
    user_id: str
    subject: str | None


class ItemChange(NamedTuple):
    """The part of an item that decides what it hides."""

    scope: SubjectScope
    memory_id: str
    replaces: str | None
    retracts: str | None


def scope_of(item: Item) -> SubjectScope:
    """Return the scope of an item."""
    return SubjectScope(item.agent_id, item.user_id, item.subject)


def is_change(item: Item) -> bool:
    """True if the item replaces or retracts another one."""
    return item.replaces is not None or item.retracts is not None


def changes_among(items: Iterable[Item]) -> list[ItemChange]:
    """Return the changes among some items."""
    return [
        ItemChange(scope_of(item), item.memory_id, item.replaces, item.retracts) for item in items if is_change(item)
    ]


class HiddenItems:
    """The items that some changes hide."""

    def __init__(self, changes: Iterable[ItemChange]) -> None:
        """`changes`: all that may concern the items that are asked for, with the retractions of those."""
        changes = list(changes)
        self._ids = {(each.scope, each.retracts) for each in changes if each.retracts is not None}
        self._ids |= {
            (each.scope, each.replaces)
            for each in changes
            if each.replaces is not None and (each.scope, each.memory_id) not in self._ids
        }

    def __contains__(self, item: Item) -> bool:
        return item.retracts is not None or self.hides(scope_of(item), item.memory_id)

    def hides(self, scope: SubjectScope, memory_id: str) -> bool:
        """True if a change hides the item with this id."""
        return (scope, memory_id) in self._ids
