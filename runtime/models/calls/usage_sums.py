"""Sums over the rows of calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

from sqlalchemy import Column, ColumnElement, case, func, select

from runtime.clock import rfc3339
from runtime.database.connection import Database
from runtime.database.schema import usage
from runtime.models.budgets.limits import DAY_MS

By = Literal["agent", "model", "user", "day"]

MOST_GROUPS: Final = 1000
"""Maximum number of groups that are returned, those with the most tokens first."""


class UsageSum(NamedTuple):
    """The usage of several calls together. `group`: the values by which they were chosen. `unanswered`: of the calls,
    those that failed or were cancelled. `unpriced`: of the answered ones, those whose cost is not known. `cost`: in
    1e-9 US dollars."""

    group: tuple[Any, ...]
    calls: int
    unanswered: int
    unpriced: int
    tokens_in: int
    tokens_out: int
    cached: int
    cost: int


_GROUPS: Final[Mapping[By, tuple[ColumnElement[Any], ...]]] = {
    "agent": (usage.c.agent,),
    "model": (usage.c.purpose == "embedding", usage.c.model, usage.c.service_model),
    "user": (usage.c.user_id,),
    "day": (usage.c.created_at // DAY_MS,),
}


async def usage_sums(
    database: Database, by: By, since: int, *, user_id: str | None = None, agent: str | None = None
) -> list[UsageSum]:
    """Return the sums of the calls since a time (Unix milliseconds), of one user and one agent or of all. Days are in
    order, other groups by their tokens. Raises `Unavailable`."""
    group, answered = _GROUPS[by], usage.c.outcome == "answered"
    tokens = _sum(usage.c.tokens_in) + _sum(usage.c.tokens_out)
    query = select(
        *group,
        func.count(),
        func.sum(case((answered, 0), else_=1)),
        func.sum(case((answered & usage.c.cost.is_(None), 1), else_=0)),
        *map(_sum, (usage.c.tokens_in, usage.c.tokens_out, usage.c.cached, usage.c.cost)),
    ).where(usage.c.created_at >= since)
    if user_id is not None:
        query = query.where(usage.c.user_id == user_id)
    if agent is not None:
        query = query.where(usage.c.agent == agent)
    ordered = query.group_by(*group).order_by(*((group[0].desc(),) if by == "day" else (tokens.desc(), *group)))
    async with database.read() as connection:
        rows = (await connection.execute(ordered.limit(MOST_GROUPS))).all()
    return [UsageSum(tuple(row[: len(group)]), *map(int, row[len(group) :])) for row in rows]


def _sum(column: Column[Any]) -> ColumnElement[Any]:
    return func.coalesce(func.sum(column), 0)


def day_text(day: int) -> str:
    """Return the date of a day, as the groups by day have it."""
    return rfc3339(day * DAY_MS / 1000)[:10]
