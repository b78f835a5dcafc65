"""What a delivery is on its way: a candidate, a decision, an attempt for the audit, and work for an agent."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from msgspec import Struct

from runtime.database.schema import OWNER
from runtime.errors import SymbiontError

QUEUED: Final = "queued"
"""Accepted; waits for its time to be claimed."""
RUNNING: Final = "running"
DONE: Final = "done"
DEAD: Final = "dead"
"""Given up on; can be sent again."""
AGENT_GONE: Final = "agent_gone"
"""The agent it is for is not declared any more; can be sent again."""
KEPT: Final = "kept"
"""Of a webhook that wakes no agent: there to be read, and can be sent when the webhook wakes one."""

Verdict = Literal["accepted", "repeated", "replayed", "limited"]


class AgentGone(SymbiontError):  # noqa: N818 - it says where the delivery waits
    """The agent that a delivery is for is not declared, or switched off. The delivery waits and can be sent again."""

    def __init__(self, agent: str) -> None:
        super().__init__(f"the agent {agent} is not declared, or not enabled")


Headers = tuple[tuple[str, str], ...]


class Candidate(Struct, frozen=True, kw_only=True):
    """A verified, wanted delivery, ready to be admitted."""

    webhook: str
    provider: str
    body: bytes
    """As received, before anything parsed it."""
    body_sha256: str | None = None
    """Hexadecimal; computed at receipt for every delivery."""
    agent: str | None
    """Who it is for; None: it is only kept."""
    event: str | None = None
    provider_delivery_id: str | None = None
    """The sender's own id; the same one again gets the first one's answer."""
    replay_key: bytes | None = None
    """The matched MAC of a timestamped request; the same one again is refused."""
    replay_until: float = 0.0
    """Unix seconds when a copy of a request with `replay_key` is too old anyway: its timestamp plus the tolerance."""
    content_type: str | None = None
    headers: Headers = ()
    """The chosen ones, see `runtime.webhooks.audit.audit.chosen_headers`."""
    received: Headers = ()
    """All of them as received, without secrets; they are stored with the body."""
    source: str | None = None
    """The sender's address."""
    verified: bool = True
    """False for a webhook that accepts unverified requests."""
    secret_index: int | None = None
    """Which of the webhook's secrets matched, from 0."""
    keep_body: bool = True
    """False: the body is dropped as soon as the delivery has been handled."""
    user_id: str = OWNER
    per_minute: int | None = None
    """Deliveries of this webhook that may be accepted in a minute; None: any number."""
    user_per_minute: int | None = None
    """The same for all of the user's webhooks that have such a limit, together."""


class Quota(NamedTuple):
    """How one limit stands for a candidate."""

    name: str
    """`webhook` or `user`."""
    quota: int
    """Deliveries in a minute."""
    remaining: int
    seconds: int
    """For so long no more than `remaining` are accepted."""


class Decision(Struct, frozen=True):
    """What became of a candidate; it is committed."""

    verdict: Verdict
    delivery_id: str
    """The accepted delivery's id; for a repeat or a replay that of the first one (not for the sender of a replay).
    Empty for one that was limited, and for a replay of one that is forgotten."""
    queued_again: bool = False
    """A repeat of a dead letter, which will run once more."""
    retry_after: int = 0
    """Seconds to wait when limited; nothing of the candidate was kept."""
    quotas: tuple[Quota, ...] = ()
    """How the candidate's limits stand, when it was accepted or limited."""


class Attempt(Struct, frozen=True, kw_only=True):
    """A request that was not accepted, for the audit."""

    verdict: str
    """`refused`, `filtered`, `repeated`, `handshake`."""
    reason: str
    """The code in the answer, such as `signature_mismatch`."""
    status: int
    """HTTP status that was answered."""
    size: int
    """Bytes of the body, as far as it was read."""
    webhook: str | None = None
    body_sha256: str | None = None
    source: str | None = None
    event: str | None = None
    provider_delivery_id: str | None = None
    delivery_id: str | None = None
    """The accepted delivery that this one repeated."""
    headers: Headers = ()
    verified: bool = True
    """False unless a signature held: for what failed before it, and for webhooks that ask for none."""
    secret_index: int | None = None
    """Which of the webhook's secrets matched, from 0."""
    user_id: str = OWNER


class ClaimedDelivery(Struct, frozen=True, kw_only=True):
    """A claimed delivery, for the agent."""

    delivery_id: str
    run_id: str
    attempt: int
    """Counts the claims; the fence of everything this attempt writes."""
    tries: int
    """Counts the claims that matter for giving up, this one included."""
    webhook: str
    agent: str
    provider: str
    event: str | None
    provider_delivery_id: str | None
    body: bytes
    """Empty when it was `left_out`."""
    content_type: str | None
    headers: Headers
    source: str | None
    received_at: int
    """Unix milliseconds."""
    verified: bool
    user_id: str
    left_out: bool = False
    """The body is too large to be read by the claim: `Inbox.whole` does that."""
