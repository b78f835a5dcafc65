"""The dispatcher: claims accepted deliveries, runs an agent on each, and sees to what came of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog
from structlog.contextvars import bound_contextvars

from runtime.clock import Clock
from runtime.database.connection import Database
from runtime.database.errors import Unavailable
from runtime.errors import GiveUp, SymbiontError
from runtime.metrics.metrics import Metrics
from runtime.threads.run_log import RunLog
from runtime.threads.step import Superseded
from runtime.webhooks.deliveries.backoff import TRIES, delay
from runtime.webhooks.deliveries.delivery import AGENT_GONE, DEAD, DONE, QUEUED, AgentGone, ClaimedDelivery
from runtime.webhooks.deliveries.inbox import LEASE_SECONDS, NO_LANES, Concurrency, Inbox, Outcome
from runtime.webhooks.deliveries.redelivery import send_again

log = structlog.get_logger("symbiont.dispatcher")

Run = Callable[[ClaimedDelivery, RunLog], Awaitable[None]]
"""What an agent does about a delivery. Raises `Retry`, or anything else, to be tried again; `GiveUp` to end as a dead
letter at once; `AgentGone` when there is nobody to do it."""

WORKERS = 16
FIRST_WORKERS = 8
"""How many runs a start begins with; each one that ends makes room for one more. What runs when a daemon is killed
counts as a try of each of them, so one that kills it again and again must not take many others along."""
PRESSURE = 8
"""So many deliveries stored together, or waiting for it, are a burst."""

GIVE_WAY_SECONDS = 2.0
"""How long a claim waits for a burst to end."""

STOP_SECONDS = 10.0
"""How long a stop waits for runs that were broken off. What has not ended by then is queued again by the next start."""

POLL_SECONDS = 1.0
"""How often the inbox is looked at when nothing wakes the dispatcher: for backoffs and other daemons' deliveries."""


