"""Errors over HTTP: one shape for every error (RFC 9457)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from types import MappingProxyType
from typing import Any

from runtime.database.errors import Unavailable
from runtime.errors import Conflict, NotFound, RateLimited, SymbiontError
from runtime.identity.caller import Caller, Forbidden
from runtime.memory.errors import NoSuchItem, StoreBusy, StoreError, Unsupported
from runtime.models.budgets.limits import BudgetExceeded
from runtime.switches import SwitchedOff
from runtime.tables.errors import QuotaExceeded
from runtime.threads.events import run_event
from runtime.tools.failure import CODES, Code, example_for, failure_of
from runtime.tools.tool import Tool, WrongParameters

CONTENT_TYPE = "application/problem+json"

TITLES: Mapping[str, tuple[int, str]] = MappingProxyType(
    {
        "malformed": (400, "The request is invalid"),
        "unauthorized": (401, "A valid bearer token is required"),
        "forbidden": (403, "The token does not allow this"),
        "foreign_origin": (403, "Requests from this origin are not allowed"),
        "not_found": (404, "Not found"),
        "method_not_allowed": (405, "The method is not allowed"),
        "conflict": (409, "The request conflicts with the current state"),
        "quota_exceeded": (409, "The storage of the user is full"),
        "too_large": (413, "The body is too large"),
        "unsupported_media_type": (415, "The media type of the body is not supported"),
        "misdirected": (421, "This host name is not served"),
        "wrong_parameters": (422, "The parameters are invalid"),
        "too_many_bodies": (429, "Too many bodies are being sent"),
        "too_many_streams": (429, "Too many requests wait for agents"),
        run_event.LIMIT_REACHED[0]: run_event.LIMIT_REACHED[1:],
        "rate_limited": (429, "Too many such requests"),
        "internal": (500, "Internal error"),
        run_event.RUN_FAILED[0]: run_event.RUN_FAILED[1:],
        "upsert_failed": (500, "The data could not be stored"),
        "overloaded": (503, "Too many requests are running"),
        "unavailable": (503, "The database is unavailable"),
        "provider_unavailable": (503, "A required service is unavailable"),
        "switched_off": (503, "This is switched off"),
    }
)
"""Every kind of problem: its status and its title."""

SCHEMA: Mapping[str, Any] = MappingProxyType(
    {
        "type": "object",
        "description": "The problem (RFC 9457).",
        "required": ["type", "title", "status", "detail"],
        "properties": {
            "type": {"type": "string", "enum": [f"{run_event.PROBLEMS}{kind}" for kind in TITLES]},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "detail": {"type": "string", "description": "The reason why this request failed."},
            "hint": {"type": "string", "description": "How to fix it."},
            "code": {
                "type": "string",
                "enum": list(CODES),
                "description": " ".join(f"`{code}`: {what}" for code, what in CODES.items()),
            },
            "errors": {
                "type": "array",
                "description": "Every invalid parameter.",
                "items": {
                    "type": "object",
                    "required": ["pointer", "detail"],
                    "properties": {
                        "pointer": {"type": "string", "description": "Its place (RFC 6901)."},
                        "detail": {"type": "string"},
                        "example": {"type": "object", "description": "An example of valid parameters."},
                    },
                    "additionalProperties": False,
                },
            },
            "results": {
                "type": "array",
                "description": "The result of each task of a change of several: `ok`, or why it cannot be changed.",
                "items": {
                    "type": "object",
                    "required": ["task_id", "result"],
                    "properties": {"task_id": {"type": "string"}, "result": {"type": "string"}},
                    "additionalProperties": False,
                },
            },
        },
        "additionalProperties": False,
    }
)

ParameterErrors = tuple[tuple[str, str, Mapping[str, Any] | None], ...]
"""JSON pointer and message of each invalid parameter, and valid example parameters."""


@dataclass(eq=False)
class Problem(Exception):  # noqa: N818 - RFC 9457's word
    """An error answer. `kind` is a key of `TITLES`; `headers` are sent with it. `code`: a key of `CODES`, of a tool's
    failure. `results`: see `Failure`."""

    kind: str
    detail: str
    _: KW_ONLY
    hint: str | None = None
    code: str | None = None
    errors: ParameterErrors = ()
    headers: tuple[tuple[str, str], ...] = ()
    results: Sequence[Mapping[str, str]] | None = None

    @property
    def status(self) -> int:
        """The status of the answer."""
        return TITLES[self.kind][0]

    def body(self) -> bytes:
        """Return the JSON object as bytes."""
        return json.dumps(self.json()).encode()

    def openai_body(self) -> bytes:
        """Return the JSON object in which OpenAI's clients look for the message."""
        text = f"{self.detail} ({self.hint})" if self.hint else self.detail
        kind = "server_error" if self.status >= 500 else "invalid_request_error"
        error = {"message": text, "type": kind, "param": None, "code": self.kind}
        return json.dumps({"error": error, **self.json()}).encode()

    def json(self) -> dict[str, Any]:
        """Return the JSON object."""
        errors = [
            {"pointer": pointer, "detail": detail} | ({} if example is None else {"example": example})
            for pointer, detail, example in self.errors
        ]
        others = {"hint": self.hint or None, "code": self.code, "errors": errors or None, "results": self.results}
        return {
            "type": f"{run_event.PROBLEMS}{self.kind}",
            "title": TITLES[self.kind][1],
            "status": self.status,
            "detail": self.detail,
        } | {name: value for name, value in others.items() if value is not None}


