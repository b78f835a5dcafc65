"""What is asked of one agent's folder, and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from runtime.memory.item import Item
from runtime.memory.records.files.outbox import Note
from runtime.memory.store_types import Append


class Write(NamedTuple):
    """Items to keep, with what closed the gates for each. `remote`: whether they are to be sent."""

    items: tuple[Item, ...]
    gates: tuple[dict[str, str], ...]
    remote: bool


class Mark(NamedTuple):
    """What became of sending a record. `done`: there is nothing more to do about it."""

    note: Note
    sent: bool
    error: str | None
    done: bool
    facts: dict[str, Any]


class Failure(NamedTuple):
    """A write that came to nothing: `refused` at these gates, or an `error`."""

    status: Literal["refused", "error"]
    session_id: str | None
    gates: tuple[str, ...] = ()
    error: str | None = None


class Cleanup(NamedTuple):
    """Write `index.json` when it is not right, and finish what a killed writer left when `recover`."""

    recover: bool = False


class Forget(NamedTuple):
    """Delete what one user has: see `forgetting.forget_user`."""

    user_id: str


WriteRequest = Write | Mark | Failure | Cleanup | Forget


@dataclass
class Done:
    """What came of one work: the items that were written, the notes of those that are to be sent, and how many records
    were deleted."""

    written: tuple[Item, ...] = ()
    notes: tuple[Note, ...] = ()
    forgotten: int = 0


@dataclass
class Performed:
    """What came of many works: each one's outcome, what to tell of growth, and what went wrong that lost nothing."""

    outcomes: list[Done | Exception]
    appends: list[Append] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
