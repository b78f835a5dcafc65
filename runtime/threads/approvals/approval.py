"""A call of a tool that a person has to confirm."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final, NamedTuple

from msgspec import Struct

AWAITING: Final = "awaiting"
APPROVED: Final = "approved"
DENIED: Final = "denied"
EXPIRED: Final = "expired"
"""Nobody answered until the deadline."""
CANCELLED: Final = "cancelled"
"""Its run ended before a person decided."""

STATES: Final = (AWAITING, APPROVED, DENIED, EXPIRED, CANCELLED)


class Question(NamedTuple):
    """A call to confirm. `arguments`: JSON of an object. `digest`: see `digest_of`."""

    call_id: str
    tool: str
    arguments: str
    digest: str


class Approval(Struct, frozen=True, kw_only=True):
    """A stored question, and what was decided. Times are Unix milliseconds.

    `arguments` and `digest`: empty if the stored row was changed or cannot be read. `decided_by`: the id of a user.
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
    reason: str | None
    arguments: str
    digest: str

    def state_at(self, now: int) -> str:
        """Return the state; `expired` also if the run has not noticed yet that its deadline is over."""
        return EXPIRED if self.state == AWAITING and self.deadline <= now else self.state


def digest_of(tool: str, arguments: Mapping[str, Any], exact: Mapping[str, Any]) -> str:
    """Return the hash of what exactly is to run: the tool, its arguments, and what else decides what they do, such as
    the schema by which they are read. All of them are JSON."""
    canonical = json.dumps([tool, arguments, exact], sort_keys=True, separators=(",", ":"))
    return sha256(canonical.encode()).hexdigest()
