"""`agent_usage`: what models and embeddings used, and how much of the limits that is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from runtime.clock import milliseconds, rfc3339
from runtime.identity import users
from runtime.models.budgets.budgets import Budgets, State
from runtime.models.budgets.limits import DAY_MS, NANO, LimitName, Total
from runtime.models.calls.usage_sums import By, UsageSum, day_text, usage_sums
from runtime.tools.agent.access import check_agent
from runtime.tools.agent.types import User
from runtime.tools.context import Context
from runtime.tools.memory.access import asked_user, sees_all, user_filter
from runtime.tools.patterns import AGENT
from runtime.tools.result import Result
from runtime.tools.time_input import read_moment
from runtime.tools.tool import tool

_DAYS: Final = 30

Grouping = Annotated[By, Field(description="What the calls are added up by.")]
Since = Annotated[
    Annotated[str, Field(max_length=100)] | None,
    Field(
        description="Only calls since then: a duration before now, or a date; the default is the begin of the day "
        "(UTC), and with `by` `day` thirty days ago.",
        examples=["7d"],
    ),
]
OfAgent = Annotated[
    Annotated[str, Field(pattern=AGENT)] | None,
    Field(description="Only calls of this agent, by default of all.", examples=["assistant"]),
]


class UsageRow(Result):
    """The usage of some calls. Tokens that a service does not tell are not counted."""

    name: str = Field(description="The agent, the model, the user or the day (UTC); `-` for calls without an agent.")
    service_model: str | None = Field(description="The model by the service's own name, with `by` `model`.")
    calls: int
    unanswered: int = Field(description="Of the calls, those that failed or were cancelled.")
    tokens_in: int
    tokens_out: int
    cached: int = Field(description="Of `tokens_in`, those that the service read from its cache.")
    cost: float = Field(description="Cost in US dollars of the calls whose price is known.")
    unpriced: int = Field(description="Of the answered calls, those whose price is not known.")


class LimitUse(Result):
    """A limit of a user or an agent, and how much of it is used in this day or hour (UTC)."""

    user: str | None = Field(description="The user whose limit it is, over all agents.")
    agent: str | None = Field(description="The agent whose limit it is, over all users.")
    limit: LimitName | Literal["texts"]
    most: float = Field(description="The limit: tokens, US dollars, runs, or with `texts` bytes that may be stored.")
    used: float
    reserved: float = Field(description="What calls that have not ended may use.")
    share: float = Field(description="The share that is used or reserved: 1 is all of it.")


class AgentUsage(Result):
    """The usage of models and embeddings."""

    by: By
    since: str
    rows: list[UsageRow]
    total: UsageRow
    limits: list[LimitUse]


@tool("read", example={"by": "model", "since": "7d"})
async def agent_usage(
    context: Context, by: Grouping = "agent", since: Since = None, agent: OfAgent = None, user: User = None
) -> AgentUsage:
    """Show what models and embeddings used and cost, and how much of limits is left.

    Without the scope `admin` these are the caller's own calls and limits; with it those of all users, unless `user` is
    given. Limits count calls of language models at the prices of the program alone, from the begin of a day (UTC).
    """
    user_id = user_filter(context, await asked_user(context, user))
    begin = _start(context, by, since)
    sums = await usage_sums(context.database, by, begin, user_id=user_id, agent=agent)
    if not sums:
        check_agent(context, agent)
    known = await users.names(context.database)
    rows = [_row(by, each, known) for each in sums]
    budgets = context.limits.budgets
    limits = [] if budgets is None else await _limits(context, budgets, user_id, agent, known)
    return AgentUsage(by=by, since=rfc3339(begin / 1000), rows=rows, total=_total(rows), limits=limits)


def _start(context: Context, by: By, since: str | None) -> int:
    if since is not None:
        return round(read_moment(since, "since", context.clock).timestamp() * 1000)
    today = milliseconds(context.clock) // DAY_MS
    return (today - _DAYS + 1 if by == "day" else today) * DAY_MS


def _row(by: By, each: UsageSum, known: Mapping[str, str]) -> UsageRow:
    service_model = None
    match by:
        case "model":
            embedding, name, service_model = each.group
            name = f"embedding/{name}" if embedding else name
        case "user":
            name = users.display_name(known, each.group[0])
        case "day":
            name = day_text(each.group[0])
        case _:
            name = each.group[0] or "-"
    counts: dict[str, Any] = each._asdict() | {"cost": each.cost / NANO}
    del counts["group"]
    return UsageRow(name=name, service_model=service_model, **counts)


def _total(rows: Iterable[UsageRow]) -> UsageRow:
    names = ("calls", "unanswered", "tokens_in", "tokens_out", "cached", "cost", "unpriced")
    every = list(rows)
    sums: dict[str, Any] = {name: sum(getattr(row, name) for row in every) for name in names}
    return UsageRow(name="total", service_model=None, **sums)


async def _limits(
    context: Context, budgets: Budgets, user_id: str | None, agent: str | None, known: Mapping[str, str]
) -> list[LimitUse]:
    """Return the limits of agents, which administrators see, and those of the user, or of all."""
    agents = sorted(context.agents) if agent is None else [agent]
    found = budgets.of_agents(agents if sees_all(context) else [])
    if user_id is None:
        found |= await budgets.of_users()
    elif limits := await budgets.of_user(user_id):
        found[Total.of_user(user_id)] = limits
    states = await budgets.states(found)
    uses = [use for total, state in states.items() for use in _limit_uses(total, state, known)]
    return uses if user_id is None else [*uses, *await _texts(context, user_id, known)]


async def _texts(context: Context, user_id: str, known: Mapping[str, str]) -> list[LimitUse]:
    """Return how much a user has stored in memories, conversations and core memory."""
    if context.limits.texts is None or context.limits.storage is None:
        return []
    used, most = await context.limits.texts.used_bytes(user_id), (await context.limits.storage.quota(user_id)).texts
    name, share = users.display_name(known, user_id), round(used / most, 4)
    return [LimitUse(user=name, agent=None, limit="texts", most=most, used=used, reserved=0, share=share)]


def _limit_uses(total: Total, state: State, known: Mapping[str, str]) -> Iterable[LimitUse]:
    numbers: tuple[tuple[LimitName, float, float, int], ...] = (
        ("tokens_per_day", state.used.tokens, state.reserved.tokens, 1),
        ("cost_per_day", state.used.cost, state.reserved.cost, NANO),
        ("runs_per_hour", state.runs or 0, 0, 1),
    )
    for (name, used, reserved, parts), most in zip(numbers, state.limits, strict=True):
        if most is not None:
            yield LimitUse(
                user=None if total.agent else users.display_name(known, total.user_id),
                agent=total.agent or None,
                limit=name,
                most=most / parts,
                used=used / parts,
                reserved=reserved / parts,
                share=round((used + reserved) / most, 4),
            )
