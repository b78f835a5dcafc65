"""Open resources with reference counts: a generation takes over those of the previous one, and the last user closes
a resource."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import structlog

log = structlog.get_logger("symbiont.program")


class Resource(Protocol):
    """A resource that is open."""

    async def close(self) -> None:
        """Close the resource."""


R = TypeVar("R", bound=Resource)


@dataclass(slots=True)
class _Entry(Generic[R]):
    resource: R
    holders: int


class Pool(Generic[R]):
    """Resources by their identity (a resolved path, a URL and collection), never by the name of a block."""

    def __init__(self) -> None:
        self._entries: dict[Hashable, _Entry[R]] = {}
        self._opening = asyncio.Lock()
        self._closing: set[asyncio.Task[None]] = set()

    async def take(self, identity: Hashable, opener: Callable[[], Awaitable[R]]) -> R:
        """Return the resource with this `identity`; `opener` opens it if it is not open. Raises what `opener`
        raises."""
        async with self._opening:
            entry = self._entries.get(identity)
            if entry is None:
                entry = self._entries[identity] = _Entry(await opener(), 0)
            entry.holders += 1
            return entry.resource

    async def give_back(self, identity: Hashable) -> None:
        """Release `identity`; when the last holder releases it, the resource is closed. If this is cancelled while
        another resource is being opened, it is closed after that."""
        entry = self._entries[identity]
        entry.holders -= 1
        if entry.holders:
            return
        closing = asyncio.create_task(self._close_unused(identity, entry), name="resource closing")
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)
        try:
            await asyncio.shield(closing)
        except asyncio.CancelledError:
            closing.add_done_callback(_log_failure)
            if self._entries.get(identity) is not entry:
                # The resource is being closed, and handles the cancellation itself.
                closing.cancel()
                await asyncio.wait([closing])
            raise

    async def _close_unused(self, identity: Hashable, entry: _Entry[R]) -> None:
        """Close the resource, unless it was taken again or closed in the meantime."""
        async with self._opening:
            if self._entries.get(identity) is entry and entry.holders == 0:
                del self._entries[identity]
                await entry.resource.close()

    def __len__(self) -> int:
        return len(self._entries)


def _log_failure(closing: asyncio.Task[None]) -> None:
    """Log the error of a resource whose last holder was cancelled."""
    if not closing.cancelled() and (error := closing.exception()) is not None:
        log.error("resource_close_failed", reason=str(error))


class Lease:
    """Resources taken from pools, released together in reverse order."""

    def __init__(self) -> None:
        self._taken: list[tuple[Pool[Any], Hashable]] = []

    async def take(self, pool: Pool[R], identity: Hashable, opener: Callable[[], Awaitable[R]]) -> R:
        """Take a resource, see `Pool.take`."""
        resource = await pool.take(identity, opener)
        self._taken.append((pool, identity))
        return resource

    async def give_back(self) -> None:
        """Release all resources, even if closing one fails or this is cancelled; a second call does nothing. Raises
        what closing raises."""
        taken, self._taken = self._taken, []
        async with AsyncExitStack() as stack:
            for pool, identity in taken:
                stack.push_async_callback(pool.give_back, identity)
