"""The steps of runs in the database: intents before acts, results after them, all fenced by the attempt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from sqlalchemy import Connection, func, select

from runtime.crypto import SealedBytes
from runtime.database import bulk
from runtime.database.connection import Database
from runtime.database.schema import steps
from runtime.errors import GiveUp, SymbiontError
from runtime.threads.run import running_attempts

INTENDED: Final = "intended"
"""Before, during or after an interrupted act: it may have happened."""
DONE: Final = "done"
FAILED: Final = "failed"
"""The act raised `Retry` or `GiveUp`: it did not happen."""


class Superseded(SymbiontError):  # noqa: N818 - it says what happened to the attempt
    """Another attempt at this run has begun; writes of this attempt are rejected."""


class StepUncertain(GiveUp):
    """A step that cannot be repeated may or may not have happened before the daemon stopped."""


class RecordedStep(NamedTuple):
    """A step as an earlier attempt recorded it. `repeatable`: as that attempt said. `result`: sealed; None unless
    `state` is `done`."""

    position: int
    kind: str
    repeatable: bool
    state: str
    result: bytes | None


class StepWrite(NamedTuple):
    """One write of one step. `finished_at` None: an intent, new or `again`; else its result. `tell`: called in the
    transaction of an intent."""

    run_id: str
    attempt: int
    position: int
    key: str
    state: str
    user_id: str
    kind: str
    repeatable: bool
    started_at: int
    finished_at: int | None
    intent: SealedBytes | None
    result: SealedBytes | None
    again: bool = False
    tell: Callable[[Connection], None] | None = None


_KEYS = ("run_id", "position")
_INTENT = (*_KEYS, "key", "user_id", "kind", "repeatable", "state", "attempt", "started_at", "intent")
_AGAIN = ("kind", "repeatable", "state", "attempt", "started_at", "intent", "finished_at", "result")
_RESULT = ("state", "finished_at", "result")


def store_steps(connection: Connection, writes: Sequence[StepWrite]) -> list[Exception | None]:
    """Store the steps of many runs in one transaction; `Superseded` for those whose run has a newer attempt."""
    current = running_attempts(connection, [write.run_id for write in writes])
    valid = [write for write in writes if current.get(write.run_id) == write.attempt]
    new = [w for w in valid if w.finished_at is None and not w.again]
    bulk.insert(
        connection,
        steps,
        _INTENT,
        [
            (w.run_id, w.position, w.key, w.user_id, w.kind, w.repeatable, w.state, w.attempt, w.started_at, w.intent)
            for w in new
        ],
        # A group whose commit was lost is stored again. A row with this position can only be this write.
        ignore=True,
    )
    again = [w for w in valid if w.finished_at is None and w.again]
    bulk.update(
        connection,
        steps,
        _KEYS,
        _AGAIN,
        [
            (w.run_id, w.position, w.kind, w.repeatable, w.state, w.attempt, w.started_at, w.intent, None, None)
            for w in again
        ],
    )
    for write in (*new, *again):
        if write.tell is not None:
            write.tell(connection)
    ended = [w for w in valid if w.finished_at is not None]
    bulk.update(
        connection, steps, _KEYS, _RESULT, [(w.run_id, w.position, w.state, w.finished_at, w.result) for w in ended]
    )
    return [
        None if current.get(w.run_id) == w.attempt else Superseded(f"run {w.run_id} continues elsewhere")
        for w in writes
    ]


def find_steps(connection: Connection, run_id: str, keys: Sequence[str] | None = None) -> dict[str, RecordedStep]:
    """Return the steps of a run by key, of these keys only if they are given."""
    query = select(*steps.c["key", "position", "kind", "repeatable", "state", "result"])
    query = query.where(steps.c.run_id == run_id, *([] if keys is None else [steps.c.key.in_(keys)]))
    return {key: RecordedStep(*rest) for key, *rest in connection.execute(query)}


async def recorded_steps(database: Database, run_id: str) -> dict[str, RecordedStep]:
    """Return the steps that earlier attempts at the run recorded, by key."""
    async with database.read() as connection:
        return await connection.run_sync(find_steps, run_id)


def count_model_steps(connection: Connection, run_id: str) -> int:
    """Return the number of steps of the loop of a run: in each its model is asked, as the step `NUMBER/model`."""
    asked = steps.c.run_id == run_id, steps.c.kind == "model", steps.c.key.like("%/model")
    return int(connection.execute(select(func.count()).select_from(steps).where(*asked)).scalar_one())
