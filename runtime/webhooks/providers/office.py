"""Providers: documents, files, appointments and boards."""

from __future__ import annotations

from typing import Final

from runtime.webhooks.handshakes import PRESENCE_CHECK, query_echo
from runtime.webhooks.providers.provider import MIB, Provider, SummaryField
from runtime.webhooks.request.field_source import BODY
from runtime.webhooks.request.static_response import OK, StaticAnswer
from runtime.webhooks.schemes.hmac import Hmac
from runtime.webhooks.schemes.signature_header import Fields, Prefixed
from runtime.webhooks.schemes.token import BodyToken, without

OFFICE: Final = (
    Provider(
        name="calendly",
        title="Calendly",
        doc="Events of invitees and routing forms at Calendly.",
        doc_url="https://developer.calendly.com/api-docs/overview/webhooks/webhook-signatures",
        scheme=Hmac(header="Calendly-Webhook-Signature", form=Fields(), payload="{timestamp}.{body}", tolerance=180),
        event=("$.event",),
        # `created_at` is in every body; the signature differs for each attempt.
        delivery_id=(BODY,),
        summary_fields=(
            SummaryField("event", ("$.payload.scheduled_event.name",)),
            SummaryField("invitee", ("$.payload.name",)),
            SummaryField("email", ("$.payload.email",)),
            SummaryField("start", ("$.payload.scheduled_event.start_time",)),
            SummaryField("status", ("$.payload.status",)),
            SummaryField("reason", ("$.payload.cancellation.reason",)),
        ),
    ),
    Provider(
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
        # https://developers.docusign.com/docs/esign-rest-api/esign101/rules-and-limits/: an envelope's documents, 25 MB
        body_limit=25 * MIB,
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
    ),
    Provider(
        name="dropbox",
        title="Dropbox",
        doc="Notifications that files of a Dropbox app's users changed, without their names. The secret "
        "is the app's secret.",
        doc_url="https://www.dropbox.com/developers/reference/webhooks",
        scheme=Hmac(header="X-Dropbox-Signature"),
        handshake=query_echo("challenge"),
        answer=OK,
        summary_fields=(
            SummaryField("account", ("$.list_folder.accounts[*]",)),
            SummaryField("user", ("$.delta.users[*]",)),
        ),
    ),
    Provider(
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
    ),
    Provider(
        name="figma",
        title="Figma",
        doc="Figma's webhooks (V2). It does not sign: the secret is the webhook's passcode, which is in the body.",
        doc_url="https://developers.figma.com/docs/rest-api/webhooks-security/",
        scheme=BodyToken(field="passcode"),
        decoder=without("passcode"),
        answer=StaticAnswer(200),
        event=("$.event_type",),
        delivery_id=("$.webhook_id + $.timestamp",),
        summary_fields=(
            SummaryField("file", ("$.file_name", "$.file_key")),
            SummaryField("by", ("$.triggered_by.handle",)),
            SummaryField("comment", ("$.comment[0].text",)),
            SummaryField("description", ("$.description",)),
            SummaryField("at", ("$.timestamp",)),
        ),
    ),
    Provider(
        name="trello",
        title="Trello",
        doc="Changes of a Trello board or card, signed with SHA-1, the only option. It signs the "
        "callback URL too, so `public_url` is needed. The secret is the app's.",
        doc_url="https://developer.atlassian.com/cloud/trello/guides/rest-api/webhooks",
        scheme=Hmac(header="X-Trello-Webhook", algorithm="sha1", encoding="base64", payload="{body}{url}"),
        handshake=PRESENCE_CHECK,
        event=("$.action.type",),
        delivery_id=("$.action.id",),
        answer=OK,
        summary_fields=(
            SummaryField("board", ("$.action.data.board.name", "$.model.name")),
            SummaryField("card", ("$.action.data.card.name",)),
            SummaryField("list", ("$.action.data.listAfter.name", "$.action.data.list.name")),
            SummaryField("from", ("$.action.data.listBefore.name",)),
            SummaryField("text", ("$.action.data.text",)),
            SummaryField("by", ("$.action.memberCreator.fullName",)),
        ),
    ),
    Provider(
        name="typeform",
        title="Typeform",
        doc="Answers to a Typeform.",
        doc_url="https://www.typeform.com/developers/webhooks/secure-your-webhooks/",
        scheme=Hmac(header="Typeform-Signature", form=Prefixed("sha256="), encoding="base64"),
        event=("$.event_type",),
        delivery_id=("$.event_id",),
        summary_fields=(
            SummaryField("form", ("$.form_response.definition.title", "$.form_response.form_id")),
            SummaryField("submitted", ("$.form_response.submitted_at",)),
            SummaryField("answer", ("$.form_response.answers[0].text", "$.form_response.answers[0].choice.label")),
            SummaryField("email", ("$.form_response.answers[*].email",)),
            SummaryField("score", ("$.form_response.calculated.score",)),
        ),
    ),
)
