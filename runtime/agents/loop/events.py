"""Events of running turns for those who watch them in this process, such as a chat in a terminal."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, TypeAlias

RunEvent: TypeAlias = Mapping[str, Any]
"""`event`: `reply` (the model is asked, again if a reply was not whole), `text` (a part of a message of the reply, with
its number `message` in the step `step`), `message` (a whole one, if its parts were not sent), `call` (`id`, `name`,
`arguments`), `output` (`id`, `name`, `status`, `text`) or `compacted` (`messages`). All have `run_id`."""

_KEPT: Final = 1024
"""Events that wait for a watcher; more are left out, and the thread has everything."""

Publish = Callable[[RunEvent], None]


class RunEvents:
    """Sends the events of turns to their watchers. Nothing is kept for later ones."""

    def __init__(self) -> None:
        self._watchers: defaultdict[str, list[asyncio.Queue[RunEvent]]] = defaultdict(list)

    def publisher(self, thread_id: str) -> Publish | None:
        """Return the function that sends events to the watchers of a thread; None if nobody watches."""
        return partial(self.publish, thread_id) if thread_id in self._watchers else None

    def publish(self, thread_id: str, event: RunEvent) -> None:
        """Send an event to the watchers of a thread, if there are any. Returns at once."""
        for queue in self._watchers.get(thread_id, ()):
            if queue.qsize() < _KEPT:
                queue.put_nowait(event)

    @contextmanager
    def watch(self, thread_id: str) -> Iterator[AsyncIterator[RunEvent]]:
        """Yield an iterator over the events of a thread from now on."""
        queue: asyncio.Queue[RunEvent] = asyncio.Queue()
        self._watchers[thread_id].append(queue)
        try:
            yield _events(queue)
        finally:
            self._watchers[thread_id].remove(queue)
            if not self._watchers[thread_id]:
                del self._watchers[thread_id]


async def _events(queue: asyncio.Queue[RunEvent]) -> AsyncIterator[RunEvent]:
    while True:
        yield await queue.get()
