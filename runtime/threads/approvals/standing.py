"""Tools that were approved for good: an agent calls them for a user without asking again, until that is revoked."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Connection, delete, select

from runtime.clock import Clock, milliseconds, uuid7
from runtime.database import bulk
from runtime.database.connection import Database
from runtime.database.schema import standing_approvals
from runtime.errors import NotFound


class StandingApproval(NamedTuple):
    """A tool that an agent may call for a user. `created_at`: Unix milliseconds; `decided_by`: the id of a user."""

    id: str
    user_id: str
    agent: str
    tool: str
    created_at: int
    decided_by: str


_COLUMNS = StandingApproval._fields


def add(connection: Connection, clock: Clock, user_id: str, agent: str, tool: str, by: str) -> None:
    """Approve a tool for good; nothing changes if it is."""
    row = StandingApproval(uuid7(clock), user_id, agent, tool, milliseconds(clock), by)
    bulk.insert(connection, standing_approvals, _COLUMNS, [row], ignore=True)


async def of_user(database: Database, user_id: str, agent: str | None = None) -> list[StandingApproval]:
    """Return the standing approvals of a user, by agent and tool. Raises `Unavailable`."""
    query = select(*standing_approvals.c[*_COLUMNS]).where(standing_approvals.c.user_id == user_id)
    if agent is not None:
        query = query.where(standing_approvals.c.agent == agent)
    async with database.read() as connection:
        found = await connection.execute(query.order_by(standing_approvals.c.agent, standing_approvals.c.tool))
        return [StandingApproval(*row) for row in found]


async def revoke(database: Database, start: str, user_id: str | None) -> StandingApproval:
    """Revoke the one whose id begins with `start`, of the user, None: of any, and return it. Calls that began stay.
    Raises NotFound unless exactly one has such an id, and `Unavailable`."""

    def revoke_found(connection: Connection) -> list[StandingApproval]:
        begins = standing_approvals.c.id.startswith(start, autoescape=True)
        query = select(*standing_approvals.c[*_COLUMNS]).where(begins)
        if user_id is not None:
            query = query.where(standing_approvals.c.user_id == user_id)
        found = [StandingApproval(*row) for row in connection.execute(query.limit(2))]
        if len(found) == 1:
            connection.execute(delete(standing_approvals).where(standing_approvals.c.id == found[0].id))
        return found

    found = await database.transact(revoke_found) if start else []
    if len(found) != 1:
        what = "no standing approval's id begins" if not found else "the ids of several standing approvals begin"
        raise NotFound(f"{what} with {start[:80]!r}", hint="`symbi agent approvals list` shows them")
    return found[0]
