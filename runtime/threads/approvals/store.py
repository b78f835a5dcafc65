"""The approvals of one database: asked, listed, and decided once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import ColumnElement, Connection, literal_column, select, update

from runtime.clock import Clock, milliseconds, rfc3339, uuid7
from runtime.crypto import Unsealable
from runtime.database import bulk
from runtime.database.connection import Database
from runtime.database.group_commit import Stage
from runtime.database.schema import TURN_TABLES, approvals, runs
from runtime.database.sealed import Seal
from runtime.database.text import storable
from runtime.errors import Conflict, NotFound
from runtime.threads import run, stage_ranks
from runtime.threads.approvals.approval import (
    APPROVED,
    AWAITING,
    CANCELLED,
    EXPIRED,
    UNKNOWN_ORIGIN,
    Approval,
    Origin,
    Question,
    Via,
)
from runtime.threads.approvals.asking import COLUMNS, ApprovalRow, Asker, NewApproval, StepQuestions, ask
from runtime.threads.approvals.standing import StandingApprovals, StoredRow
from runtime.threads.events import run_event
from runtime.threads.events.log import EventLog
from runtime.threads.events.run_event import RunEvent
from runtime.threads.turns import parking

_ASKING: Final = Stage(stage_ranks.ASK, ask)

# A constant in the text: a partial index is not used for a parameter.
_WAITS: Final = approvals.c.state == literal_column(f"'{AWAITING}'")


class AlreadyDecided(Conflict):
    """An approval was decided before, or its deadline is over."""

    def __init__(self, approval: Approval, state: str) -> None:
        at = rfc3339((approval.decided_at or approval.deadline) / 1000)
        what = {
            EXPIRED: f"nobody decided about this call until {at}, so it was denied",
            CANCELLED: f"the run of this call ended at {at}, before anybody decided",
        }
        super().__init__(what.get(state, f"this call was {state} already, at {at}"))


class _Content(msgspec.Struct, frozen=True):
    arguments: str
    digest: str
    definition: str = ""
    server: str | None = None
    origin: Origin = UNKNOWN_ORIGIN


class _Decision(msgspec.Struct, frozen=True):
    """The decision of a person about an exact call. It is sealed, because the state is not: whoever can write to the
    database could approve calls."""

    state: str
    digest: str
    by: str
    via: Via


_CONTENT: Final = msgspec.json.Decoder(_Content)
_DECISION: Final = msgspec.json.Decoder(_Decision)
_UNREADABLE: Final = _Content("", "")


class Approvals:
    """The approvals of one database."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._events = EventLog(database, clock)
        self._content = Seal(database.keys, approvals.c.content)
        self._reason = Seal(database.keys, approvals.c.reason)
        self._decision = Seal(database.keys, approvals.c.decision)
        self.standing = StandingApprovals(database, clock)

    async def ask(self, by: Asker, questions: Sequence[Question], seconds: float) -> dict[str, Approval | None]:
        """Ask for these calls, with a deadline in `seconds`, once however often an attempt repeats it, and return by
        the id of each call what is stored; None if a person approved the tool for good.

        On return the questions are durable, and of those whose deadline is over it is stored that nobody answered.
        Raises `Superseded`, `Unavailable`.
        """
        now = milliseconds(self._clock)
        deadline = now + int(seconds * 1000)
        asked = StepQuestions(by, tuple(self._new(each, by, deadline) for each in questions), now, deadline)
        stored = await self._database.commits.store(_ASKING, asked)
        return {call_id: None if row is None else self._approval_of(row) for call_id, row in stored.items()}

    async def find(self, start: str, user_id: str | None) -> Approval:
        """Return the approval whose id begins with `start`, of the user, None: of any. Raises NotFound unless exactly
        one has such an id, and `Unavailable`."""
        query = select(*approvals.c[*COLUMNS]).where(approvals.c.id.startswith(start, autoescape=True))
        if user_id is not None:
            query = query.where(approvals.c.user_id == user_id)
        async with self._database.read() as connection:
            found = (await connection.execute(query.limit(2))).all() if start else []
        if len(found) != 1:
            what = "no approval's id begins" if not found else "the ids of several approvals begin"
            raise NotFound(f"{what} with {start[:80]!r}", hint="`symbi agent pending` shows them")
        return self._approval_of(ApprovalRow(*found[0]))

    async def of_run(self, run_id: str, user_id: str) -> list[Approval]:
        """Return the approvals for which a run waits, oldest first. Raises `Unavailable`."""
        mine = approvals.c.run_id == run_id, approvals.c.user_id == user_id, approvals.c.state == AWAITING
        return (await self._read(list(mine), 1000))[::-1]

    async def calls_of(self, run_id: str) -> frozenset[str]:
        """Return the ids of the calls about which a run asked. Raises `Unavailable`."""
        async with self._database.read() as connection:
            found = await connection.execute(select(approvals.c.call_id).where(approvals.c.run_id == run_id))
            return frozenset(found.scalars())

    async def thread_of(self, run_id: str) -> str | None:
        """Return the id of the thread in which a run asked about calls; None if it asked about none. Raises
        `Unavailable`."""
        async with self._database.read() as connection:
            return await connection.scalar(select(approvals.c.thread_id).where(approvals.c.run_id == run_id).limit(1))

    async def newest(
        self, user_id: str, *, waiting: bool, agent: str | None = None, limit: int = 100
    ) -> list[Approval]:
        """Return up to `limit` approvals of a user, newest first. `waiting`: only those that wait for a decision."""
        wanted: list[ColumnElement[bool]] = [approvals.c.user_id == user_id]
        if agent is not None:
            wanted.append(approvals.c.agent == agent)
        if waiting:
            wanted += [_WAITS, approvals.c.deadline > milliseconds(self._clock)]
        return await self._read(wanted, limit)

    async def decide(
        self, approval_id: str, state: str, *, by: str, via: Via, reason: str | None = None, always: bool = False
    ) -> Approval:
        """Store the decision of the user `by`, `approved` or `denied`, wake the run, and return the approval as it is
        then. `always`: its agent may call the tool, as it is defined now, for its user without asking again.

        Of several decisions one counts. Wake the dispatcher afterwards. Raises AlreadyDecided for the others and after
        the deadline, NotFound, `Unavailable`.
        """
        now = milliseconds(self._clock)

        def decide(connection: Connection) -> ApprovalRow:
            row = _row(connection, approval_id)
            _lock_run(connection, row.run_id)
            row = _row(connection, approval_id)
            if row.state != AWAITING or row.deadline <= now:
                approval = self._approval_of(row)
                raise AlreadyDecided(approval, approval.state_at(now))
            sealed, content = None, self._content_of(row)
            place: dict[str, Any] = {"row": row.id, "user_id": row.user_id}
            if reason is not None:
                sealed = self._reason.close((storable(reason) or "").encode(), **place)
            decision = self._decision.close(msgspec.json.encode(_Decision(state, content.digest, by, via)), **place)
            decided: dict[str, Any] = {"state": state, "decided_at": now, "decided_by": by, "reason": sealed}
            decided["decision"] = decision
            connection.execute(update(approvals).where(approvals.c.id == row.id).values(**decided))
            if always:
                whose = row.user_id, row.agent, row.tool
                self.standing.add(connection, *whose, definition=content.definition, by=by, via=via)
            self._events.append(connection, _confirmed_event(row, state, reason, via))
            parking.wake(connection, run.AWAITING, now, run_ids=[row.run_id])
            return row._replace(**decided)

        return self._approval_of(await self._database.transact(decide))

    def cancel(self, connection: Connection, ended: Mapping[str, int]) -> None:
        """Note that these runs have ended without some decisions, in the transaction that ends them. `ended`: when, by
        the ids of the runs (Unix milliseconds)."""
        keys = [(run_id, AWAITING) for run_id in sorted(ended)]
        found = bulk.find(connection, approvals, ("run_id", "state"), COLUMNS, keys)
        waiting = [ApprovalRow(*row[2:]) for row in found]
        for row in waiting:
            self._events.append(connection, _confirmed_event(row, CANCELLED, None))
        cancelled = [(row.id, CANCELLED, ended[row.run_id]) for row in waiting]
        bulk.update(connection, approvals, ("id",), ("state", "decided_at"), cancelled)

    def find_of_calls(self, connection: Connection, run_id: str, call_ids: Sequence[str]) -> dict[str, Approval]:
        """Return the approvals of these calls of a run, by their ids."""
        keys = [(run_id, each) for each in sorted(call_ids)]
        found = bulk.find(connection, approvals, ("run_id", "call_id"), COLUMNS, keys)
        return {row[1]: self._approval_of(ApprovalRow(*row[2:])) for row in found}

    async def _read(self, wanted: Sequence[ColumnElement[bool]], limit: int) -> list[Approval]:
        query = select(*approvals.c[*COLUMNS]).where(*wanted)
        newest = query.order_by(approvals.c.created_at.desc(), approvals.c.id.desc()).limit(limit)
        async with self._database.read() as connection:
            return [self._approval_of(ApprovalRow(*row)) for row in await connection.execute(newest)]

    def _new(self, question: Question, by: Asker, deadline: int) -> NewApproval:
        new_id = uuid7(self._clock)
        call_id, tool, arguments = question.call_id, question.tool, msgspec.json.decode(question.arguments or "{}")
        origin = {**msgspec.to_builtins(by.origin), "server": question.server}
        event = run_event.confirm(by.run_id, call_id, new_id, tool, arguments, rfc3339(deadline / 1000), origin)

        def note_asked(connection: Connection) -> None:
            self._events.append(connection, event)

        def note_expired(connection: Connection, approval_id: str) -> None:
            self._events.append(connection, run_event.confirmed(by.run_id, call_id, approval_id, tool, EXPIRED, None))

        def stands(row: StoredRow | None) -> bool:
            return self.standing.stands(row, by.user_id, by.agent, tool, question.definition)

        content = msgspec.json.encode(_Content(*question[2:], by.origin))
        sealed = self._content.close(content, row=new_id, user_id=by.user_id)
        return NewApproval(new_id, call_id, tool, sealed, note_asked, note_expired, stands)

    def _approval_of(self, row: ApprovalRow) -> Approval:
        fields: dict[str, Any] = row._asdict()
        for sealed in ("content", "decision", "reason"):
            del fields[sealed]
        content, decision = self._content_of(row), self._decision_of(row)
        # Otherwise nobody with a key has approved just this.
        holds = row.state != APPROVED or (decision is not None and decision.digest == content.digest)
        return Approval(
            **fields,
            decided_via=None if decision is None else decision.via,
            reason=self._reason_of(row),
            arguments=content.arguments,
            digest=content.digest if holds else "",
            server=content.server,
            origin=content.origin,
        )

    def _content_of(self, row: ApprovalRow) -> _Content:
        try:
            return _CONTENT.decode(self._content.open(row.content, row=row.id, user_id=row.user_id))
        except (Unsealable, msgspec.DecodeError):
            return _UNREADABLE

    def _decision_of(self, row: ApprovalRow) -> _Decision | None:
        """Return the decision of a person; None if the row says anything else."""
        if row.decision is None:
            return None
        try:
            found = _DECISION.decode(self._decision.open(row.decision, row=row.id, user_id=row.user_id))
        except (Unsealable, msgspec.DecodeError):
            return None
        return found if (found.state, found.by) == (row.state, row.decided_by) else None

    def _reason_of(self, row: ApprovalRow) -> str | None:
        try:
            given = row.reason
            return None if given is None else self._reason.open(given, row=row.id, user_id=row.user_id).decode()
        except Unsealable:
            return None


def _confirmed_event(row: ApprovalRow, state: str, reason: str | None, via: str | None = None) -> RunEvent:
    return run_event.confirmed(row.run_id, row.call_id, row.id, row.tool, state, reason, via)


def _row(connection: Connection, approval_id: str) -> ApprovalRow:
    found = connection.execute(select(*approvals.c[*COLUMNS]).where(approvals.c.id == approval_id)).first()
    if found is None:
        raise NotFound(f"there is no approval {approval_id}", hint="`symbi agent pending` shows them")
    return ApprovalRow(*found)


def _lock_run(connection: Connection, run_id: str) -> None:
    """Lock a run as those do who claim and end it: first its turn, then the run."""
    found = connection.execute(select(runs.c.trigger, runs.c.delivery_id).where(runs.c.id == run_id)).first()
    if found is not None:
        # A run without a delivery has the id of its turn.
        bulk.find(connection, TURN_TABLES[found.trigger], ("id",), (), [(found.delivery_id or run_id,)], lock="UPDATE")
        bulk.find(connection, runs, ("id",), (), [(run_id,)], lock="UPDATE")
