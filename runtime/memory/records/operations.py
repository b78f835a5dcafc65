"""Operations on one agent's folder, and their results."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from runtime.memory.item import Item
from runtime.memory.records.files.outbox import Note
from runtime.memory.store_types import Append


class Write(NamedTuple):
    """Store items, with what closed the gates for each. `remote`: True if they are to be sent."""

    items: tuple[Item, ...]
    gates: tuple[dict[str, str], ...]
    remote: bool


class Mark(NamedTuple):
    """Write the result of sending a record. `done`: it is final."""

    note: Note
    sent: bool
    error: str | None
    done: bool
    facts: dict[str, Any]


class OperationFailure(NamedTuple):
    """A failed write: `refused` at these gates, or an `error`."""

    status: Literal["refused", "error"]
    session_id: str | None
    gates: tuple[str, ...] = ()
    error: str | None = None


class Cleanup(NamedTuple):
    """Write `index.json` if needed, and with `recover` finish what a killed writer left."""

    recover: bool = False


class Forget(NamedTuple):
    """Delete one user's records: see `user_removal.forget`."""

    user_id: str


WriteRequest = Write | Mark | OperationFailure | Cleanup | Forget


@dataclass
class OperationResult:
    """The result of one operation: written items, notes of records to send, and the number of deleted records."""

    written: tuple[Item, ...] = ()
    notes: tuple[Note, ...] = ()
    forgotten: int = 0


@dataclass
class OperationResults:
    """The results of several operations: each one's outcome, appends to report, and faults that lost nothing."""

    outcomes: list[OperationResult | Exception]
    appends: list[Append] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