def problem_of(error: SymbiontError, tool: Tool | None = None, caller: Caller | None = None) -> Problem:
    """Convert an operation's error to a problem. `tool` and `caller`: the call that failed."""
    failure = failure_of(error, tool, caller)
    detail, hint, code = failure.message, failure.hint, failure.code
    kind = _kind(error, code)
    errors: ParameterErrors = ((f"/{failure.field}", detail, None),) if failure.field else ()
    if isinstance(error, WrongParameters):
        detail = "some parameters are invalid"
        errors = tuple((_pointer(path), what, _example(error, tool, path)) for path, what in error.problems)
    elif kind == "unavailable":
        detail, hint = "try again", None
    elif isinstance(error, StoreError) and code in {"provider_unavailable", "upsert_failed"}:
        # It names files, which only administrators may see.
        kind = "internal" if code == "provider_unavailable" else kind
        detail, hint = "stored items cannot be read or written; see the daemon's log", None
    headers = _headers(error, kind)
    return Problem(kind, detail, hint=hint, code=code, errors=errors, headers=headers, results=failure.results)


def _headers(error: SymbiontError, kind: str) -> tuple[tuple[str, str], ...]:
    if isinstance(error, Forbidden):
        scope = f', scope="{error.scope}"' if error.scope else ""
        return (("WWW-Authenticate", f'Bearer realm="symbiont", error="insufficient_scope"{scope}'),)
    if isinstance(error, BudgetExceeded | RateLimited):
        return (("Retry-After", f"{error.retry_after:.0f}"),)
    # Only a person turns a switch.
    return (("Retry-After", "5"),) if TITLES[kind][0] == 503 and kind != "switched_off" else ()


def _kind(error: SymbiontError, code: Code) -> str:
    match error:
        case Forbidden():
            return "forbidden"
        case BudgetExceeded():
            return "budget_exceeded"
        case NotFound() | NoSuchItem():
            return "not_found"
        case QuotaExceeded():
            return "quota_exceeded"
        case Conflict() | Unsupported():
            return "conflict"
        case Unavailable() | StoreBusy():
            return "unavailable"
        case SwitchedOff():
            return "switched_off"
    return "wrong_parameters" if code == "invalid_params" else code


def _example(error: WrongParameters, tool: Tool | None, path: tuple[str | int, ...]) -> Mapping[str, Any] | None:
    if error.example is not None and path == error.problems[0][0]:
        return {str(path[0]): error.example}
    return example_for(tool, path)


def _pointer(path: tuple[str | int, ...]) -> str:
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in path)
