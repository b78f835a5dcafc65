"""Failures of tool calls, the same on every surface: one of a few kinds, which tell the caller whether to change or to
repeat the call (the fifth design, M8)."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from runtime.database.errors import Unavailable
from runtime.errors import Conflict, NotFound, RateLimited, Retry, SymbiontError, UsageError
from runtime.identity.caller import Caller, Forbidden
from runtime.memory.errors import NoSuchItem, RefusedItem, StoreError, Unsupported
from runtime.models.budgets.limits import BudgetExceeded
from runtime.search.errors import EmbeddingMismatch, IndexFailed
from runtime.switches import SwitchedOff
from runtime.tables.errors import QuotaExceeded, TablesUnavailable
from runtime.tasks.task import BulkRefused
from runtime.tool_servers.errors import CallUncertain, ServerAway
from runtime.tools.tool import Tool, WrongParameters

Code = Literal[
    "invalid_params",
    "not_found",
    "forbidden",
    "conflict",
    "provider_unavailable",
    "upsert_failed",
    "quota_exceeded",
    "rate_limited",
]

CODES: Final[Mapping[Code, str]] = {
    "invalid_params": "The call is invalid: the message names the field, and shows a correct value.",
    "not_found": "What the call names does not exist, or belongs to somebody else.",
    "forbidden": "The token does not allow the call: another token, or its owner, is needed.",
    "conflict": "The call does not fit the current state: the message says what is there.",
    "provider_unavailable": "A required service does not answer, or not correctly: a later call may succeed.",
    "upsert_failed": "The data was not stored: a later call may succeed.",
    "quota_exceeded": "The change would exceed what the user may store: the message names the limit and what is free.",
    "rate_limited": "The user made too many such calls: the message names the seconds after which one may succeed.",
}
"""Every kind, and its meaning."""

_UNTOLD: Final[Mapping[Code, str]] = {
    "provider_unavailable": "a required service does not answer",
    "upsert_failed": "the data could not be stored",
}
# What they say concerns the caller, and names no more than a block of the program.
_TOLD = (SwitchedOff, BudgetExceeded, RateLimited, ServerAway, CallUncertain, TablesUnavailable)
_BY_ERROR: Final[Sequence[tuple[tuple[type[SymbiontError], ...], Code]]] = (
    ((RateLimited,), "rate_limited"),
    ((EmbeddingMismatch, SwitchedOff, BudgetExceeded, CallUncertain), "provider_unavailable"),
    ((QuotaExceeded,), "quota_exceeded"),
    ((NotFound, NoSuchItem), "not_found"),
    ((Forbidden,), "forbidden"),
    ((Conflict, Unsupported), "conflict"),
    ((UsageError, RefusedItem), "invalid_params"),
)
"""The first row that has an error's class decides."""


@dataclass(frozen=True, slots=True)
class Failure:
    """`field`: the wrong parameter, with dots between names and positions; `example`: correct parameters, as a JSON
    object; `hint`: what to do; `results`: of each object of a call on several. None if unknown."""

    code: Code
    message: str
    field: str | None = None
    hint: str | None = None
    example: Mapping[str, Any] | None = None
    results: Sequence[Mapping[str, str]] | None = None

    def json(self) -> dict[str, Any]:
        """Return the failure as a JSON object, without fields that are None."""
        parts = {"field": self.field, "hint": self.hint, "example": self.example, "results": self.results}
        return {"code": self.code, "message": self.message} | {key: it for key, it in parts.items() if it is not None}


def wrong(field: str, what: str, *, hint: str | None = None, example: Any = None) -> WrongParameters:
    """Return the error for a parameter that a tool's function finds invalid. `example`: a valid value, if the example
    in the table is unsuitable."""
    return WrongParameters(None, ((tuple(_parts(field)), what),), hint=hint, example=example)


def failure_of(error: SymbiontError, tool: Tool | None, caller: Caller | None = None) -> Failure:
    """Return `error` as the caller of `tool` sees it (None: not a tool, such as a resource).

    `caller`: files and services are named to administrators only; None is one of them.
    """
    if isinstance(error, WrongParameters) and error.problems:
        return _of_parameters(error, tool)
    if isinstance(error, BulkRefused):
        results = [{"task_id": task_id, "result": result} for task_id, result in error.results.items()]
        return Failure("invalid_params", str(error), "task_ids", error.hint, results=results)
    code, hint = code_of(error, tool), error.hint
    if code in _UNTOLD and not isinstance(error, _TOLD) and caller is not None and not caller.may("admin"):
        return Failure(code, _UNTOLD[code], hint="try again later; see the daemon's log")
    return Failure(code, str(error), getattr(error, "field", None), hint)


def code_of(error: SymbiontError, tool: Tool | None) -> Code:
    """Return the kind of failure of an error."""
    code: Code
    for kinds, code in _BY_ERROR:
        if isinstance(error, kinds):
            return code
    kept = tool is not None and not tool.read_only
    if isinstance(error, IndexFailed) or (isinstance(error, Retry) and not isinstance(error, Unavailable | StoreError)):
        return "provider_unavailable"
    return "upsert_failed" if kept else "provider_unavailable"


def outcome_of(error: BaseException | None, tool: Tool | None) -> str:
    """Return how a call ended, one of `runtime.metrics.metrics.TOOL_CALLS`. `error`: that ended it, if any."""
    match error:
        case None:
            return "done"
        case SymbiontError():
            return code_of(error, tool)
        case CancelledError():
            return "cancelled"
    return "failed"


def example_for(tool: Tool | None, path: tuple[str | int, ...]) -> Mapping[str, Any] | None:
    """Return an example for the parameter at `path`: only that parameter if the tool has several, or the whole
    example."""
    if tool is None or not path:
        return None if tool is None else tool.example
    given = str(path[0])
    name = tool.aliases.get(given, given)
    field = tool.parameters.model_fields.get(name)
    if field is None:
        return tool.example
    if tool.example is not None and name in tool.example:
        return {name: tool.example[name]}
    return {name: field.examples[0]} if field.examples else tool.example


def _of_parameters(error: WrongParameters, tool: Tool | None) -> Failure:
    path, what = error.problems[0]
    more = error.problems[1:]
    message = (
        what if not more else "; ".join([what, *(f"{_dotted(other)}: {it}" if other else it for other, it in more)])
    )
    example = example_for(tool, path) if error.example is None else {str(path[0]): error.example}
    return Failure("invalid_params", message, _dotted(path) or None, error.hint, example)


def _dotted(path: tuple[str | int, ...]) -> str:
    return ".".join(map(str, path))


def _parts(field: str) -> list[str | int]:
    return [int(part) if part.isdigit() else part for part in field.split(".")]
