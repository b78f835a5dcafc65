"""ElevenLabs."""

from __future__ import annotations

from runtime.webhooks.providers.provider import Provider, SummaryField
from runtime.webhooks.request.static_response import OK
from runtime.webhooks.schemes.hmac import Hmac
from runtime.webhooks.schemes.signature_header import Fields

ELEVENLABS = Provider(
    name="elevenlabs",
    title="ElevenLabs",
    doc="Calls and transcriptions of ElevenLabs' agents.",
    doc_url="https://elevenlabs.io/docs/eleven-agents/workflows/post-call-webhooks",
    # Half an hour, as in the vendor's library.
    scheme=Hmac(
        header="ElevenLabs-Signature",
        form=Fields(signature="v0"),
        payload="{timestamp}.{body}",
        tolerance=1800,
    ),
    event=("$.type",),
    delivery_id=("$.type + $.data.conversation_id",),
    answer=OK,
    summary_fields=(
        SummaryField("agent", ("$.data.agent_id",)),
        SummaryField("conversation", ("$.data.conversation_id",)),
        SummaryField("status", ("$.data.status",)),
        SummaryField("summary", ("$.data.analysis.transcript_summary",)),
        SummaryField("successful", ("$.data.analysis.call_successful",)),
        SummaryField("seconds", ("$.data.metadata.call_duration_secs",)),
    ),
)
