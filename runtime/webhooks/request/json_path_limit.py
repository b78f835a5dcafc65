"""How many nodes the JSONPaths of one request may look at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from runtime.webhooks.request.refusal import Refused

MOST_NODES: Final = 200_000
"""Nodes that general paths may look at in one payload, all filters of a webhook together: some half a second of work.
`$..*` looks at each node once, `$..*..*` at each as often as it is deep, and a filter selector may be quadratic."""

_left: ContextVar[list[int] | None] = ContextVar("nodes left", default=None)


@contextmanager
def bounded() -> Iterator[None]:
    """Let the general paths that are followed inside look at `MOST_NODES` together, or at what an outer bound left."""
    token = _left.set(_left.get() or [MOST_NODES])
    try:
        yield
    finally:
        _left.reset(token)


def count_node() -> None:
    """Count one node. Raises `Refused` `too_complex` for one too many."""
    left = _left.get()
    if left is not None:
        left[0] -= 1
        if left[0] < 0:
            raise Refused("too_complex")
