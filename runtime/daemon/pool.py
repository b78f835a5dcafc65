"""Open resources, counted: a generation borrows what the last one had open, and the last to let go closes it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class _Entry:
    resource: Any
    close: Callable[[], Awaitable[None]]
    holders: int


class Pool:
    """Resources by what they physically are (a resolved path, a URL and collection), never by the name of a block."""

    def __init__(self) -> None:
        self._entries: dict[Hashable, _Entry] = {}

    def take(self, identity: Hashable, opener: Callable[[], tuple[T, Callable[[], Awaitable[None]]]]) -> T:
        """The resource called `identity`, opened by `opener` (resource and its close) when nobody holds it yet."""
        entry = self._entries.get(identity)
        if entry is None:
            resource, close = opener()
            entry = self._entries[identity] = _Entry(resource, close, 0)
        entry.holders += 1
        return entry.resource  # type: ignore[no-any-return]

    async def give_back(self, identity: Hashable) -> None:
        """Let go of `identity`; the last holder closes it."""
        entry = self._entries[identity]
        entry.holders -= 1
        if entry.holders == 0:
            del self._entries[identity]
            await entry.close()

    def __len__(self) -> int:
        return len(self._entries)
