"""The events of a run, see `runtime.threads.events.log`. `{run, agent, thread}` are added when they are shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Connection

from runtime.threads.events.log import RunEvent

TYPING: Final = "agent.typing"
MESSAGE: Final = "agent.message"
TOOL: Final = "agent.tool"
CONFIRM: Final = "agent.confirm"
DONE: Final = "agent.done"
ERROR: Final = "agent.error"

LAST: Final = frozenset({DONE, ERROR})
"""A run ends with one of these."""

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


def done(run_id: str, totals: Callable[[Connection], Mapping[str, Any]], ended: str) -> RunEvent:
    """The run ended by itself, or was cancelled. `totals`: steps, messages and usage, as they are at the end of the
    transaction. It has no key: a run that is continued by a redelivery ends again."""
    return RunEvent(run_id, DONE, lambda connection: {**totals(connection), "ended": ended})


def error(run_id: str, kind: str, detail: str) -> RunEvent:
    """The run failed. `kind`: of the problem that is shown."""
    return RunEvent(run_id, ERROR, {"problem": {"kind": kind, "detail": detail}})
