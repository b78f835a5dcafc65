"""Webflow."""

from __future__ import annotations

from runtime.webhooks.providers.provider import Fact, Provider
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
    facts=(
        Fact("form", ("$.payload.name",)),
        Fact("site", ("$.payload.siteId", "$.payload.site")),
        Fact("order", ("$.payload.orderId",)),
        Fact("item", ("$.payload.fieldData.name", "$.payload.id")),
        Fact("status", ("$.payload.status",)),
    ),
)
