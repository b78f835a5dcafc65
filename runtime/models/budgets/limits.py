"""Limits of an agent or a user, the periods for which they hold, and the error at a limit."""

from __future__ import annotations

import math
from decimal import Decimal, InvalidOperation
from typing import Final, Literal, NamedTuple, get_args

from dslc.blocks.agent import Agent
from runtime.clock import rfc3339
from runtime.errors import GiveUp, UsageError

NANO: Final = 1_000_000_000
"""Parts of a US dollar in which costs are stored."""
DAY_MS: Final = 86_400_000
HOUR_MS: Final = 3_600_000

LimitName = Literal["tokens_per_day", "cost_per_day", "runs_per_hour"]
LIMITS: Final[tuple[LimitName, ...]] = get_args(LimitName)


class Limits(NamedTuple):
    """Limits by name; None: no limit. `cost_per_day`: in 1e-9 US dollars."""

    tokens_per_day: int | None = None
    cost_per_day: int | None = None
    runs_per_hour: int | None = None

    def __bool__(self) -> bool:
        return any(each is not None for each in self)


UNLIMITED: Final = Limits()

LARGEST: Final = Limits(1_000_000_000_000, 1_000_000 * NANO, 1_000_000)
"""The largest limits."""
SMALLEST: Final = Limits(1, NANO // 10_000, 1)


def limits_of(agent: Agent) -> Limits:
    """Return the limits that a program gives an agent."""
    given = agent.limits
    return Limits(given.tokens_per_day, in_nano(given.cost_per_day), given.runs_per_hour)


def read_limit(name: LimitName, text: str) -> int:
    """Return a limit that a person writes: a number of tokens or runs, or US dollars. Raises UsageError."""
    try:
        number = Decimal(text.replace("_", "").replace(",", "").removeprefix("$"))
        limit = number * (NANO if name == "cost_per_day" else 1)
        if number.is_finite() and limit == int(limit) and getattr(SMALLEST, name) <= limit <= getattr(LARGEST, name):
            return int(limit)
    except InvalidOperation:
        pass
    low, high = (limit_text(name, getattr(bounds, name)) for bounds in (SMALLEST, LARGEST))
    raise UsageError(f"{name}: {text[:80]!r} is no limit", hint=f"write a number from {low} to {high}")


def in_nano(dollars: float | None) -> int | None:
    """Return a cost in 1e-9 US dollars."""
    return None if dollars is None else round(dollars * NANO)


class Total(NamedTuple):
    """A user, over all agents, or an agent, over all users, whose use is added up; the other name is empty."""

    user_id: str
    agent: str

    @classmethod
    def of_user(cls, user_id: str) -> Total:
        return cls(user_id, "")

    @classmethod
    def of_agent(cls, agent: str) -> Total:
        return cls("", agent)


class Amount(NamedTuple):
    """Tokens, and cost in 1e-9 US dollars."""

    tokens: int = 0
    cost: int = 0

    def plus(self, other: Amount) -> Amount:
        return Amount(self.tokens + other.tokens, self.cost + other.cost)


class BudgetExceeded(GiveUp):
    """A limit does not allow this call, or this run. Nothing was called.

    `until`: Unix milliseconds of the next period. `limit`: its name. `fits_never`: not in the next period either.
    """

    cause = "budget_exceeded"

    def __init__(
        self, message: str, *, limit: LimitName, until: int, now: int, fits_never: bool = False, hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.limit = limit
        self.until = until
        self.retry_after = max(1, math.ceil((until - now) / 1000))
        self.fits_never = fits_never


def day_of(now: int) -> int:
    """Return the UTC day of a time in Unix milliseconds, as a number of days."""
    return now // DAY_MS


def exceeded_error(total: Total, limits: Limits, name: LimitName, now: int) -> BudgetExceeded:
    """Return the error of a total that has reached a limit at `now` (Unix milliseconds)."""
    period = HOUR_MS if name == "runs_per_hour" else DAY_MS
    until = (now // period + 1) * period
    hint = f"it may go on at {rfc3339(until / 1000)}, or when the limit is raised"
    return BudgetExceeded(f"{_limit_of(total, limits, name)} is used up", limit=name, until=until, now=now, hint=hint)


def too_large_error(total: Total, limits: Limits, name: LimitName, used: Amount, now: int) -> BudgetExceeded:
    """Return the error of a call that may use more than the limit of a whole day."""
    most = tokens_text(used.tokens) if name == "tokens_per_day" else cost_text(used.cost)
    message = f"{_limit_of(total, limits, name)} is less than one call of the model may take, {most}"
    hint = "raise the limit, or lower `reply_tokens` or `max_tokens` of the agent's `context`"
    until = (day_of(now) + 1) * DAY_MS
    return BudgetExceeded(message, limit=name, until=until, now=now, fits_never=True, hint=hint)


def no_price_error(total: Total, limits: Limits, model: str, now: int) -> BudgetExceeded:
    """Return the error of a call whose cost is not known, for a total whose cost is limited."""
    message = f"{_limit_of(total, limits, 'cost_per_day')} cannot be kept: the model {model} has no prices"
    hint = "give its block `input_price` and `output_price`; 0 if it costs nothing"
    until = (day_of(now) + 1) * DAY_MS
    return BudgetExceeded(message, limit="cost_per_day", until=until, now=now, hint=hint)


def limit_text(name: LimitName, number: int) -> str:
    """Return a limit as people read it: `20,000 tokens per day`."""
    match name:
        case "tokens_per_day":
            return f"{tokens_text(number)} per day"
        case "cost_per_day":
            return f"{cost_text(number)} per day"
        case _:
            return f"{number:,} {'run' if number == 1 else 'runs'} per hour"


def tokens_text(tokens: int) -> str:
    return f"{tokens:,} {'token' if tokens == 1 else 'tokens'}"


def cost_text(cost: int) -> str:
    """Return a cost as dollars and cents, with more digits if it has them."""
    whole, rest = divmod(cost, NANO)
    digits = f"{rest:09d}".rstrip("0")
    return f"${whole:,}.{digits:0<2}"


def _limit_of(total: Total, limits: Limits, name: LimitName) -> str:
    number = getattr(limits, name)
    owner = f"the agent {total.agent}" if total.agent else "the user"
    return f"the limit of {owner}, {limit_text(name, number)},"