class Dispatcher:
    """Runs what the inbox holds, up to `workers` deliveries at the same time."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        run: Run,
        *,
        workers: int = WORKERS,
        lease: float = LEASE_SECONDS,
        poll: float = POLL_SECONDS,
        concurrency: Concurrency = lambda: NO_LANES,
        on_full: Callable[[], None] = lambda: None,
        stand_back: Callable[[], bool] = lambda: False,
        metrics: Metrics | None = None,
    ) -> None:
        """`lease` and `poll`: seconds. `on_full` is called when more may wait than there are free places here;
        `stand_back` says whether what waits is for other daemons."""
        self.inbox = Inbox(database, clock, lease=lease, concurrency=concurrency)
        self._on_full = on_full
        self._stand_back = stand_back
        self._metrics = metrics or Metrics()
        self._database = database
        self._clock = clock
        self._run = run
        self._workers = workers
        self._allowed = min(workers, FIRST_WORKERS)
        self._poll = poll
        self._woken = asyncio.Event()
        self._untold = True  # more may wait than there are places for, and nobody else knows
        self._unread = False
        self._stopping = False
        self._claiming = asyncio.Lock()
        self._running: dict[asyncio.Task[None], tuple[ClaimedDelivery, float]] = {}

    def wake(self) -> None:
        """Something may be there to claim."""
        self._untold = True
        self._woken.set()

    def heard(self) -> None:
        """Another daemon says so. It has told all others too: two that are full would tell each other for ever."""
        self._woken.set()

    @property
    def running(self) -> int:
        """How many deliveries are being run."""
        return len(self._running)

    async def run(self) -> None:
        """Claim and run until `stop`. What the database cannot do just now is tried again; other errors are raised."""
        await self._until_available(self.inbox.recover)
        tick = asyncio.create_task(self._tick(), name="dispatcher clock")
        tick.add_done_callback(lambda _: self._woken.set())
        try:
            while not self._stopping:
                self._woken.clear()
                if tick.done():
                    tick.result()
                if not await self._claim():
                    await self._woken.wait()
        finally:
            tick.cancel()
            await asyncio.wait({tick})

    async def stop(self, grace: float) -> None:
        """Claim nothing more, wait up to `grace` seconds for what runs, and requeue the rest for the next start."""
        self._stopping = True
        self._woken.set()
        async with self._claiming:
            # What a claim under way brings is among what runs now, or nobody would put it back.
            pass
        if self._running:
            await asyncio.wait(set(self._running), timeout=grace)
        for task in self._running:
            task.cancel()
        if self._running:
            await asyncio.wait(set(self._running), timeout=STOP_SECONDS)

    async def send_again(self, delivery_id: str, *, fresh: bool = False) -> None:
        """Queue a delivery that ended; see `runtime.webhooks.deliveries.redelivery.send_again`."""
        await send_again(self._database, self._clock, delivery_id, fresh=fresh)
        self.wake()

    async def _give_way(self) -> None:
        """Wait while deliveries come in faster than they are stored, but not for long: receiving goes first, the inbox
        holds what runs later, and runs go on all the same."""
        # The event loop's time, not the clock's: this is about how busy the process is.
        loop = asyncio.get_running_loop()
        end = loop.time() + GIVE_WAY_SECONDS
        # Looking now and then costs less than an event that every delivery would have to set and clear.
        while self._database.commits.pressure >= PRESSURE and loop.time() < end and not self._stopping:  # noqa: ASYNC110
            await asyncio.sleep(0.02)

    async def _claim(self) -> bool:
        """Fill the free places; True when more may wait."""
        await self._give_way()
        if self._stand_back():
            return False
        free = self._allowed - len(self._running)
        if free <= 0:
            if self._untold:
                self._untold = False
                self._on_full()
            return False
        since = self._clock.monotonic()
        async with self._claiming:
            if self._stopping:
                return False
            try:
                works = await self.inbox.claim(free)
            except Unavailable as error:
                # It is looked at every second.
                if not self._unread:
                    log.warning("the inbox cannot be read", reason=str(error))
                self._unread = True
                return False
            self._unread = False
            for work in works:
                task = asyncio.create_task(self._attempt(work), name=f"run {work.run_id}")
                self._running[task] = (work, since)
                task.add_done_callback(self._ended)
        if self.inbox.again is not None:
            asyncio.get_running_loop().call_later(self.inbox.again, self.wake)
        self._untold = len(works) == free
        return self._untold

    def _ended(self, task: asyncio.Task[None]) -> None:
        work, _ = self._running.pop(task)
        self._allowed = min(self._allowed + 1, self._workers)
        self._woken.set()
        if task.cancelled():
            self._metrics.runs.add("superseded")
        elif (error := task.exception()) is not None:
            log.error("a run could not be recorded", delivery_id=work.delivery_id, exc_info=error)

    async def _attempt(self, work: ClaimedDelivery) -> None:
        # Whatever is logged on the way, by stores for instance, says what it is about.
        with bound_contextvars(delivery_id=work.delivery_id, run_id=work.run_id, attempt=work.attempt):
            began = self._clock.monotonic()
            run_log = RunLog(self._database, self._clock, work.run_id, work.attempt, user_id=work.user_id)
            log.debug("a run begins", webhook=work.webhook, agent=work.agent, tries=work.tries)
            try:
                outcome = await self._finished(work, await self._outcome(work, run_log))
            except Superseded as error:
                log.warning("a run was taken over", reason=str(error))
                name = "superseded"
            else:
                name = _name(outcome)
            seconds = self._clock.monotonic() - began
            self._metrics.runs.add(name)
            self._metrics.run_seconds.observe(seconds)
            log.debug("a run ended", outcome=name, seconds=round(seconds, 6))

    async def _finished(self, work: ClaimedDelivery, outcome: Outcome) -> Outcome:
        """Store how `work` ended. What cannot be stored as it is ends as a failure, or nobody would ever end it."""
        try:
            await self._until_available(lambda: self.inbox.finish(work, outcome))
        except Superseded:
            raise
        except Exception as error:
            outcome = _failed(work, error)
            await self._until_available(lambda: self.inbox.finish(work, outcome))
        return outcome

    async def _outcome(self, work: ClaimedDelivery, run_log: RunLog) -> Outcome:
        try:
            await self._run(await self.inbox.whole(work), run_log)
        except asyncio.CancelledError:
            if not self._stopping:
                raise
            return Outcome(QUEUED, "the daemon stopped", counts=False)
        except Superseded:
            raise
        except AgentGone as error:
            log.warning("a delivery waits for its agent", agent=work.agent, reason=str(error))
            return Outcome(AGENT_GONE, str(error))
        except GiveUp as error:
            log.error("a delivery became a dead letter", agent=work.agent, reason=error.line())
            return Outcome(DEAD, error.line())
        except Unavailable as error:
            # No fault of the agent's, and it may last: there is nothing to give up on.
            log.warning("a run was broken off, the database is not available", reason=str(error))
            return Outcome(QUEUED, str(error), delay(work.tries), counts=False)
        except Exception as error:
            return _failed(work, error)
        return Outcome(DONE)

    async def _until_available(self, act: Callable[[], Awaitable[None]]) -> None:
        """Do `act`, again and again while the database is away: what ran must not be forgotten for that."""
        said = False
        while True:
            try:
                return await act()
            except Unavailable as error:
                if not said:
                    log.warning("the database is not available", reason=str(error))
                said = True
                if self._stopping:
                    return None
            await self._clock.sleep(self._poll)

    async def _tick(self) -> None:
        """Look at the inbox now and then, and keep the leases."""
        renewed = self._clock.monotonic()
        while True:
            await self._clock.sleep(self._poll)
            self._woken.set()
            if self.inbox.shared and self._clock.monotonic() - renewed >= self.inbox.lease / 3:
                renewed = self._clock.monotonic()
                await self._renew()

    async def _renew(self) -> None:
        """Renew the leases; break off what is not ours any more, or may soon not be."""
        asked = self._clock.monotonic()
        running = list(self._running.items())
        if not running:
            return
        try:
            held = await self.inbox.renew([work for _, (work, _) in running])
        except Unavailable as error:
            log.warning("leases were not renewed", reason=str(error))
            late = asked - 0.6 * self.inbox.lease
            lost = [task for task, (_, since) in running if since < late]
        else:
            lost = [task for task, (work, _) in running if work.delivery_id not in held]
            for task, (work, _) in running:
                if task in self._running:
                    self._running[task] = (work, asked)
        for task in lost:
            task.cancel()


def _name(outcome: Outcome) -> str:
    """What `outcome` is counted as."""
    if outcome.state == QUEUED:
        return "retry" if outcome.counts else "interrupted"
    return outcome.state


def _failed(work: ClaimedDelivery, error: Exception) -> Outcome:
    expected = isinstance(error, SymbiontError)
    reason = error.line() if isinstance(error, SymbiontError) else f"{type(error).__name__}: {error}".partition("\n")[0]
    # An error that nobody foresaw is a mistake in the program; only its trace says where.
    said = log.bind(delivery_id=work.delivery_id, agent=work.agent, reason=reason, exc_info=None if expected else error)
    if work.tries >= TRIES:
        said.error("a delivery became a dead letter")
        return Outcome(DEAD, reason)
    said.warning("a run failed and will be tried again")
    return Outcome(QUEUED, reason, delay(work.tries))
