"""Calls of one block or row to its service: limited, repeated and counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

from dslc.blocks.values.quantity import format_duration
from runtime.clock import SYSTEM, Clock, milliseconds
from runtime.errors import Retry
from runtime.models.budgets.budgets import CallEstimate, Reservation
from runtime.models.budgets.limits import Amount
from runtime.models.calls.call import Call, CallOwner, Outcome, Purpose
from runtime.models.calls.price import Price
from runtime.models.calls.service import Service, Services
from runtime.models.request import Reply, Usage
from runtime.outbound.http import CallFailed, passes
from runtime.outbound.retry import LONGEST_WAIT_SECONDS, call_with_retries

Answer = TypeVar("Answer")

TRIES: Final = 3
"""Number of times that a call is made while it fails and may succeed later."""
_MARGIN_SECONDS: Final = 1.0
"""Seconds for which a model may exceed the deadline of a call, so that its own error, which is more exact, comes
first."""

LARGEST_TOKENS: Final = 2**31 - 1
"""Maximum number of tokens of a call that is believed."""

Record = Callable[[Call], None]
Reserve = Callable[[str, str | None, Callable[[], CallEstimate]], Awaitable[Reservation | None]]
"""See `Budgets.reserve`."""


def record_nothing(_call: Call) -> None:
    """Record nothing, for calls outside of a daemon."""


async def reserve_nothing(_user_id: str, _agent: str | None, _asked: Callable[[], CallEstimate]) -> None:
    """Limit nothing, for calls outside of a daemon."""


@dataclass(frozen=True, slots=True)
class CallContext:
    """Services and accounting of all calls of a process. `record` gets every call, also one that `reserve` did not
    limit."""

    services: Services = field(default_factory=Services)
    record: Record = record_nothing
    clock: Clock = SYSTEM
    reserve: Reserve = reserve_nothing


class CallKind(NamedTuple):
    """The owner and the purpose of a call. `most`: returns the tokens that it may use; None for a call that no limit
    counts, which is that of an embedding."""

    owner: CallOwner
    purpose: Purpose
    most: Callable[[], Usage] | None = None


@dataclass(slots=True)
class _CallOutcome:
    """The outcome of a call. `maybe_done`: see `SymbiontError`."""

    outcome: Outcome = "refused"
    usage: Usage = field(default_factory=Usage)
    maybe_done: bool = False


class CountedCalls:
    """The calls of one block or row to its service, which it may share with others."""

    def __init__(
        self,
        name: str,
        model: str,
        service: Service,
        context: CallContext,
        *,
        price: Price | None = None,
        label: str | None = None,
        longest_wait: float = LONGEST_WAIT_SECONDS,
    ) -> None:
        """`name`: of the block, or of the row. `model`: by the service's own name. `label`: as metrics show it, by
        default the name. `longest_wait`: seconds of a `Retry-After` that a call waits for at most."""
        self.name = name
        self.model = model
        self.service = service
        service.add_label(self, label or name)
        self._price = price
        self._longest_wait = longest_wait
        self._reserve = context.reserve
        self._record = context.record
        self._clock = context.clock

    async def call(
        self,
        attempt: Callable[[], Awaitable[tuple[Answer, Usage]]],
        kind: CallKind,
        *,
        seconds: float,
        tries: int = TRIES,
        urgent: bool = False,
    ) -> Answer:
        """Return the answer of `attempt`, which calls the service once and returns the answer and its usage.

        It is repeated while it fails and may succeed later, `tries` times in all within `seconds`. `urgent`: a search
        waits; the time before the call counts too. Raises what `attempt` raises, CallFailed if it takes too long, and
        ServiceAway.
        """
        until = self._clock.monotonic() + seconds
        async with AsyncExitStack() as stack:
            slot = self.service.slot(urgent=urgent)
            if urgent:
                async with self._in_time(until, seconds):
                    await stack.enter_async_context(slot)
            else:
                await stack.enter_async_context(slot)
                until = self._clock.monotonic() + seconds

            async def once() -> Answer:
                async with self._count_call(kind) as ending:
                    async with self._in_time(until, seconds):
                        answer, ending.usage = await attempt()
                    ending.outcome = "answered"
                    return answer

            return await self._retry(once, tries, until)

    async def stream(
        self, open_stream: Callable[[], AsyncIterator[str | Reply]], kind: CallKind, *, seconds: float
    ) -> AsyncGenerator[str | Reply, None]:
        """Yield the parts of the stream of `open_stream`; it is opened again if it fails before its first part.

        The first part arrives within `seconds`, and each later one within as many after the one before. Raises as
        `call`, also for a stream that ends without a whole reply.
        """
        async with self.service.slot():
            until = self._clock.monotonic() + seconds

            async def begin() -> tuple[AsyncGenerator[str | Reply, None], str | Reply]:
                parts = self._stream(open_stream, kind, until, seconds)
                return parts, await anext(parts)

            parts, part = await self._retry(begin, TRIES, until)
            self.service.note_answer()
            async with aclosing(parts):
                yield part
                async for part in parts:
                    yield part

    async def _retry(self, attempt: Callable[[], Awaitable[Answer]], tries: int, until: float) -> Answer:
        return await call_with_retries(
            attempt, tries=tries, clock=self._clock, passing=passes, until=until, longest_wait=self._longest_wait
        )

    async def _stream(
        self, open_stream: Callable[[], AsyncIterator[str | Reply]], kind: CallKind, until: float, seconds: float
    ) -> AsyncGenerator[str | Reply, None]:
        """Yield the parts of one stream, and count it when it ends or its consumer stops."""
        async with self._count_call(kind) as ending:
            parts = open_stream()
            try:
                while True:
                    try:
                        async with self._in_time(until, seconds):
                            part = await anext(parts)
                    except StopAsyncIteration:
                        break
                    if isinstance(part, Reply):
                        ending.outcome, ending.usage = "answered", part.usage
                    yield part
                    until = self._clock.monotonic() + seconds
            finally:
                if isinstance(parts, AsyncGenerator):
                    await parts.aclose()
            if ending.outcome != "answered":
                raise CallFailed(f"the stream of {self.model} ended before it was complete", maybe_done=True)

    @asynccontextmanager
    async def _count_call(self, kind: CallKind) -> AsyncIterator[_CallOutcome]:
        """Reserve what one call of the service may use, and record it, however it ends.

        Raises BudgetExceeded and `Unavailable`; then it does not begin.
        """
        if self._price is not None:
            self._price.prepare()
        reservation, most = await self._reserve_call(kind)
        ending, began = _CallOutcome(), self._clock.monotonic()
        began_at = milliseconds(self._clock) if reservation is None else reservation.at
        try:
            yield ending
        except (asyncio.CancelledError, GeneratorExit):
            if ending.outcome != "answered":
                ending.outcome, ending.maybe_done = "cancelled", True
            raise
        except Exception as failure:
            ending.maybe_done = getattr(failure, "maybe_done", True)
            if isinstance(failure, Retry):
                ending.outcome = "unavailable" if passes(failure) else "refused"
            raise
        finally:
            seconds, usage = self._clock.monotonic() - began, _bounded_usage(ending.usage)
            call = Call(
                owner=kind.owner,
                purpose=kind.purpose,
                name=self.name,
                model=self.model,
                usage=usage,
                cost=None if self._price is None else self._price.cost(self.model, usage),
                seconds=seconds,
                outcome=ending.outcome,
                began_at=began_at,
                counts=Amount() if kind.most is None else self._amount(_usage_to_count(ending, usage, most)),
                reservation=None if reservation is None else reservation.id,
            )
            self._record(call)

    async def _reserve_call(self, kind: CallKind) -> tuple[Reservation | None, Usage]:
        """Reserve what a call may use. Returns the reservation, and its tokens; nothing if no limit holds."""
        owner, most, sizes = kind.owner, kind.most, list[Usage]()
        if most is None:
            return None, Usage()

        def estimate() -> CallEstimate:
            sizes.append(most())
            size = sizes[0]
            tokens = (size.tokens_in or 0) + (size.tokens_out or 0)
            return CallEstimate(tokens, None if self._price is None else self._price.limited_cost(size), self.name)

        reservation = await self._reserve(owner.user_id, owner.agent, estimate)
        return reservation, sizes[0] if sizes else Usage()

    def _amount(self, usage: Usage) -> Amount:
        cost = None if self._price is None else self._price.limited_cost(usage)
        return Amount((usage.tokens_in or 0) + (usage.tokens_out or 0), cost or 0)

    @asynccontextmanager
    async def _in_time(self, until: float, seconds: float) -> AsyncIterator[None]:
        """Raise CallFailed if what is inside takes longer than `until`; `seconds`: of the whole call, as shown."""
        try:
            async with asyncio.timeout(max(0.0, until - self._clock.monotonic()) + _MARGIN_SECONDS):
                yield
        except TimeoutError:
            late = CallFailed(
                f"{self.model} did not answer within {format_duration(seconds)}",
                hint="check that it is running and not overloaded",
                maybe_done=True,
            )
        else:
            return
        raise late


def _bounded_usage(usage: Usage) -> Usage:
    tokens = (usage.tokens_in, usage.tokens_out, usage.cached)
    return Usage(*(None if each is None else min(each, LARGEST_TOKENS) for each in tokens))


def _usage_to_count(ending: _CallOutcome, usage: Usage, most: Usage) -> Usage:
    """Return the tokens that a call counts against limits: those that the service tells, else those that were
    reserved, unless it is known that it used none."""
    if ending.outcome == "answered":
        tokens_in = most.tokens_in if usage.tokens_in is None else usage.tokens_in
        return Usage(tokens_in, most.tokens_out if usage.tokens_out is None else usage.tokens_out)
    return most if ending.maybe_done else Usage()
