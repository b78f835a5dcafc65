"""The budgets of agents and users, from which calls reserve before they begin and which runs may not exceed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from sqlalchemy import Connection, select

from runtime.clock import Clock, milliseconds, uuid7
from runtime.database.connection import Database
from runtime.database.errors import Unavailable
from runtime.database.schema import usage_totals
from runtime.identity.user_settings import NO_LIMIT, UserSettings, UserSettingsStore
from runtime.models.budgets.ledger import (
    LEDGER,
    Answer,
    BudgetBusy,
    CallEnd,
    CallStart,
    Grant,
    RunStart,
    reserved_amounts,
    runs_in,
    used_amounts,
    used_up_error,
)
from runtime.models.budgets.limits import (
    HOUR_MS,
    UNLIMITED,
    Amount,
    BudgetExceeded,
    LimitName,
    Limits,
    Total,
    day_of,
    exceeded_error,
    no_price_error,
)

BUSY_SECONDS: Final = 30.0
"""Seconds for which a call waits until others have ended that may use what is left."""
_LOOK_SECONDS: Final = (0.1, 0.2, 0.5, 1.0)


class CallEstimate(NamedTuple):
    """A call that is about to begin. `tokens`: it may use at most. `cost`: in 1e-9 US dollars, by the prices of the
    program; None without. `model`: as messages name it."""

    tokens: int
    cost: int | None
    model: str


class Reservation(NamedTuple):
    """A reservation for a call. `at`: Unix milliseconds; it counts for the day of this time, whenever it ends."""

    id: str
    at: int


class State(NamedTuple):
    """The usage of a total, beside its limits. `reserved`: by calls that have not ended. `runs`: that began in this
    hour; None without a limit of runs, as they are not counted then."""

    limits: Limits
    used: Amount
    reserved: Amount
    runs: int | None


class Budgets:
    """The budgets of one database. Agents and users without limits cost no write."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        settings: UserSettingsStore,
        *,
        of_agent: Callable[[str], Limits] = lambda agent: UNLIMITED,
        of_users: Limits = UNLIMITED,
        waits: Callable[[str], bool] = lambda agent: False,
    ) -> None:
        """`of_agent`: returns the limits that the program gives an agent. `of_users`: of users without their own.
        `waits`: returns True for an agent at whose limits people wait, instead of being refused."""
        self._database = database
        self._clock = clock
        self._settings = settings
        self._of_agent = of_agent
        self._of_users = of_users
        self._waits = waits
        self._shares: dict[str, tuple[int, float]] = {}
        self.on_exceeded: Callable[[LimitName], None] = lambda limit: None
        """Called with the limit when it does not allow a call or a run."""

    async def reserve(self, user_id: str, agent: str | None, asked: Callable[[], CallEstimate]) -> Reservation | None:
        """Reserve what a call may use; None if nothing limits the call. Its end has to be stored in any case, see
        `CallEnd`.

        Waits a while for calls that have not ended, if what they reserved is too much. Raises BudgetExceeded,
        `Unavailable`.
        """
        limits = {total: each for total, each in (await self._limits(user_id, agent)).items() if _of_calls(each)}
        if not limits:
            return None
        call, now = asked(), milliseconds(self._clock)
        for total, each in limits.items():
            if call.cost is None and each.cost_per_day is not None:
                self.on_exceeded("cost_per_day")
                raise no_price_error(total, each, call.model, now)
        return await self._reserve_within(limits, Amount(call.tokens, call.cost or 0))

    async def _reserve_within(self, limits: Mapping[Total, Limits], most: Amount) -> Reservation:
        reservation = uuid7(self._clock)
        until, looks = self._clock.monotonic() + BUSY_SECONDS, 0
        while True:
            wanted = CallStart(reservation, limits, most, milliseconds(self._clock))
            try:
                answer = await self._database.commits.store(LEDGER, wanted)
            except BudgetExceeded as error:
                self.on_exceeded(error.limit)
                raise
            except BaseException:
                # It may be stored all the same, and nothing is called. What cannot be taken back counts for its day.
                with suppress(Unavailable):
                    end = self._database.commits.put(LEDGER, CallEnd(None, reservation=reservation))
                    end.add_done_callback(_ignore_error)
                raise
            if not isinstance(answer, BudgetBusy):
                self._note(answer, wanted.now)
                return Reservation(reservation, wanted.now)
            if self._clock.monotonic() >= until:
                self.on_exceeded(answer.error.limit)
                raise answer.error
            await self._clock.sleep(_LOOK_SECONDS[min(looks, len(_LOOK_SECONDS) - 1)])
            looks += 1

    def _note(self, answer: Answer, now: int) -> None:
        assert isinstance(answer, Grant)
        for total, share in answer.shares.items():
            if total.agent:
                self._shares[total.agent] = day_of(now), share

    def shares(self) -> dict[str, float]:
        """Return the share of its limits per day that each agent had used or reserved at its last call here, if that
        was today. May be called in another thread."""
        today = day_of(milliseconds(self._clock))
        return {agent: share for agent, (day, share) in self._shares.copy().items() if day == today}

    async def begin(self, run_id: str, user_id: str, agent: str, *, calls: bool) -> None:
        """Count a run that begins, once for all its attempts. `calls`: it calls models, whose limits must not be used
        up. Raises BudgetExceeded, `Unavailable`."""
        limits = {
            total: each
            for total, each in (await self._limits(user_id, agent)).items()
            if each.runs_per_hour is not None or (calls and _of_calls(each))
        }
        if not limits:
            return
        begun = RunStart(run_id, limits, milliseconds(self._clock), calls)
        try:
            await self._database.commits.store(LEDGER, begun)
        except BudgetExceeded as error:
            self.on_exceeded(error.limit)
            raise

    async def refusal(self, user_id: str, agent: str) -> BudgetExceeded | None:
        """Return the error that would refuse a message of the user to the agent now; None if it would be accepted, or
        would wait. Counts nothing. Raises `Unavailable`."""
        if self._waits(agent):
            return None
        now = milliseconds(self._clock)
        for total, state in (await self.states(await self._limits(user_id, agent))).items():
            error = used_up_error(total, state.limits, state.used, now)
            most = state.limits.runs_per_hour
            if error is None and most is not None and state.runs is not None and state.runs >= most:
                error = exceeded_error(total, state.limits, "runs_per_hour", now)
            if error is not None:
                return error
        return None

    async def check(self, user_id: str, agent: str) -> None:
        """Raise what `refusal` returns."""
        refusal = await self.refusal(user_id, agent)
        if refusal is not None:
            self.on_exceeded(refusal.limit)
            raise refusal

    async def states(self, limits: Mapping[Total, Limits]) -> dict[Total, State]:
        """Return the usage of these limits now. Raises `Unavailable`."""
        if not limits:
            return {}
        now = milliseconds(self._clock)
        keys = sorted((*total, day_of(now)) for total in limits)

        def read(connection: Connection) -> dict[Total, State]:
            done, held = used_amounts(connection, keys), reserved_amounts(connection, keys)
            return {
                total: State(
                    each,
                    done[*total, day_of(now)],
                    held[*total, day_of(now)],
                    None if each.runs_per_hour is None else runs_in(connection, total, now // HOUR_MS),
                )
                for total, each in limits.items()
            }

        async with self._database.read() as connection:
            return await connection.run_sync(read)

    def of_agents(self, agents: Sequence[str]) -> dict[Total, Limits]:
        """Return the limits of those of these agents that have any."""
        found = {Total.of_agent(agent): self._of_agent(agent) for agent in agents}
        return {total: limits for total, limits in found.items() if limits}

    async def of_users(self) -> dict[Total, Limits]:
        """Return the limits of the users who have limits of their own, or who used something today. Raises
        `Unavailable`."""
        settings, today = await self._settings.all(), day_of(milliseconds(self._clock))
        query = select(usage_totals.c.user_id).where(usage_totals.c.agent == "", usage_totals.c.day == today)
        async with self._database.read() as connection:
            ids = {*settings, *(await connection.execute(query)).scalars()}
        found = {Total.of_user(each): self._limits_with(settings.get(each, UserSettings())) for each in sorted(ids)}
        return {total: limits for total, limits in found.items() if limits}

    async def limits_costs(self) -> bool:
        """True if the costs of any user are limited. Raises `Unavailable`."""
        found = [self._of_users, *map(self._limits_with, (await self._settings.all()).values())]
        return any(limits.cost_per_day is not None for limits in found)

    async def of_user(self, user_id: str) -> Limits:
        """Return the limits of a user. Raises `Unavailable`."""
        return self._limits_with(await self._settings.of(user_id))

    def _limits_with(self, own: UserSettings) -> Limits:
        return Limits(*(_effective(getattr(own, name), most) for name, most in self._of_users._asdict().items()))

    async def _limits(self, user_id: str, agent: str | None) -> dict[Total, Limits]:
        found = self.of_agents([agent] if agent else [])
        if limits := await self.of_user(user_id):
            found[Total.of_user(user_id)] = limits
        return found


def _of_calls(limits: Limits) -> bool:
    return limits.tokens_per_day is not None or limits.cost_per_day is not None


def _effective(own: int | None, default: int | None) -> int | None:
    if own is None:
        return default
    return None if own == NO_LIMIT else own


def _ignore_error(future: asyncio.Future[Answer]) -> None:
    """Mark the failure of a write as seen."""
    if not future.cancelled():
        future.exception()
