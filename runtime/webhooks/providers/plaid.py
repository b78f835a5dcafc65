"""Plaid."""

from __future__ import annotations

from runtime.webhooks.providers.provider import Fact, Provider
from runtime.webhooks.schemes.jwt import Jwt

PLAID = Provider(
    name="plaid",
    title="Plaid",
    doc="Plaid's webhooks. The secret is the key from `/webhook_verification_key/get`, as JSON. "
    "Plaid changes it from time to time and requires credentials for it, so add each new one by "
    "hand.",
    doc_url="https://plaid.com/docs/api/webhooks/webhook-verification/",
    scheme=Jwt(
        header="Plaid-Verification",
        algorithms=("ES256",),
        expires=False,
        tolerance=300,
        body_claim="request_body_sha256",
    ),
    event=("$.webhook_type + $.webhook_code", "$.webhook_code"),
    facts=(
        Fact("type", ("$.webhook_type",)),
        Fact("code", ("$.webhook_code",)),
        Fact("item", ("$.item_id",)),
        Fact("environment", ("$.environment",)),
        Fact("new transactions", ("$.new_transactions",)),
        Fact("error", ("$.error.error_message", "$.error.error_code")),
    ),
)
