"""Admission: all deliveries that wait at a moment are decided and stored in one transaction, and answered after it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection

from runtime.clock import Clock, milliseconds, uuid7
from runtime.database import Database, bulk
from runtime.database.failure import Collision
from runtime.database.group_commit import Plain, Stage
from runtime.database.schema import bodies, deliveries, replay_keys
from runtime.database.sealed import Seal
from runtime.errors import Retry
from runtime.webhooks.delivery import DEAD, QUEUED, Candidate, Decision, Verdict
from runtime.webhooks.kept import pack

CAPACITY = 1024
"""Deliveries that may wait for a transaction."""

CAPACITY_BYTES = 64 * 1024 * 1024
"""Bytes of their bodies."""

LONGEST_ID = 200
"""Characters of a sender's delivery id as it stands; a longer one is kept as its hash."""

_IDENTITY = ("user_id", "webhook", "provider_delivery_id")
_KEY = ("user_id", "webhook", "mac")
_KEY_COLUMNS = (*_KEY, "expires_at", "delivery_id")
_BODY_COLUMNS = ("delivery_id", "user_id", "body", "headers_size")
_COLUMNS = (
    *("id", "user_id", "webhook", "agent", "provider", "provider_delivery_id", "event", "received_at", "source"),
    *("size", "body_sha256", "content_type", "headers", "verified", "secret_index", "keep_body"),
    *("state", "attempt", "tries", "next_attempt_at"),
)
_json = msgspec.json.Encoder()


class Busy(Retry):
    """Too many deliveries wait already; `retry_after` is in seconds."""

    retry_after = 1


class First(NamedTuple):
    """The delivery that has an id already."""

    delivery_id: str
    state: str


class _Entry(NamedTuple):
    """A candidate on its way into a transaction."""

    candidate: Candidate
    delivery_id: str
    identity: tuple[str, str, str] | None
    key: tuple[str, str, bytes] | None
    row: tuple[Any, ...]
    now: int


class Admission:
    """Decides and stores candidates. One for each daemon; several daemons may share a PostgreSQL database.

    `on_admitted` is called, in the event loop, for each delivery that is committed and waits to run.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        *,
        capacity: int = CAPACITY,
        on_admitted: Callable[[], None] = lambda: None,
    ) -> None:
        self._commits = database.commits
        self._clock = clock
        self._capacity = capacity
        self.on_admitted = on_admitted
        self._bytes = 0
        self._seal = Seal(database.master_key, bodies.c.body)
        self._stage = Stage(1, self._admit, self._plainly)

    async def admit(self, candidate: Candidate) -> Decision:
        """Decide about `candidate`; when this returns, the decision is committed.

        Raises `Busy` when too much waits, and `runtime.database.Unavailable` when nothing could be stored.
        """
        size = len(candidate.body)
        if self._commits.depth >= self._capacity or (self._bytes and self._bytes + size > CAPACITY_BYTES):
            raise Busy("too many deliveries wait to be stored")
        entry = self._entry(candidate)
        self._bytes += size
        try:
            decision: Decision = await self._commits.store(self._stage, entry)
        finally:
            self._bytes -= size
        if decision.verdict == "accepted" or decision.queued_again:
            self.on_admitted()
        return decision

    async def close(self) -> None:
        """Take no more; what waits is stored before the database is closed."""
        self._capacity = 0

    def _entry(self, candidate: Candidate) -> _Entry:
        delivery_id, now = uuid7(self._clock), milliseconds(self._clock)
        user, webhook = candidate.user_id, candidate.webhook
        provider_id = _storable_id(candidate.provider_delivery_id)
        row = (
            *(delivery_id, user, webhook, candidate.agent, candidate.provider, provider_id),
            *(storable(candidate.event), now, storable(candidate.source), len(candidate.body), candidate.body_sha256),
            *(storable(candidate.content_type), headers_json(candidate.headers)),
            *(candidate.verified, candidate.secret_index, candidate.keep_body),
            *(QUEUED, 0, 0, now),
        )
        identity = None if provider_id is None else (user, webhook, provider_id)
        key = None if candidate.replay_key is None else (user, webhook, candidate.replay_key)
        return _Entry(candidate, delivery_id, identity, key, row, now)

    def _admit(self, connection: Connection, entries: Sequence[_Entry]) -> list[Decision]:
        """Decide about all entries and store what is accepted. Runs in the writer's transaction."""
        if self._all_new(connection, entries):
            return [Decision("accepted", entry.delivery_id) for entry in entries]
        # Of a commit whose answer was lost with the connection: these are here already, and they are these very ones.
        wanted = [(entry.delivery_id,) for entry in entries]
        stored = {row[0] for row in bulk.find(connection, deliveries, ("id",), (), wanted)}
        firsts = _firsts(connection, entries)
        seen = _seen(connection, entries)
        decisions: list[Decision] = []
        accepted: list[_Entry] = []
        again: list[tuple[str, _Entry]] = []
        for entry in entries:
            if entry.delivery_id in stored:
                decisions.append(Decision("accepted", entry.delivery_id))
                continue
            first = firsts.get(entry.identity) if entry.identity else None
            verdict = decide(first, seen=entry.key in seen)
            if verdict == "accepted":
                accepted.append(entry)
                decision = Decision("accepted", entry.delivery_id)
                if entry.identity:
                    firsts[entry.identity] = First(entry.delivery_id, QUEUED)
                if entry.key:
                    seen[entry.key] = entry.delivery_id
            elif verdict == "repeated" and first is not None:
                decision = Decision("repeated", first.delivery_id, first.state == DEAD)
                if first.state == DEAD and entry.identity:
                    again.append((first.delivery_id, entry))
                    firsts[entry.identity] = first._replace(state=QUEUED)
            else:
                decision = Decision("replayed", seen[entry.key] if entry.key else "")
            decisions.append(decision)
        self._insert(connection, accepted)
        if again:
            self._queue_again(connection, again)
        return decisions

    def _plainly(self, entries: Sequence[_Entry]) -> Plain[Decision]:
        """The statements that store all entries, when not one of them is a repeat or a replay."""
        statements = [
            *bulk.inserting("sqlite", deliveries, _COLUMNS, [entry.row for entry in entries]),
            *bulk.inserting("sqlite", replay_keys, _KEY_COLUMNS, _keys(entries)),
            *bulk.inserting("sqlite", bodies, _BODY_COLUMNS, self._bodies((e.delivery_id, e) for e in entries)),
        ]
        return Plain(statements, [Decision("accepted", entry.delivery_id) for entry in entries])

    def _all_new(self, connection: Connection, entries: Sequence[_Entry]) -> bool:
        """Store all entries when not one of them is a repeat or a replay, as is nearly always so: the unique keys say
        it without a look beforehand. Otherwise store nothing."""
        attempt = connection.begin_nested()
        try:
            self._insert(connection, list(entries))
        except Collision:
            attempt.rollback()
            return False
        attempt.commit()
        return True

    def _insert(self, connection: Connection, accepted: list[_Entry]) -> None:
        """Store the accepted rows, their bodies and their replay keys.

        Two daemons may store one id or key at the same time; both insert in the order of the keys, so that one
        waits for the other, finds a row missing, and decides again.
        """
        accepted.sort(key=lambda entry: entry.identity or ())
        made = bulk.insert(connection, deliveries, _COLUMNS, [entry.row for entry in accepted], ignore=True)
        if made != len(accepted):
            raise Collision
        keys = _keys(accepted)
        made = bulk.insert(connection, replay_keys, _KEY_COLUMNS, keys, ignore=True)
        if made != len(keys):
            raise Collision
        self._insert_bodies(connection, ((entry.delivery_id, entry) for entry in accepted))

    def _insert_bodies(self, connection: Connection, of: Iterable[tuple[str, _Entry]]) -> None:
        bulk.insert(connection, bodies, _BODY_COLUMNS, self._bodies(of), ignore=True)

    def _bodies(self, of: Iterable[tuple[str, _Entry]]) -> list[tuple[Any, ...]]:
        """Rows of sealed bodies, each with the delivery that it belongs to."""
        rows = []
        for row, entry in of:
            user = entry.candidate.user_id
            piece, headers_size = pack(entry.candidate.received, entry.candidate.body)
            rows.append((row, user, self._seal.close(piece, row=row, user_id=user), headers_size))
        return rows

    def _queue_again(self, connection: Connection, again: list[tuple[str, _Entry]]) -> None:
        """Queue dead letters that their sender sent again; a body that is gone is taken from the repeat."""
        again.sort(key=lambda pair: pair[0])
        for delivery_id, entry in again:
            connection.execute(
                deliveries.update()
                .where(deliveries.c.id == delivery_id, deliveries.c.state == DEAD)
                .values(state=QUEUED, tries=0, next_attempt_at=entry.now, finished_at=None)
            )
        self._insert_bodies(connection, again)


