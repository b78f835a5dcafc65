"""Zoom."""

from __future__ import annotations

from runtime.webhooks.handshakes.proof import JsonProof
from runtime.webhooks.providers.provider import Provider, SummaryField
from runtime.webhooks.request.field_source import BODY
from runtime.webhooks.request.static_response import OK
from runtime.webhooks.schemes.hmac import Hmac
from runtime.webhooks.schemes.signature_header import Prefixed

ZOOM = Provider(
    name="zoom",
    title="Zoom",
    doc="Events of a Zoom app. The secret is the app's secret token.",
    doc_url="https://developers.zoom.us/docs/api/webhooks/",
    scheme=Hmac(
        header="X-Zm-Signature",
        form=Prefixed("v0="),
        payload="v0:{timestamp}:{body}",
        timestamp_header="X-Zm-Request-Timestamp",
        tolerance=300,
    ),
    # Zoom validates the URL when it is saved and every 72 hours.
    handshake=JsonProof(
        where="$.event",
        equals="endpoint.url_validation",
        token="$.payload.plainToken",  # noqa: S106 - the path of the token
        token_name="plainToken",  # noqa: S106
        proof_name="encryptedToken",
    ),
    event=("$.event",),
    # `event_ts` is in every body; the signature differs for each attempt.
    delivery_id=(BODY,),
    answer=OK,
    summary_fields=(
        SummaryField("topic", ("$.payload.object.topic",)),
        SummaryField("meeting", ("$.payload.object.id",)),
        SummaryField("host", ("$.payload.object.host_email", "$.payload.object.host_id")),
        SummaryField("participant", ("$.payload.object.participant.user_name",)),
        SummaryField("start", ("$.payload.object.start_time",)),
        SummaryField("account", ("$.payload.account_id",)),
    ),
)
