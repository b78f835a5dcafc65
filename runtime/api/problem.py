"""What went wrong, as HTTP says it: one shape for every error (RFC 9457)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from runtime.errors import Conflict, NotFound, Retry, SymbiontError, UsageError
from runtime.identity import Forbidden
from runtime.memory import NoSuchItem, RefusedItem, StoreError, Unsupported
from runtime.search.errors import IndexFailed
from runtime.tools import WrongParameters

CONTENT_TYPE = "application/problem+json"

TITLES: Mapping[str, tuple[int, str]] = MappingProxyType(
    {
        "malformed": (400, "The request cannot be read"),
        "unauthorized": (401, "A good bearer token is needed"),
        "forbidden": (403, "The token's scopes do not allow this"),
        "not_found": (404, "Nothing is here"),
        "method_not_allowed": (405, "The method is not allowed here"),
        "conflict": (409, "It cannot be done as things are"),
        "too_large": (413, "The body is too large"),
        "unsupported_media_type": (415, "The body is not of a type that is read here"),
        "wrong_parameters": (422, "The parameters are wrong"),
        "too_many_failures": (429, "Too many bad tokens came from this address"),
        "internal": (500, "Something went wrong here"),
        "unavailable": (503, "The database does not answer"),
    }
)
"""Every kind of problem: its status and its title."""

SCHEMA: Mapping[str, Any] = MappingProxyType(
    {
        "type": "object",
        "description": "What went wrong (RFC 9457).",
        "required": ["type", "title", "status", "detail"],
        "properties": {
            "type": {"type": "string", "enum": [f"urn:symbiont:problem:{kind}" for kind in TITLES]},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "detail": {"type": "string", "description": "What is wrong with this request."},
            "hint": {"type": "string", "description": "What to do about it."},
            "errors": {
                "type": "array",
                "description": "Each wrong parameter.",
                "items": {
                    "type": "object",
                    "required": ["pointer", "detail"],
                    "properties": {
                        "pointer": {"type": "string", "description": "Where it stands (RFC 6901)."},
                        "detail": {"type": "string"},
                    },
                    "additionalProperties": False,
                },
            },
        },
        "additionalProperties": False,
    }
)


class Problem(Exception):  # noqa: N818 - RFC 9457's word
    """An answer that is an error. `kind` is a key of `TITLES`; `headers` go with it."""

    def __init__(
        self,
        kind: str,
        detail: str,
        *,
        hint: str | None = None,
        errors: tuple[tuple[str, str], ...] = (),
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        """`errors`: JSON pointer and sentence of each wrong parameter."""
        super().__init__(detail)
        self.kind = kind
        self.status, self.title = TITLES[kind]
        self.detail = detail
        self.hint = hint
        self.errors = errors
        self.headers = headers

    def body(self) -> bytes:
        """The JSON object."""
        told: dict[str, Any] = {
            "type": f"urn:symbiont:problem:{self.kind}",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
        }
        if self.hint:
            told["hint"] = self.hint
        if self.errors:
            told["errors"] = [{"pointer": pointer, "detail": detail} for pointer, detail in self.errors]
        return json.dumps(told).encode()


def problem_of(error: SymbiontError) -> Problem:
    """What an operation raised, as a problem."""
    detail, hint = str(error), error.hint
    match error:
        case Forbidden():
            challenge = f'Bearer realm="symbiont", error="insufficient_scope", scope="{error.scope}"'
            return Problem("forbidden", detail, hint=hint, headers=(("WWW-Authenticate", challenge),))
        case NotFound() | NoSuchItem():
            return Problem("not_found", detail, hint=hint)
        case Conflict() | Unsupported():
            return Problem("conflict", detail, hint=hint)
        case WrongParameters():
            errors = tuple((_pointer(path), what) for path, what in error.problems)
            return Problem("wrong_parameters", "not all parameters are as they should be", errors=errors)
        case UsageError() | RefusedItem():
            return Problem("wrong_parameters", detail, hint=hint)
        case Retry():
            return Problem("unavailable", "try again", headers=(("Retry-After", "5"),))
        case StoreError() | IndexFailed():
            # It names files, which are the administrator's matter.
            return Problem("internal", "what is remembered cannot be read or written; the daemon's log says why")
    return Problem("internal", detail, hint=hint)


def _pointer(path: tuple[str | int, ...]) -> str:
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in path)
