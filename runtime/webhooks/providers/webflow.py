"""Webflow."""

from __future__ import annotations

from runtime.webhooks.providers.provider import Provider, SummaryField
from runtime.webhooks.request.static_response import OK
from runtime.webhooks.schemes.hmac import Hmac

WEBFLOW = Provider(
    name="webflow",
    title="Webflow",
    doc="Webhooks of a Webflow app; those made in a site's dashboard are not signed. The secret is the client secret.",
    doc_url="https://developers.webflow.com/data/docs/working-with-webhooks",
    scheme=Hmac(
        header="X-Webflow-Signature",
        payload="{timestamp}:{body}",
        timestamp_header="X-Webflow-Timestamp",
        unit="ms",
        tolerance=300,
    ),
    event=("$.triggerType",),
    answer=OK,
    summary_fields=(
        SummaryField("form", ("$.payload.name",)),
        SummaryField("site", ("$.payload.siteId", "$.payload.site")),
        SummaryField("order", ("$.payload.orderId",)),
        SummaryField("item", ("$.payload.fieldData.name", "$.payload.id")),
        SummaryField("status", ("$.payload.status",)),
    ),
)
