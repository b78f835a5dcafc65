"""A call of a tool that a person has to confirm."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final, Literal, NamedTuple

from msgspec import Struct

AWAITING: Final = "awaiting"
APPROVED: Final = "approved"
DENIED: Final = "denied"
EXPIRED: Final = "expired"
"""Nobody answered until the deadline."""
CANCELLED: Final = "cancelled"
"""Its run ended before a person decided."""

Via = Literal["cli", "http", "mcp"]
"""The way a person decided; `mcp`: by a client of the Model Context Protocol."""

STATES: Final = (AWAITING, APPROVED, DENIED, EXPIRED, CANCELLED)


class Origin(Struct, frozen=True, kw_only=True):
    """The origin of a call. `kind` and `subject`: of its thread. `webhook` and `delivery_id`: of the delivery that
    woke the agent; None if a person did. `message`: the beginning of what it was woken with."""

    kind: str = ""
    subject: str | None = None
    webhook: str | None = None
    delivery_id: str | None = None
    message: str = ""


UNKNOWN_ORIGIN: Final = Origin()


class Question(NamedTuple):
    """A call to confirm. `arguments`: JSON of an object. `digest`: see `digest_of`. `definition`: the same of the tool
    alone, whatever the arguments. `server`: of the tool; None for one of ours."""

    call_id: str
    tool: str
    arguments: str
    digest: str
    definition: str = ""
    server: str | None = None


class Approval(Struct, frozen=True, kw_only=True):
    """A stored question, and what was decided. Times are Unix milliseconds.

    `arguments` and `digest`: empty if the stored row was changed or cannot be read; `digest` also if it says `approved`
    and no decision of a person is stored for it. `decided_by`: the id of a user. `decided_via`: how; None if no
    decision can be read.
    """

    id: str
    user_id: str
    agent: str
    thread_id: str
    run_id: str
    call_id: str
    tool: str
    state: str
    deadline: int
    created_at: int
    decided_at: int | None
    decided_by: str | None
    decided_via: Via | None
    reason: str | None
    arguments: str
    digest: str
    server: str | None
    origin: Origin

    def state_at(self, now: int) -> str:
        """Return the state; `expired` also if the run has not noticed yet that its deadline is over."""
        return EXPIRED if self.state == AWAITING and self.deadline <= now else self.state


def digest_of(tool: str, arguments: Mapping[str, Any], exact: Mapping[str, Any]) -> str:
    """Return the hash of what exactly is to run: the tool, its arguments, and what else decides what they do, such as
    the schema by which they are read. All of them are JSON."""
    canonical = json.dumps([tool, arguments, exact], sort_keys=True, separators=(",", ":"))
    return sha256(canonical.encode()).hexdigest()
