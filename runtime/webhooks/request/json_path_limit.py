"""The limit of nodes that the JSONPaths of one request may visit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from runtime.webhooks.request.refusal import RefusedRequest

MOST_NODES: Final = 200_000
"""Nodes that general paths may visit in one payload, all filters of a webhook together: about half a second of work.
`$..*` visits each node once, `$..*..*` as often as it is deep, and a filter selector may be quadratic."""

_left: ContextVar[list[int] | None] = ContextVar("nodes left", default=None)


@contextmanager
def node_limit() -> Iterator[None]:
    """Limit the general paths evaluated inside to `MOST_NODES` together, or to the rest of an outer limit."""
    token = _left.set(_left.get() or [MOST_NODES])
    try:
        yield
    finally:
        _left.reset(token)


def count_node() -> None:
    """Count one node. Raises `RefusedRequest` `too_complex` if there are too many."""
    left = _left.get()
    if left is not None:
        left[0] -= 1
        if left[0] < 0:
            raise RefusedRequest("too_complex")
