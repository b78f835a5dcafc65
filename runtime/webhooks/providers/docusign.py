"""DocuSign."""

from __future__ import annotations

from runtime.webhooks.providers.provider import Fact, Provider
from runtime.webhooks.schemes.hmac import Hmac

DOCUSIGN = Provider(
    name="docusign",
    title="DocuSign",
    doc="DocuSign Connect, in its JSON format. Use any of the account's HMAC keys.",
    doc_url="https://developers.docusign.com/platform/webhooks/connect/validate",
    # One header for each of the account's keys, numbered.
    scheme=Hmac(
        header="X-DocuSign-Signature-1",
        more_headers=tuple(f"X-DocuSign-Signature-{number}" for number in range(2, 101)),
        encoding="base64",
    ),
    event=("$.event",),
    delivery_id=("$.data.envelopeId + $.event + $.generatedDateTime",),
    facts=(
        Fact("envelope", ("$.data.envelopeId",)),
        Fact("status", ("$.data.envelopeSummary.status",)),
        Fact("subject", ("$.data.envelopeSummary.emailSubject",)),
        Fact("sender", ("$.data.envelopeSummary.sender.email",)),
        Fact("recipient", ("$.data.recipientId",)),
        Fact("account", ("$.data.accountId",)),
    ),
)
