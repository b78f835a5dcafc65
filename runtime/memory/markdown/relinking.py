"""Keeps the ids in `replaces` and `retracts` right when a change of `memory.md` changes or removes ids.

An id depends on the text, so an edit gives an item another one. The places of deleted items in a chain are closed: what
replaced one of them then replaces the item that it had replaced.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import NamedTuple

import msgspec

from runtime.clock import utc
from runtime.memory.item import Item
from runtime.memory.markdown.items import long_term_items
from runtime.memory.markdown.text.document import MarkdownDocument
from runtime.memory.succession import SubjectScope, is_change, scope_of

_ANY_TIME = utc(0)

_Name = tuple[SubjectScope, str]
"""Scope and id of an item."""


def relink(
    agent_id: str, before: MarkdownDocument, after: MarkdownDocument, gone: Set[int] = frozenset()
) -> MarkdownDocument:
    """Return `after` with current ids. It has the same items as `before` without those with the numbers `gone`. Raises
    Inseparable."""
    everything = long_term_items(agent_id, before, _ANY_TIME)
    if not any(map(is_change, everything)):
        return after
    deleted = {_name(everything[number]): everything[number].replaces for number in gone}
    old = [item for number, item in enumerate(everything) if number not in gone]
    renewed: dict[_Name, str] = {}
    # An id depends on the replaced item's, too: each round corrects one item, so that the next ones name its new id.
    for _ in old:
        new = long_term_items(agent_id, after, _ANY_TIME)
        for was, item in zip(old, new, strict=True):
            if was.memory_id != item.memory_id:
                renewed[_name(was)] = item.memory_id
        links = [_links(was, deleted, renewed) for was in old]
        number = next((at for at, item in enumerate(new) if links[at] != (item.replaces, item.retracts)), None)
        if number is None:
            break
        bullet = after.items[number][1]
        after = after.replacing(
            bullet, bullet.text, msgspec.structs.replace(bullet.annotation, **links[number]._asdict())
        )
    return after


class _Links(NamedTuple):
    replaces: str | None
    retracts: str | None


def _name(item: Item) -> _Name:
    return scope_of(item), item.memory_id


def _links(item: Item, deleted: Mapping[_Name, str | None], renewed: Mapping[_Name, str]) -> _Links:
    """Return the current ids that the item replaces and retracts. `deleted`: those that deleted items had replaced."""
    scope, replaces = scope_of(item), item.replaces
    passed: set[str] = set()
    while replaces is not None and replaces not in passed and (scope, replaces) in deleted:
        passed.add(replaces)
        replaces = deleted[scope, replaces]
    named = (None if each is None else renewed.get((scope, each), each) for each in (replaces, item.retracts))
    return _Links(*named)
