"""The dispatcher: claims turns from their sources, runs an agent on each, and stores how it ended."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

import structlog
from structlog.contextvars import bound_contextvars

from runtime.agents.outcome import outcome_name, outcome_of
from runtime.agents.run_report import report_run
from runtime.agents.running_turn import RunningTurn, RunningTurns, Source, renew_leases, stop_cancelled_runs, stop_runs
from runtime.clock import Clock
from runtime.database.connection import Database
from runtime.database.errors import Unavailable
from runtime.errors import Away, NotFound
from runtime.metrics.metrics import Metrics
from runtime.threads.run_log import RunLog
from runtime.threads.step import Superseded
from runtime.threads.turns.backoff import TRIES, delay
from runtime.threads.turns.ending import CANCELLED_BY_PERSON, end_name
from runtime.threads.turns.shares import SHARES, Places
from runtime.threads.turns.turn import CANCELLED, DONE, QUEUED, RUNNING, WAITING, ClaimedTurn, Outcome

log = structlog.get_logger("symbiont.dispatcher")

Run = Callable[[Any, RunLog], Awaitable[str | None]]
"""Runs the agent of a turn and returns how the run ended, see `runtime.threads.run.End`. Raises `Retry`, or any other
error, for another attempt; `Away` for one that does not count; `GiveUp` to end as a dead letter at once; `ThreadBusy`
to wait for the thread; `AgentGone` when the agent is not declared."""

Result = TypeVar("Result")

WORKERS = 16
FIRST_WORKERS = 8
"""Maximum number of concurrent runs after a start; each run that ends adds one. A turn that runs when a daemon is
killed runs alone next (SQLite), or counts a try unless it got further (PostgreSQL), so a run that kills daemons may not
affect many."""
ALONE_SECONDS = 30.0
"""Seconds that a suspect, a turn that was running when a daemon was killed, runs before others run beside it; and
seconds that it waits for others to end before it runs beside them."""
PRESSURE = 8
"""Number of deliveries stored together, or waiting to be stored, that counts as a burst."""

BURST_SECONDS = 2.0
"""Seconds that a claim waits for a burst to end."""

REPORTED = 10_000
"""Number of waiting runs of which the log is known to say what they wait for."""

STOP_SECONDS = 10.0
"""Seconds that a stop waits for cancelled runs. Runs that have not ended by then are queued again by the next start."""

POLL_SECONDS = 1.0
"""Interval in seconds of reading the sources if nothing wakes the dispatcher: for backoffs and turns of other
daemons."""


class Dispatcher:
    """Runs the turns of several sources, up to `workers` at the same time."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        sources: Sequence[Source],
        run: Run,
        *,
        workers: int = WORKERS,
        poll: float = POLL_SECONDS,
        on_full: Callable[[], None] = lambda: None,
        stand_back: Callable[[], bool] = lambda: False,
        has_model: Callable[[str], bool] = lambda agent: False,
        metrics: Metrics | None = None,
    ) -> None:
        """`poll`: seconds. `on_full` is called when more turns may wait than there are free places here; `stand_back`
        returns True if the waiting turns are for other daemons. `has_model`: returns True for an agent with a model,
        whose runs are reported when they end."""
        self._sources = deque(sources)
        self._on_full = on_full
        self._stand_back = stand_back
        self._has_model = has_model
        self._metrics = metrics or Metrics()
        self._database = database
        self._clock = clock
        self._run = run
        self._workers = workers
        self._allowed = min(workers, FIRST_WORKERS)
        self._poll = poll
        self._woken = asyncio.Event()
        self._unannounced = True  # more turns may wait than there are free places, and other daemons were not notified
        self._unreadable = False
        self._stopping = False
        self._claiming = asyncio.Lock()
        self._running: RunningTurns = {}
        self._reporting: set[asyncio.Task[None]] = set()
        self._reported: dict[str, None] = {}  # runs of which the log says what they wait for
        self._suspect: asyncio.Task[None] | None = None
        self._alone_until = 0.0  # no other turns are claimed before; by the monotonic clock
        self._cleared_at = 0.0  # the running suspect is none any more

    def wake(self) -> None:
        """Claim soon: a turn may have been queued."""
        self._unannounced = True
        self._woken.set()

    def on_announcement(self) -> None:
        """Claim soon: another daemon announced turns. It is not announced again, or two full daemons would do so
        forever."""
        self._woken.set()

    async def cancel(self, run_id: str, user_id: str) -> str:
        """Cancel a run of the user, on whichever daemon. Returns `cancelled`, or `running` while its attempt stops.

        Raises `NotFound`, `Conflict` if it has ended otherwise, and `Unavailable`.
        """
        for source in tuple(self._sources):
            state = await source.cancel_run(run_id, user_id)
            if state is None:
                continue
            if state == RUNNING:
                stop_runs(self._running, {run_id})
            # Its thread may be free.
            self.wake()
            return state
        raise NotFound(f"there is no run {run_id}", hint="`symbi agent runs` lists them")

    @property
    def running(self) -> int:
        """Number of turns that run now."""
        return len(self._running)

    async def run(self) -> None:
        """Claim and run until `stop`. Calls are repeated while the database is unavailable; other errors are raised."""
        for source in self._sources:
            await self._until_available(source.recover)
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
        """Claim no more turns, wait up to `grace` seconds for running ones, and requeue the rest for the next start."""
        self._stopping = True
        self._woken.set()
        async with self._claiming:
            # The turns of a claim under way are among the running ones now, and are requeued with them.
            pass
        if self._running:
            await asyncio.wait(set(self._running), timeout=grace)
        for task in self._running:
            task.cancel()
        if self._running:
            await asyncio.wait(set(self._running), timeout=STOP_SECONDS)
        if self._reporting:
            await asyncio.wait(set(self._reporting), timeout=STOP_SECONDS)

    async def _wait_for_burst(self) -> None:
        """Wait while deliveries arrive faster than they are stored, but not for long: receiving has priority, because
        claimed turns keep and requests do not."""
        # Measured with the event loop's time, not the clock: it depends on how busy the process is.
        loop = asyncio.get_running_loop()
        end = loop.time() + BURST_SECONDS
        # Polling costs less than an event that every delivery would have to set and clear.
        while self._database.commits.pressure >= PRESSURE and loop.time() < end and not self._stopping:  # noqa: ASYNC110
            await asyncio.sleep(0.02)

    async def _claim(self) -> bool:
        """Fill the free places; True if more turns may wait."""
        await self._wait_for_burst()
        if self._stand_back():
            return False
        free = self._allowed - len(self._running)
        if free <= 0:
            if self._unannounced:
                self._unannounced = False
                self._on_full()
            return False
        async with self._claiming:
            if self._stopping:
                return False
            try:
                if self._unreadable:
                    await self._release_others()
                if (claimed := await self._claim_suspect()) is not None:
                    return claimed
                left = await self._claim_from_sources(free)
            except Unavailable as error:
                # Logged once; the sources are read again every second.
                if not self._unreadable:
                    log.warning("turns_unreadable", error=str(error))
                self._unreadable = True
                return False
            self._unreadable = False
        again = [source.again for source in self._sources if source.again is not None]
        if again:
            asyncio.get_running_loop().call_later(min(again), self.wake)
        self._unannounced = left == 0
        return self._unannounced

    async def _release_others(self) -> None:
        """Requeue turns of a claim that failed and was stored nevertheless."""
        for source in self._sources:
            await source.release_others([each.turn for each in self._running.values() if each.source is source])

    async def _claim_suspect(self) -> bool | None:
        """Start one suspect, alone. True if one was started, False to claim nothing now, None to claim other turns.

        If several turns ran when a daemon was killed, only for the one that runs when it is killed again may the kill
        count as a try. A suspect that runs for long is cleared, and the next one starts beside it.
        """
        now = self._clock.monotonic()
        if self._suspect is not None and (running := self._running.get(self._suspect)) is not None:
            if now < self._alone_until:
                return False
            if now < self._cleared_at:
                return None
            await running.source.clear_suspect(running.turn)
            self._suspect = None
        for source in self._sources:
            if not source.suspects:
                continue
            if self._running and now < self._alone_until:
                return False
            if (turn := await source.claim_suspect()) is not None:
                self._cleared_at = now + ALONE_SECONDS
                self._alone_until = now if self._running else self._cleared_at
                self._suspect = self._start(RunningTurn(source, turn, now))
                return True
        return None

    async def _claim_from_sources(self, free: int) -> int:
        """Claim and start up to `free` turns, equal shares of each source, and return how many places are left.

        The order of the sources changes with each claim.
        """
        self._sources.rotate(-1)
        claimed_at = self._clock.monotonic()
        for source, turns in await self._database.commits.store(SHARES, Places(tuple(self._sources), free)):
            for turn in turns:
                self._start(RunningTurn(source, turn, claimed_at))
            free -= len(turns)
        return free

    def _start(self, running: RunningTurn) -> asyncio.Task[None]:
        task = asyncio.create_task(self._attempt(running.source, running.turn), name=f"run {running.turn.run_id}")
        self._running[task] = running
        task.add_done_callback(self._on_run_ended)
        return task

    def _on_run_ended(self, task: asyncio.Task[None]) -> None:
        turn = self._running.pop(task).turn
        if task is self._suspect:
            self._alone_until = self._clock.monotonic() + ALONE_SECONDS
        self._allowed = min(self._allowed + 1, self._workers)
        self._woken.set()
        if task.cancelled():
            self._metrics.runs.add("superseded")
        elif (error := task.exception()) is not None:
            log.error("run_not_recorded", **turn.label, exc_info=error)

    async def _attempt(self, source: Source, turn: ClaimedTurn) -> None:
        # All log events of the run, such as those of stores, have these fields.
        with bound_contextvars(**turn.label, run_id=turn.run_id, attempt=turn.attempt):
            began = self._clock.monotonic()
            run_log = RunLog(self._database, self._clock, turn.run_id, turn.attempt, user_id=turn.user_id)
            log.debug("run_started", trigger=turn.trigger, agent=turn.agent, tries=turn.tries)
            try:
                outcome = await self._finish(source, turn, run_log, await self._outcome(source, turn, run_log))
            except Superseded as error:
                log.warning("run_superseded", error=str(error))
                name, ended = "superseded", None
            else:
                name, ended = outcome_name(outcome), end_name(outcome)
            seconds = self._clock.monotonic() - began
            self._metrics.runs.add(name)
            if name != WAITING:
                self._metrics.run_seconds.observe(seconds)
            if ended is None or not self._has_model(turn.agent):
                log.debug("run_ended", outcome=name, seconds=round(seconds, 6))
            else:
                self._report(report_run(self._database, turn, name, ended, seconds), turn)

    def _report(self, report: Coroutine[Any, Any, None], turn: ClaimedTurn) -> None:
        """Do `report` beside the attempt, which must end at once: until then its lease would be renewed."""
        task = asyncio.create_task(report, name=f"report of run {turn.run_id}")
        self._reporting.add(task)
        task.add_done_callback(self._reporting.discard)

    async def _finish(self, source: Source, turn: ClaimedTurn, run_log: RunLog, outcome: Outcome) -> Outcome:
        """Store how `turn` ended, and return that. An outcome that cannot be stored is replaced by a failure."""
        queued: bool | None = False
        try:
            if outcome.state not in (DONE, WAITING):
                # Another attempt must not repeat what was done.
                await self._until_available(run_log.settle)
            queued = await self._until_available(lambda: source.finish(turn, outcome))
        except Superseded:
            raise
        except Exception as error:
            outcome = outcome_of(turn, error)
            queued = await self._until_available(lambda: source.finish(turn, outcome))
        if queued and self._stopping:
            # The next turn of the thread is for the other daemons.
            self._on_full()
        elif queued:
            self.wake()
        return outcome

    async def _outcome(self, source: Source, turn: ClaimedTurn, run_log: RunLog) -> Outcome:
        task = asyncio.current_task()
        assert task is not None
        running = self._running[task]
        try:
            outcome = await self._run_agent(source, turn, run_log, running)
        finally:
            running.acting = False
        if outcome.state != QUEUED or outcome.counts:
            self._reported.pop(turn.run_id, None)
        return outcome

    async def _run_agent(self, source: Source, turn: ClaimedTurn, run_log: RunLog, running: RunningTurn) -> Outcome:
        try:
            ended = await self._run(await source.load(turn), run_log)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            assert task is not None
            if not task.cancelling():
                return outcome_of(turn, RuntimeError("a task of the agent was cancelled"))
            if running.cancelled:
                log.info("run_cancelled", agent=turn.agent)
                return Outcome(CANCELLED, CANCELLED_BY_PERSON, counts=False)
            if running.interrupted:
                return Outcome(
                    QUEUED, "the leases could not be renewed", delay(min(turn.tries, TRIES - 1)), counts=False
                )
            if not self._stopping:
                raise
            return Outcome(QUEUED, "the daemon stopped", counts=False)
        except Superseded:
            raise
        except Exception as error:
            # What a run waits for is logged once, not at each attempt.
            outcome = outcome_of(turn, error, quiet=turn.run_id in self._reported)
            if isinstance(error, Away):
                self._reported[turn.run_id] = None
                while len(self._reported) > REPORTED:
                    del self._reported[next(iter(self._reported))]
            return outcome
        return Outcome(DONE, ended=ended)

    async def _until_available(self, act: Callable[[], Awaitable[Result]]) -> Result | None:
        """Do `act` and return its result, repeated while the database is unavailable: the outcome of a run must not be
        lost. None if the dispatcher stops meanwhile."""
        logged = False
        while True:
            try:
                return await act()
            except Unavailable as error:
                if not logged:
                    log.warning("database_unavailable", error=str(error))
                logged = True
                if self._stopping:
                    return None
            await self._clock.sleep(self._poll)

    async def _tick(self) -> None:
        """Wake the dispatcher every `poll` seconds, and renew the leases in time."""
        renewed = {source: self._clock.monotonic() for source in self._sources if source.shared}
        while True:
            await self._clock.sleep(self._poll)
            self._woken.set()
            for source, at in renewed.items():
                if self._clock.monotonic() - at >= source.lease / 3:
                    renewed[source] = self._clock.monotonic()
                    await renew_leases(self._running, source, self._clock)
            if renewed:
                await stop_cancelled_runs(self._running, self._database)
