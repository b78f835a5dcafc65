"""The outcome of an attempt that raised an error: what happens to its turn."""

from __future__ import annotations

import structlog

from runtime.errors import Away, GiveUp, Parked, SymbiontError
from runtime.metrics.metrics import OUTCOMES
from runtime.threads.turns.backoff import TRIES, delay
from runtime.threads.turns.turn import (
    AGENT_GONE,
    DEAD,
    NEVER,
    QUEUED,
    WAITING,
    AgentGone,
    ClaimedTurn,
    Outcome,
    ThreadBusy,
)

log = structlog.get_logger("symbiont.dispatcher")

AWAY_SECONDS = 30.0
"""Maximum seconds until a turn is tried again for which something is away, such as its model."""


def outcome_of(turn: ClaimedTurn, error: Exception, *, quiet: bool = False) -> Outcome:
    """Return the outcome of an attempt that raised `error`, and log it. `quiet`: the log says already what the run
    waits for.

    The meaning of the error decides, wherever it came from: `Parked` and `Away` wait and do not count, `GiveUp` becomes
    a dead letter at once, `ThreadBusy` waits for the thread, `AgentGone` for a person, and all others are tried again.
    """
    match error:
        case ThreadBusy():
            return Outcome(WAITING, str(error), counts=False)
        case AgentGone():
            log.warning("agent_gone", agent=turn.agent)
            return Outcome(AGENT_GONE, str(error))
        case GiveUp():
            log.error("dead_letter", agent=turn.agent, error=error.line())
            return Outcome(DEAD, error.line(), cause=error.cause)
        case Parked():
            if not quiet:
                log.info("run_parked", agent=turn.agent, state=error.state, reason=str(error))
            until = NEVER if error.until is None else error.until
            return Outcome(
                QUEUED,
                error.line(),
                counts=False,
                run_state=error.state,
                until=until,
                frees_thread=error.frees_thread,
            )
        case Away():
            if not quiet:
                log.warning("run_interrupted", agent=turn.agent, error=error.line())
            return Outcome(QUEUED, error.line(), _away_seconds(turn, error), counts=False, run_state=error.state)
        case _:
            return _failure_outcome(turn, error)


def outcome_name(outcome: Outcome) -> str:
    """Return the name by which `outcome` is counted, one of `OUTCOMES`."""
    if outcome.state != QUEUED:
        return outcome.state
    if outcome.counts:
        return "retry"
    return outcome.run_state if outcome.run_state in OUTCOMES and outcome.run_state != WAITING else "interrupted"


def _failure_outcome(turn: ClaimedTurn, error: Exception) -> Outcome:
    expected = isinstance(error, SymbiontError)
    reason = error.line() if isinstance(error, SymbiontError) else f"{type(error).__name__}: {error}".partition("\n")[0]
    # An unexpected error is a bug in the program; only its traceback shows the location.
    event = log.bind(**turn.label, agent=turn.agent, error=reason, exc_info=None if expected else error)
    if turn.tries >= TRIES:
        event.error("dead_letter")
        return Outcome(DEAD, reason)
    event.warning("run_failed", tries=turn.tries)
    return Outcome(QUEUED, reason, delay(turn.tries))


def _away_seconds(turn: ClaimedTurn, error: Away) -> float:
    """Return the seconds until something that is away is looked for again; more after each attempt."""
    if error.retry_after is not None:
        return min(AWAY_SECONDS, max(1.0, error.retry_after))
    return min(AWAY_SECONDS, delay(turn.attempt))
