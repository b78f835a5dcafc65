"""DocuSign."""

from __future__ import annotations

from runtime.webhooks.providers.provider import Provider, SummaryField
from runtime.webhooks.schemes.hmac import Hmac

DOCUSIGN = Provider(
    name="docusign",
    title="DocuSign",
    doc="DocuSign Connect, in its JSON format. Use any of the account's HMAC keys.",
    doc_url="https://developers.docusign.com/platform/webhooks/connect/validate",
    # One numbered header for each of the account's keys.
    scheme=Hmac(
        header="X-DocuSign-Signature-1",
        more_headers=tuple(f"X-DocuSign-Signature-{number}" for number in range(2, 101)),
        encoding="base64",
    ),
    event=("$.event",),
    delivery_id=("$.data.envelopeId + $.event + $.generatedDateTime",),
    summary_fields=(
        SummaryField("envelope", ("$.data.envelopeId",)),
        SummaryField("status", ("$.data.envelopeSummary.status",)),
        SummaryField("subject", ("$.data.envelopeSummary.emailSubject",)),
        SummaryField("sender", ("$.data.envelopeSummary.sender.email",)),
        SummaryField("recipient", ("$.data.recipientId",)),
        SummaryField("account", ("$.data.accountId",)),
    ),
)
