"""Parts of messages as models write them, for those who follow a run in the process that runs it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple


class Delta(NamedTuple):
    """A part of the message with this number in a step, or `agent.note`. `name`: of the event."""

    name: str
    step: int
    data: Mapping[str, Any]


Publish = Callable[[Delta], None]


class Deltas:
    """Sends the parts of messages of runs to their followers. Nothing is kept for later ones."""

    def __init__(self) -> None:
        self._followers: defaultdict[str, list[Publish]] = defaultdict(list)

    def publisher(self, run_id: str) -> Publish | None:
        """Return the function that sends parts to the followers of a run; None if there are none."""
        if run_id not in self._followers:
            return None

        def publish(delta: Delta) -> None:
            for put in self._followers.get(run_id, ()):
                put(delta)

        return publish

    @contextmanager
    def follow(self, run_id: str, put: Publish) -> Iterator[None]:
        """Call `put` with the parts of a run until the end of the block. It returns at once."""
        self._followers[run_id].append(put)
        try:
            yield
        finally:
            self._followers[run_id].remove(put)
            if not self._followers[run_id]:
                del self._followers[run_id]
