"""The questions of running attempts, a stage of the group commit: stored once, and answered with what was decided."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection

from runtime.crypto import SealedBytes
from runtime.database import bulk
from runtime.database.schema import approvals, standing_approvals
from runtime.threads.approvals.approval import AWAITING, EXPIRED, UNKNOWN_ORIGIN, Origin
from runtime.threads.approvals.standing import StoredRow
from runtime.threads.run import running_attempts
from runtime.threads.step import Superseded


class Asker(NamedTuple):
    """The attempt that asks, and where its calls come from."""

    user_id: str
    agent: str
    thread_id: str
    run_id: str
    attempt: int
    origin: Origin = UNKNOWN_ORIGIN


class NewApproval(NamedTuple):
    """A question as it is stored, if it is not stored yet. `note_asked` and `note_expired`: called in the transaction
    that stores it, or that nobody answered it. `stands`: returns True if a row of a standing approval approves it."""

    id: str
    call_id: str
    tool: str
    content: SealedBytes
    note_asked: Callable[[Connection], None]
    note_expired: Callable[[Connection, str], None]
    stands: Callable[[StoredRow | None], bool]


class StepQuestions(NamedTuple):
    """All questions of one step at `at`, with the `deadline` of new ones (Unix milliseconds)."""

    by: Asker
    questions: tuple[NewApproval, ...]
    at: int
    deadline: int


Answers = dict[str, Any]
"""The stored row of each call by its id; None for one that was approved for good."""

_NEW: Final = (
    *("id", "user_id", "agent", "thread_id", "run_id", "call_id", "tool"),
    *("state", "deadline", "created_at", "content"),
)


class ApprovalRow(NamedTuple):
    """A row as it is stored."""

    id: str
    user_id: str
    agent: str
    thread_id: str
    run_id: str
    call_id: str
    tool: str
    state: str
    deadline: int
    created_at: int
    decided_at: int | None
    decided_by: str | None
    reason: bytes | None
    content: bytes
    decision: bytes | None


COLUMNS: Final = ApprovalRow._fields


def ask(connection: Connection, asked: Sequence[StepQuestions]) -> list[Answers | Exception]:
    """Store the questions that are new, unless the tool was approved for good, and end those whose deadline is over.
    `Superseded` for an attempt that is not the current one."""
    current = running_attempts(connection, [each.by.run_id for each in asked])
    valid = [each for each in asked if current.get(each.by.run_id) == each.by.attempt]
    tools = {(each.by.user_id, each.by.agent, new.tool) for each in valid for new in each.questions}
    keys = ("user_id", "agent", "tool")
    found = bulk.find(connection, standing_approvals, keys, ("id", "content"), sorted(tools))
    standing = {row[:3]: (row[3], row[4]) for row in found}
    stored = _stored_rows(connection, valid)
    wanted: list[tuple[Any, ...]] = []
    late: list[tuple[Any, ...]] = []
    for each, new in [(step, new) for step in valid for new in step.questions]:
        row = stored.get((each.by.run_id, new.call_id))
        if row is not None and row.state == AWAITING and row.deadline <= each.at:
            late.append((row.id, EXPIRED, each.at))
            new.note_expired(connection, row.id)
        elif row is None and not new.stands(standing.get((each.by.user_id, each.by.agent, new.tool))):
            wanted.append((new.id, *each.by[:4], new.call_id, new.tool, AWAITING, each.deadline, each.at, new.content))
            new.note_asked(connection)
    if wanted or late:
        bulk.insert(connection, approvals, _NEW, wanted)
        bulk.update(connection, approvals, ("id",), ("state", "decided_at"), late)
        stored = _stored_rows(connection, valid)
    return [
        {new.call_id: stored.get((each.by.run_id, new.call_id)) for new in each.questions}
        if current.get(each.by.run_id) == each.by.attempt
        else Superseded(f"run {each.by.run_id} continues elsewhere")
        for each in asked
    ]


def _stored_rows(connection: Connection, asked: Sequence[StepQuestions]) -> dict[tuple[str, str], ApprovalRow]:
    calls = sorted({(each.by.run_id, new.call_id) for each in asked for new in each.questions})
    found = bulk.find(connection, approvals, ("run_id", "call_id"), COLUMNS, calls)
    return {(row[0], row[1]): ApprovalRow(*row[2:]) for row in found}
