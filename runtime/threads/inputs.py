"""Messages of persons to agents, as turns. Each belongs to a thread, and waits for its turn there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple

import msgspec
from sqlalchemy import Connection

from runtime.clock import milliseconds, uuid7
from runtime.crypto import SealedBytes, Unsealable
from runtime.database import bulk
from runtime.database.group_commit import Stage
from runtime.database.schema import inputs, runs, threads
from runtime.errors import NotFound, UsageError
from runtime.identity.caller import Scope, read_scopes
from runtime.threads import run, stage_ranks
from runtime.threads.removal.deletion import DELETED
from runtime.threads.turns import thread_order
from runtime.threads.turns.queue import TurnQueue
from runtime.threads.turns.thread_order import Arrival
from runtime.threads.turns.turn import WAITING, ClaimedTurn

LONGEST: Final = 1024 * 1024
"""Maximum length of a message in bytes of UTF-8."""


class ClaimedInput(ClaimedTurn, frozen=True, kw_only=True):
    """A message of a person as the turn of an agent. Its run has its id."""

    trigger: ClassVar[str] = "message"

    thread_id: str
    text: str
    scopes: frozenset[Scope]
    """Of the caller who sent it."""
    sent_at: int
    """Unix milliseconds."""
    metadata: dict[str, str] | None = None
    """Given by its sender."""

    @property
    def arrived_at(self) -> int:
        return self.sent_at


class _Content(msgspec.Struct, frozen=True, omit_defaults=True):
    text: str
    metadata: dict[str, str] | None = None


_CONTENT: Final = msgspec.json.Decoder(_Content)


class _SentInput(NamedTuple):
    id: str
    user_id: str
    agent: str
    thread_id: str
    scopes: str
    content: SealedBytes
    at: int


class Inputs(TurnQueue[ClaimedInput]):
    """The messages to the agents of one database. Those of one thread run one after the other.

    Concurrency is limited by agent.
    """

    kind = ClaimedInput
    table = inputs
    columns = ("thread_id", "scopes", "content", "created_at")
    group = "agent"
    arrived = "created_at"
    content = inputs.c.content

    async def send(
        self,
        user_id: str,
        agent: str,
        thread_id: str,
        text: str,
        scopes: Iterable[Scope],
        metadata: Mapping[str, str] | None = None,
    ) -> str:
        """Store a message to the agent and return its id, which is also that of its run; it is committed then.

        `metadata`: stored with it. It runs after all turns that the thread has. Raises `UsageError` for an empty text,
        or one that is longer than `LONGEST` or no Unicode, `NotFound` if the user has no such thread with the agent,
        and `Unavailable`.
        """
        if not text.strip():
            raise UsageError("the message is empty")
        try:
            size = len(text.encode())
        except UnicodeEncodeError:
            raise UsageError("the message is not valid Unicode") from None
        if size > LONGEST:
            raise UsageError(f"the message has {size:,} bytes; at most {LONGEST:,} are allowed")
        input_id = uuid7(self._clock)
        encoded = msgspec.json.encode(_Content(text, dict(metadata) if metadata else None))
        content = self._seal.close(encoded, row=input_id, user_id=user_id)
        held = " ".join(sorted(scopes))
        sent = _SentInput(input_id, user_id, agent, thread_id, held, content, milliseconds(self._clock))
        await self._database.commits.store(_SENDING, sent)
        return input_id

    def read(self, connection: Connection, rows: Sequence[Any]) -> list[ClaimedInput | str]:
        return [self._input(row) for row in rows]

    def _input(self, row: Any) -> ClaimedInput | str:
        """Return the message of a claimed row, or why it can never run."""
        try:
            content = _CONTENT.decode(self._seal.open(row.content, row=row.id, user_id=row.user_id))
        except Unsealable as error:
            return error.line()
        return ClaimedInput(
            **self.turn_fields(row),
            thread_id=row.thread_id,
            text=content.text,
            metadata=content.metadata,
            scopes=read_scopes(row.scopes.split()),
            sent_at=row.created_at,
        )


def _send(connection: Connection, sent: Sequence[_SentInput]) -> list[Exception | None]:
    keys = [(each,) for each in sorted({each.thread_id for each in sent})]
    found = bulk.find(connection, threads, ("id",), ("user_id", "agent", "kind"), keys, lock="NO KEY UPDATE")
    owners = {row[0]: (row[1], row[2]) for row in found if row[3] != DELETED}
    # Messages of a commit whose confirmation was lost are stored already, and may have ended.
    stored = {row[0] for row in bulk.find(connection, inputs, ("id",), (), [(each.id,) for each in sent])}
    valid = [each for each in sent if owners.get(each.thread_id) == (each.user_id, each.agent)]
    new = [each for each in valid if each.id not in stored]
    bulk.insert(
        connection,
        runs,
        ("id", "user_id", "thread_id", "trigger", "agent", "state", "attempt", "started_at"),
        [(s.id, s.user_id, s.thread_id, ClaimedInput.trigger, s.agent, run.WAITING, 0, s.at) for s in new],
    )
    bulk.insert(
        connection,
        inputs,
        (
            *("id", "user_id", "agent", "thread_id", "scopes", "content", "created_at"),
            *("run_id", "state", "attempt", "tries", "next_attempt_at"),
        ),
        [(*each, each.id, WAITING, 0, 0, each.at) for each in new],
    )
    arrivals = [Arrival(s.id, s.user_id, s.thread_id, ClaimedInput.trigger, s.at) for s in new]
    thread_order.wait(connection, thread_order.arrivals_at_end(connection, arrivals))
    if new:
        thread_order.settle(connection, {each.thread_id for each in new}, max(each.at for each in new))
    known = {each.id for each in valid}
    return [None if s.id in known else NotFound(f"{s.agent} has no thread {s.thread_id}") for s in sent]


def _threads(connection: Connection, sent: Sequence[_SentInput]) -> set[str]:
    return {each.thread_id for each in sent}


_SENDING: Final[Stage[_SentInput, None]] = Stage(stage_ranks.SEND, _send, threads=_threads)
