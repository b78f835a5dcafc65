"""A candidate with its future row, prepared before the transaction that decides about it."""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

from runtime.clock import Clock, milliseconds, uuid7
from runtime.crypto import SealedBytes
from runtime.database.text import headers_json, storable
from runtime.threads.turns.turn import QUEUED
from runtime.webhooks.deliveries.delivery import KEPT, Candidate, Decision, Quota
from runtime.webhooks.deliveries.storage_usage import StorageUsage
from runtime.webhooks.receiving.rate_limits import Limit, limits_of

LONGEST_ID = 200
"""Characters of a sender's delivery id that are stored; a longer id is stored as its hash."""

COLUMNS = (
    *("id", "user_id", "webhook", "agent", "provider", "provider_delivery_id", "event", "received_at", "source"),
    *("size", "body_sha256", "content_type", "headers", "verified", "secret_index", "keep_body"),
    *("state", "attempt", "tries", "next_attempt_at"),
)
"""The columns of `PendingDelivery.row`."""


class PendingDelivery(NamedTuple):
    """A candidate that waits for a transaction."""

    candidate: Candidate
    delivery_id: str
    identity: tuple[str, str, str] | None
    key: tuple[str, str, bytes] | None
    row: tuple[Any, ...]
    now: int
    limits: tuple[Limit, ...]
    forgotten: bool
    """True: its replay key would already be deleted, so it cannot be shown to be new."""
    sealed: tuple[SealedBytes, int] | None = None
    """The stored request, see `stored_request.pack`, encrypted for the row `delivery_id`, if done in advance."""

    def acceptance(self, quotas: tuple[Quota, ...] = ()) -> Decision:
        return Decision("accepted", self.delivery_id, quotas=quotas)


def prepare_delivery(candidate: Candidate, clock: Clock, usage: StorageUsage) -> PendingDelivery:
    """Prepare `candidate`, received now."""
    delivery_id, now = uuid7(clock), milliseconds(clock)
    user, webhook = candidate.user_id, candidate.webhook
    provider_id = _storable_id(candidate.provider_delivery_id)
    row = (
        *(delivery_id, user, webhook, candidate.agent or "", candidate.provider, provider_id),
        *(storable(candidate.event), now, storable(candidate.source), len(candidate.body), candidate.body_sha256),
        *(storable(candidate.content_type), headers_json(candidate.headers)),
        *(candidate.verified, candidate.secret_index, candidate.keep_body),
        *(KEPT if candidate.agent is None else QUEUED, 0, 0, now),
    )
    identity = None if provider_id is None else (user, webhook, provider_id)
    key = None if candidate.replay_key is None else (user, webhook, candidate.replay_key)
    forgotten = key is not None and int(candidate.replay_until * 1000) < usage.keys_from
    return PendingDelivery(candidate, delivery_id, identity, key, row, now, limits_of(candidate), forgotten)


def _storable_id(provider_id: str | None) -> str | None:
    if provider_id is not None and len(provider_id) > LONGEST_ID:
        return "sha256:" + hashlib.sha256(provider_id.encode("utf-8", "surrogatepass")).hexdigest()
    return storable(provider_id)
