"""Outages of the database in the middle of an agent's run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from structlog.contextvars import get_contextvars

from runtime.database.errors import Unavailable
from runtime.database.group_commit import GroupCommit


async def unconfirmed(answer: asyncio.Future[Any]) -> Any:
    """Fail after a write was stored."""
    await answer
    raise Unavailable("the connection was lost")


def fail_at(monkeypatch: pytest.MonkeyPatch, commits: GroupCommit, broken: int, *, stored: bool) -> Callable[[], int]:
    """Let the write of a run with this number, from 1 on, fail: after it was `stored`, or instead. Return what tells
    how many writes runs have made."""
    counted, put = [0], commits.put

    def failing(stage: Any, item: Any) -> Any:
        if "run_id" in get_contextvars():
            counted[0] += 1
            if counted[0] == broken and stored:
                return asyncio.ensure_future(unconfirmed(put(stage, item)))
            if counted[0] == broken:
                raise Unavailable("the disk is full")
        return put(stage, item)

    monkeypatch.setattr(commits, "put", failing)
    return lambda: counted[0]