def _keys(entries: Sequence[_Entry]) -> list[tuple[Any, ...]]:
    """Rows of replay keys, in the order of the keys."""
    return sorted(
        (*entry.key, int(entry.candidate.replay_until * 1000), entry.delivery_id) for entry in entries if entry.key
    )


def decide(first: First | None, *, seen: bool) -> Verdict:
    """The whole rule. `first`: the delivery with this id; `seen`: this request's replay key is known.

    The id comes first: a sender's retry may be byte for byte the same request, and deserves the first one's answer.
    """
    if first is not None:
        return "repeated"
    return "replayed" if seen else "accepted"


def storable(text: str | None) -> str | None:
    """`text` without what a database refuses: NUL, and halves of surrogate pairs, become U+FFFD."""
    if text is None or (text.isascii() and "\x00" not in text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\x00", "\ufffd")


def headers_json(headers: Sequence[tuple[str, str]]) -> str:
    """Headers as they are stored."""
    return _json.encode([(name, storable(value)) for name, value in headers]).decode()


def _storable_id(provider_id: str | None) -> str | None:
    if provider_id is not None and len(provider_id) > LONGEST_ID:
        return "sha256:" + hashlib.sha256(provider_id.encode("utf-8", "surrogatepass")).hexdigest()
    return storable(provider_id)


def _firsts(connection: Connection, entries: Sequence[_Entry]) -> dict[tuple[str, str, str] | None, First]:
    wanted = [entry.identity for entry in entries if entry.identity]
    rows = bulk.find(connection, deliveries, _IDENTITY, ("id", "state"), wanted)
    return {(row[0], row[1], row[2]): First(row[3], row[4]) for row in rows}


def _seen(connection: Connection, entries: Sequence[_Entry]) -> dict[tuple[str, str, bytes] | None, str]:
    wanted = [entry.key for entry in entries if entry.key]
    rows = bulk.find(connection, replay_keys, _KEY, ("delivery_id",), wanted)
    return {(row[0], row[1], bytes(row[2])): row[3] for row in rows}
