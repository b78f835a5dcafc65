"""The forms of a delivery: a candidate, the decision on it, a rejected request for the audit, a turn for an agent."""

from __future__ import annotations

from typing import ClassVar, Final, Literal, NamedTuple

from msgspec import Struct

from runtime.database.schema import OWNER
from runtime.threads.turns.turn import ClaimedTurn

KEPT: Final = "kept"
"""The state of a delivery of a webhook without an agent: it can be read, and sent when the webhook has an agent."""

Verdict = Literal["accepted", "repeated", "replayed", "limited"]


HeaderPairs = tuple[tuple[str, str], ...]


class ReceivedRequest(Struct, frozen=True, kw_only=True):
    """The stored properties of every request, accepted or not."""

    body_sha256: str | None = None
    """Hexadecimal."""
    event: str | None = None
    provider_delivery_id: str | None = None
    """The sender's own id; the same one again gets the first one's answer."""
    headers: HeaderPairs = ()
    """The headers for the audit, see `runtime.webhooks.audit.audit.chosen_headers`."""
    source: str | None = None
    """The sender's address."""
    verified: bool = True
    """False unless a signature was valid: also for requests that failed earlier, and webhooks without signatures."""
    secret_index: int | None = None
    """Index of the webhook's secret that matched, from 0."""
    user_id: str = OWNER


class Candidate(ReceivedRequest, frozen=True, kw_only=True):
    """A verified and wanted delivery, ready to be admitted."""

    webhook: str
    provider: str
    body: bytes
    """As received, before anything parsed it."""
    agent: str | None
    """The agent that it is for; None: it is only stored."""
    replay_key: bytes | None = None
    """The matched MAC of a timestamped request; the same one again is refused."""
    replay_until: float = 0.0
    """Unix seconds when a copy of a request with `replay_key` is too old anyway: its timestamp plus the tolerance."""
    content_type: str | None = None
    received: HeaderPairs = ()
    """All headers as received, without secrets; stored with the body."""
    keep_body: bool = True
    """False: the body is dropped as soon as the delivery has been handled."""
    per_minute: int | None = None
    """Deliveries of this webhook that may be accepted in a minute; None: any number."""
    user_per_minute: int | None = None
    """The same for all of the user's webhooks that have such a limit, together."""


class Quota(NamedTuple):
    """The state of one limit after a candidate."""

    name: str
    """`webhook` or `user`."""
    quota: int
    """Deliveries in a minute."""
    remaining: int
    seconds: int
    """For that many seconds no more than `remaining` are accepted."""


class Decision(Struct, frozen=True):
    """The committed decision on a candidate."""

    verdict: Verdict
    delivery_id: str
    """The accepted delivery's id; for a repeat or a replay that of the first one (not for the sender of a replay).
    Empty for a limited one, and for a replay of one that was pruned."""
    queued_again: bool = False
    """True for a repeat of a dead letter, which is run again."""
    retry_after: int = 0
    """Seconds to wait when limited; nothing of the candidate was stored."""
    quotas: tuple[Quota, ...] = ()
    """The candidate's limits, when it was accepted or limited."""


class RejectedRequest(ReceivedRequest, frozen=True, kw_only=True):
    """A request that was not accepted, for the audit."""

    verdict: str
    """`refused`, `filtered`, `repeated`, `handshake`."""
    reason: str
    """The code in the answer, such as `signature_mismatch`."""
    status: int
    """HTTP status of the response."""
    size: int
    """Bytes of the body: as read, else as its head says."""
    webhook: str | None = None
    delivery_id: str | None = None
    """The accepted delivery that this one repeated."""


class ClaimedDelivery(ClaimedTurn, frozen=True, kw_only=True):
    """A delivery as the turn of an agent."""

    trigger: ClassVar[str] = "delivery"

    webhook: str
    provider: str
    event: str | None
    provider_delivery_id: str | None
    body: bytes
    """Empty when it was `left_out`."""
    content_type: str | None
    headers: HeaderPairs
    source: str | None
    received_at: int
    """Unix milliseconds."""
    verified: bool
    keep_body: bool = True
    """False: the body is deleted when the delivery is done."""
    left_out: bool = False
    """The body is too large to be read by the claim: `Inbox.load` reads it."""

    @property
    def arrived_at(self) -> int:
        return self.received_at

    @property
    def delivery_id(self) -> str:
        return self.id
