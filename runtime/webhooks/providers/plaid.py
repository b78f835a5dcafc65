"""Plaid."""

from __future__ import annotations

from runtime.webhooks.providers.provider import Provider, SummaryField
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
    summary_fields=(
        SummaryField("type", ("$.webhook_type",)),
        SummaryField("code", ("$.webhook_code",)),
        SummaryField("item", ("$.item_id",)),
        SummaryField("environment", ("$.environment",)),
        SummaryField("new transactions", ("$.new_transactions",)),
        SummaryField("error", ("$.error.error_message", "$.error.error_code")),
    ),
)
