"""Keeps the ids in `replaces` and `retracts` right when a change of `memory.md` changes or removes ids.

An id depends on the text, so an edit gives an item another one. A deleted item's place in a chain is closed: what
replaced it then replaces the item that it had replaced.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from runtime.clock import utc
from runtime.memory.item import Item
from runtime.memory.markdown.items import long_term_items
from runtime.memory.markdown.text.document import MarkdownDocument
from runtime.memory.succession import SubjectScope, is_change, scope_of

_ANY_TIME = utc(0)


def relinked(
    agent_id: str, before: MarkdownDocument, after: MarkdownDocument, gone: int | None = None
) -> MarkdownDocument:
    """Return `after` with current ids. It has the same items as `before` without that with the number `gone`. Raises
    Inseparable."""
    old = long_term_items(agent_id, before, _ANY_TIME)
    if not any(map(is_change, old)):
        return after
    deleted = None if gone is None else old.pop(gone)
    renewed: dict[tuple[SubjectScope, str], str] = {}
    # An id depends on the replaced item's, too: each round corrects one item, so that the next ones name its new id.
    for _ in old:
        new = long_term_items(agent_id, after, _ANY_TIME)
        for was, item in zip(old, new, strict=True):
            if was.memory_id != item.memory_id:
                renewed[scope_of(was), was.memory_id] = item.memory_id
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


def _links(item: Item, deleted: Item | None, renewed: dict[tuple[SubjectScope, str], str]) -> _Links:
    """Return what the item replaces and retracts, by current ids."""
    scope, replaces = scope_of(item), item.replaces
    if deleted is not None and (scope_of(deleted), deleted.memory_id) == (scope, replaces):
        replaces = deleted.replaces
    named = (None if each is None else renewed.get((scope, each), each) for each in (replaces, item.retracts))
    return _Links(*named)
