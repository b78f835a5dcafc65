"""The events of a run, see `runtime.threads.events.log`. `{run, agent, thread}` are added for clients."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    # Commands import this too, and start without the database.
    from sqlalchemy import Connection

TYPING: Final = "agent.typing"
MESSAGE: Final = "agent.message"
TOOL: Final = "agent.tool"
CONFIRM: Final = "agent.confirm"
DONE: Final = "agent.done"
ERROR: Final = "agent.error"
LAST: Final = frozenset({DONE, ERROR})
"""A run ends with one of these."""
DELTA: Final = "agent.delta"
"""Not stored: a part of a message as it is written."""
NOTE: Final = "agent.note"
"""Not stored: why there are no events. The client may have missed some, or the run waits."""

PROBLEMS: Final = "urn:symbiont:problem:"
"""Prefix of the type of every problem (RFC 9457)."""
RUN_FAILED: Final = ("run_failed", 500, "The run failed")
"""Kind, status and title of the problem of a run that failed."""
LIMIT_REACHED: Final = ("budget_exceeded", 429, "A limit is reached")
"""The same for one that a budget did not allow."""

LONGEST_DETAIL: Final = 1000
"""Maximum characters of the output of a call that failed."""
STARTED: Final = "started"
"""State of a call that has no output yet; later it is the status of the output."""


Data = Mapping[str, Any]
"""The content of an event, as JSON."""


class RunEvent(NamedTuple):
    """An event of a run. `data`: or a function that returns it, called at the end of the transaction. `key`: identifies
    it among those of its run, the same in every attempt; an event with a key is written once."""

    run_id: str
    name: str
    data: Data | Callable[[Connection], Data]
    key: str | None = None


def typing(run_id: str, step: int) -> RunEvent:
    """The model is asked in this step."""
    return RunEvent(run_id, TYPING, {"step": step}, f"{step}/typing")


def message(run_id: str, step: int, texts: Sequence[str]) -> RunEvent:
    """The agent said something."""
    return RunEvent(run_id, MESSAGE, {"step": step, "messages": list(texts)}, f"{step}/message")


def tool_started(run_id: str, step: int, call: str, name: str, arguments: Mapping[str, Any]) -> RunEvent:
    """A call has begun. `call`: its id."""
    data = {"step": step, "call": call, "name": name, "state": STARTED, "arguments": arguments}
    return RunEvent(run_id, TOOL, data, f"{call}/{STARTED}")


def tool_ended(run_id: str, step: int, call: str, name: str, state: str, output: str) -> RunEvent:
    """A call has an output. `state`: its status; unless it is `ok`, the event has the output as `detail`."""
    data = {"step": step, "call": call, "name": name, "state": state}
    failed = {} if state == "ok" else {"detail": output[:LONGEST_DETAIL]}
    return RunEvent(run_id, TOOL, {**data, **failed}, f"{call}/output")


def confirm(
    run_id: str,
    call: str,
    approval: str,
    name: str,
    arguments: Mapping[str, Any],
    deadline: str,
    origin: Mapping[str, Any],
) -> RunEvent:
    """A call waits for a person. `call` and `approval`: ids. `deadline`: RFC 3339. `origin`: where it came from."""
    asked = {"call": call, "approval": approval, "name": name, "arguments": arguments, "deadline": deadline, **origin}
    return RunEvent(run_id, CONFIRM, {**asked, "state": "awaiting"}, f"{call}/confirm")


def confirmed(
    run_id: str, call: str, approval: str, name: str, state: str, reason: str | None, via: str | None = None
) -> RunEvent:
    """A call does not wait for a person any more: it was `approved` or `denied`, nobody answered (`expired`), or its
    run has ended (`cancelled`). `via`: how a person decided."""
    decided = {"call": call, "approval": approval, "name": name, "state": state, "reason": reason, "via": via}
    return RunEvent(run_id, CONFIRM, decided, f"{call}/confirmed")


def done(run_id: str, totals: Callable[[Connection], Mapping[str, Any]], ended: str) -> RunEvent:
    """The run ended by itself, or was cancelled. `totals`: steps, messages and usage, as they are at the end of the
    transaction. It has no key: a run that is continued by a redelivery ends again."""
    return RunEvent(run_id, DONE, lambda connection: {**totals(connection), "ended": ended})


def error(run_id: str, problem: Mapping[str, Any]) -> RunEvent:
    """The run failed. `problem`: an object of RFC 9457, such as `run_problem` returns."""
    return RunEvent(run_id, ERROR, {"problem": problem})


def run_problem(detail: str, cause: str | None = None) -> dict[str, Any]:
    """Return the problem of a run that failed. `cause`: see `Outcome.cause`."""
    kind, status, title = LIMIT_REACHED if cause == LIMIT_REACHED[0] else RUN_FAILED
    return {"type": f"{PROBLEMS}{kind}", "title": title, "status": status, "detail": detail}
