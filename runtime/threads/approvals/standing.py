"""Tools that were approved for good: an agent calls them for a user without asking again, until that is revoked or the
tool is another one.

A row counts only with its sealed content, which names the agent, the tool and its definition: whoever can write to the
database has no key.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec
from sqlalchemy import Connection, delete, select

from runtime.clock import Clock, milliseconds, uuid7
from runtime.crypto import Unsealable
from runtime.database import bulk
from runtime.database.connection import Database
from runtime.database.schema import standing_approvals
from runtime.database.sealed import Seal
from runtime.errors import NotFound
from runtime.threads.approvals.approval import Via


class StandingApproval(NamedTuple):
    """A tool that an agent may call for a user. `created_at`: Unix milliseconds; `decided_by`: the id of a user.
    `via`: how it was decided; None if the row is not as it was stored, and approves nothing."""

    id: str
    user_id: str
    agent: str
    tool: str
    created_at: int
    decided_by: str
    via: Via | None


class _Content(msgspec.Struct, frozen=True):
    agent: str
    tool: str
    definition: str
    by: str
    via: Via


StoredRow = tuple[str, bytes]
"""The id and the content of a row."""

_CONTENT: Final = msgspec.json.Decoder(_Content)
_COLUMNS: Final = ("id", "user_id", "agent", "tool", "created_at", "decided_by", "content")


class StandingApprovals:
    """The standing approvals of one database."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._seal = Seal(database.keys, standing_approvals.c.content)

    def add(
        self, connection: Connection, user_id: str, agent: str, tool: str, *, definition: str, by: str, via: Via
    ) -> None:
        """Approve a tool with this definition for good, in place of an earlier approval of it."""
        table, new = standing_approvals, uuid7(self._clock)
        same = table.c.user_id == user_id, table.c.agent == agent, table.c.tool == tool
        connection.execute(delete(table).where(*same))
        content = msgspec.json.encode(_Content(agent, tool, definition, by, via))
        sealed = self._seal.close(content, row=new, user_id=user_id)
        row = (new, user_id, agent, tool, milliseconds(self._clock), by, sealed)
        bulk.insert(connection, table, _COLUMNS, [row], ignore=True)

    def stands(self, row: tuple[str, bytes] | None, user_id: str, agent: str, tool: str, definition: str) -> bool:
        """Return True if a stored row, its id and its content, approves a tool with this definition."""
        content = None if row is None else self._content_of(*row, user_id)
        return content is not None and (content.agent, content.tool, content.definition) == (agent, tool, definition)

    async def of_user(self, user_id: str, agent: str | None = None) -> list[StandingApproval]:
        """Return the standing approvals of a user, by agent and tool. Raises `Unavailable`."""
        query = select(*standing_approvals.c[*_COLUMNS]).where(standing_approvals.c.user_id == user_id)
        if agent is not None:
            query = query.where(standing_approvals.c.agent == agent)
        async with self._database.read() as connection:
            found = await connection.execute(query.order_by(standing_approvals.c.agent, standing_approvals.c.tool))
            return [self._approval_of(*row) for row in found]

    async def revoke(self, start: str, user_id: str | None) -> StandingApproval:
        """Revoke the one whose id begins with `start`, of the user, None: of any, and return it. Calls that began stay.
        Raises NotFound unless exactly one has such an id, and `Unavailable`."""

        def revoke_found(connection: Connection) -> list[StandingApproval]:
            begins = standing_approvals.c.id.startswith(start, autoescape=True)
            query = select(*standing_approvals.c[*_COLUMNS]).where(begins)
            if user_id is not None:
                query = query.where(standing_approvals.c.user_id == user_id)
            found = [self._approval_of(*row) for row in connection.execute(query.limit(2))]
            if len(found) == 1:
                connection.execute(delete(standing_approvals).where(standing_approvals.c.id == found[0].id))
            return found

        found = await self._database.transact(revoke_found) if start else []
        if len(found) != 1:
            what = "no standing approval's id begins" if not found else "the ids of several standing approvals begin"
            raise NotFound(f"{what} with {start[:80]!r}", hint="`symbi agent approvals list` shows them")
        return found[0]

    def _approval_of(
        self, row_id: str, user_id: str, agent: str, tool: str, created_at: int, by: str, sealed: bytes
    ) -> StandingApproval:
        content = self._content_of(row_id, sealed, user_id)
        valid = content is not None and (content.agent, content.tool, content.by) == (agent, tool, by)
        via = content.via if content is not None and valid else None
        return StandingApproval(row_id, user_id, agent, tool, created_at, by, via)

    def _content_of(self, row_id: str, sealed: bytes, user_id: str) -> _Content | None:
        try:
            return _CONTENT.decode(self._seal.open(sealed, row=row_id, user_id=user_id))
        except (Unsealable, msgspec.DecodeError):
            return None
