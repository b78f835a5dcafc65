"""A call of a model: its owner, its purpose and its outcome."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from runtime.models.budgets.limits import Amount
from runtime.models.request import Usage

OWNER: Final = "owner"
"""The default user, as in `runtime.database.schema`, which takes long to import."""

Purpose = Literal["chat", "summary", "embedding"]
Outcome = Literal["answered", "unavailable", "refused", "cancelled"]


class CallOwner(NamedTuple):
    """The owner of a call. Work that belongs to no user is the default user's, without an agent."""

    user_id: str = OWNER
    agent: str | None = None
    thread_id: str | None = None
    run_id: str | None = None


BACKGROUND: Final = CallOwner()
"""The owner of work that belongs to no user."""


class Call(NamedTuple):
    """One call of a service, after its end. `name`: of the block, or of the row. `model`: by the service's own name.
    `cost`: in 1e-9 US dollars, None if the price is not known. `began_at`: Unix milliseconds. `counts`: what it counts
    against limits. `reservation`: what was reserved for it, see `Budgets.reserve`."""

    owner: CallOwner
    purpose: Purpose
    name: str
    model: str
    usage: Usage
    cost: int | None
    seconds: float
    outcome: Outcome
    began_at: int
    counts: Amount = Amount()
    reservation: str | None = None
