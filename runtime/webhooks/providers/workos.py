"""WorkOS."""

from __future__ import annotations

from runtime.webhooks.providers.provider import Provider, SummaryField
from runtime.webhooks.request.static_response import OK
from runtime.webhooks.schemes.hmac import Hmac
from runtime.webhooks.schemes.signature_header import Fields

WORKOS = Provider(
    name="workos",
    title="WorkOS",
    doc="Events of WorkOS.",
    doc_url="https://workos.com/docs/events/data-syncing/webhooks",
    scheme=Hmac(
        header="WorkOS-Signature",
        form=Fields(separator=", "),
        payload="{timestamp}.{body}",
        unit="ms",
        tolerance=180,
    ),
    event=("$.event",),
    delivery_id=("$.id",),
    answer=OK,
    summary_fields=(
        SummaryField("object", ("$.data.object",)),
        SummaryField("id", ("$.data.id",)),
        SummaryField("email", ("$.data.email", "$.data.emails[0].value", "$.data.user.email")),
        SummaryField("name", ("$.data.name", "$.data.first_name")),
        SummaryField("state", ("$.data.state", "$.data.status")),
        SummaryField("organization", ("$.data.organization_id",)),
    ),
)
