"""The events of a run, see `runtime.threads.events.log`. `{run, agent, thread}` are added when they are shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Connection

from runtime.threads.events.log import DONE, ERROR, RunEvent

TYPING: Final = "agent.typing"
MESSAGE: Final = "agent.message"
TOOL: Final = "agent.tool"
CONFIRM: Final = "agent.confirm"

PROBLEMS: Final = "urn:symbiont:problem:"
"""Prefix of the type of every problem (RFC 9457)."""
RUN_FAILED: Final = ("run_failed", 500, "The run failed")
"""Kind, status and title of the problem of a run that failed."""
LIMIT_REACHED: Final = ("budget_exceeded", 429, "A limit is reached")
"""The same for one that a budget did not allow."""

STARTED: Final = "started"
"""State of a call that has no output yet; later it is the status of the output."""


def typing(run_id: str, step: int) -> RunEvent:
    """The model is asked in this step."""
    return RunEvent(run_id, TYPING, {"step": step}, f"{step}/typing")


def message(run_id: str, step: int, texts: Sequence[str]) -> RunEvent:
    """The agent said something."""
    return RunEvent(run_id, MESSAGE, {"step": step, "messages": list(texts)}, f"{step}/message")


def tool(run_id: str, step: int, call: str, name: str, state: str) -> RunEvent:
    """A call has begun, or has an output. `call`: its id."""
    key = f"{call}/{STARTED if state == STARTED else 'output'}"
    return RunEvent(run_id, TOOL, {"step": step, "call": call, "name": name, "state": state}, key)


def confirm(run_id: str, call: str, approval: str, name: str, arguments: Mapping[str, Any], deadline: str) -> RunEvent:
    """A call waits for a person. `call` and `approval`: ids. `deadline`: RFC 3339."""
    asked = {"call": call, "approval": approval, "name": name, "arguments": arguments, "deadline": deadline}
    return RunEvent(run_id, CONFIRM, {**asked, "state": "awaiting"}, f"{call}/confirm")


def confirmed(run_id: str, call: str, approval: str, name: str, state: str, reason: str | None) -> RunEvent:
    """A call does not wait for a person any more: it was `approved` or `denied`, nobody answered (`expired`), or its
    run has ended (`cancelled`)."""
    decided = {"call": call, "approval": approval, "name": name, "state": state, "reason": reason}
    return RunEvent(run_id, CONFIRM, decided, f"{call}/confirmed")


def done(run_id: str, totals: Callable[[Connection], Mapping[str, Any]], ended: str) -> RunEvent:
    """The run ended by itself, or was cancelled. `totals`: steps, messages and usage, as they are at the end of the
    transaction. It has no key: a run that is continued by a redelivery ends again."""
    return RunEvent(run_id, DONE, lambda connection: {**totals(connection), "ended": ended})


def error(run_id: str, problem: Mapping[str, Any]) -> RunEvent:
    """The run failed. `problem`: an object of RFC 9457, such as `run_failed` returns."""
    return RunEvent(run_id, ERROR, {"problem": problem})


def run_failed(detail: str, cause: str | None = None) -> dict[str, Any]:
    """Return the problem of a run that failed. `cause`: see `Outcome.cause`."""
    kind, status, title = LIMIT_REACHED if cause == LIMIT_REACHED[0] else RUN_FAILED
    return {"type": f"{PROBLEMS}{kind}", "title": title, "status": status, "detail": detail}
