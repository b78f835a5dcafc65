"""Calls of one block or row to its service: limited, repeated and counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

from runtime.clock import SYSTEM, Clock
from runtime.errors import Retry
from runtime.models.calls.call import Call, CallOwner, Outcome, Purpose
from runtime.models.calls.price import Price
from runtime.models.calls.service import Service, Services
from runtime.models.request import Reply, Usage
from runtime.outbound.http import CallFailed, passes
from runtime.outbound.retry import LONGEST_WAIT_SECONDS, retried

Answer = TypeVar("Answer")

TRIES: Final = 3
"""Number of times that a call is made while it fails and may succeed later."""
_MARGIN_SECONDS: Final = 1.0
"""Seconds for which a model may exceed the deadline of a call, so that its own error, which is more exact, comes
first."""

Record = Callable[[Call], None]


def not_recorded(_call: Call) -> None:
    """Record nothing, for calls outside of a daemon."""


@dataclass(frozen=True, slots=True)
class CallContext:
    """What all calls of a process share. `record` gets every call."""

    services: Services = field(default_factory=Services)
    record: Record = not_recorded
    clock: Clock = SYSTEM


class CallKind(NamedTuple):
    """Whose a call is, and what for."""

    owner: CallOwner
    purpose: Purpose


@dataclass(slots=True)
class _Ending:
    """How a call ends."""

    outcome: Outcome = "refused"
    usage: Usage = field(default_factory=Usage)


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
        service.used_by(self, label or name)
        self._price = price
        self._longest_wait = longest_wait
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
            place = self.service.place(urgent=urgent)
            if urgent:
                async with self._in_time(until, seconds):
                    await stack.enter_async_context(place)
            else:
                await stack.enter_async_context(place)
                until = self._clock.monotonic() + seconds

            async def once() -> Answer:
                with self._counted(kind) as ending:
                    async with self._in_time(until, seconds):
                        answer, ending.usage = await attempt()
                    ending.outcome = "answered"
                    return answer

            return await self._retried(once, tries, until)

    async def stream(
        self, opened: Callable[[], AsyncIterator[str | Reply]], kind: CallKind, *, seconds: float
    ) -> AsyncGenerator[str | Reply, None]:
        """Yield what a stream that `opened` opens yields; it is opened again if it fails before its first part.

        The first part arrives within `seconds`, and each later one within as many after the one before. Raises as
        `call`, also for a stream that ends without a whole reply.
        """
        async with self.service.place():
            until = self._clock.monotonic() + seconds

            async def begun() -> tuple[AsyncGenerator[str | Reply, None], str | Reply]:
                parts = self._stream(opened, kind, until, seconds)
                return parts, await anext(parts)

            parts, part = await self._retried(begun, TRIES, until)
            self.service.answered()
            async with aclosing(parts):
                yield part
                async for part in parts:
                    yield part

    async def _retried(self, attempt: Callable[[], Awaitable[Answer]], tries: int, until: float) -> Answer:
        return await retried(
            attempt, tries=tries, clock=self._clock, passing=passes, until=until, longest_wait=self._longest_wait
        )

    async def _stream(
        self, opened: Callable[[], AsyncIterator[str | Reply]], kind: CallKind, until: float, seconds: float
    ) -> AsyncGenerator[str | Reply, None]:
        """Yield the parts of one stream, and count it when it ends or its consumer stops."""
        with self._counted(kind) as ending:
            parts = opened()
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
                raise CallFailed(f"the stream of {self.model} ended before it was complete")

    @contextmanager
    def _counted(self, kind: CallKind) -> Iterator[_Ending]:
        """Record one call of the service, however it ends."""
        if self._price is not None:
            self._price.prepare()
        ending, began = _Ending(), self._clock.monotonic()
        try:
            yield ending
        except (asyncio.CancelledError, GeneratorExit):
            if ending.outcome != "answered":
                ending.outcome = "cancelled"
            raise
        except Retry as failure:
            ending.outcome = "unavailable" if passes(failure) else "refused"
            raise
        finally:
            seconds = self._clock.monotonic() - began
            cost = None if self._price is None else self._price.cost(self.model, ending.usage)
            self._record(Call(*kind, self.name, self.model, ending.usage, cost, seconds, ending.outcome))

    @asynccontextmanager
    async def _in_time(self, until: float, seconds: float) -> AsyncIterator[None]:
        """Raise CallFailed if what is inside takes longer than `until`; `seconds`: of the whole call, as shown."""
        try:
            async with asyncio.timeout(max(0.0, until - self._clock.monotonic()) + _MARGIN_SECONDS):
                yield
        except TimeoutError:
            late = CallFailed(
                f"{self.model} did not answer within {seconds:g} s", hint="check that it is running and not overloaded"
            )
        else:
            return
        raise late
