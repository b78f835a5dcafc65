"""Sentry."""

from __future__ import annotations

from runtime.webhooks.providers.provider import Provider, SummaryField
from runtime.webhooks.schemes.hmac import Hmac

SENTRY = Provider(
    name="sentry",
    title="Sentry",
    doc="Issues, errors and alerts of a Sentry integration. The secret is its client secret.",
    doc_url="https://docs.sentry.io/integrations/integration-platform/webhooks/",
    # Sentry-Hook-Timestamp is not signed, so it proves nothing.
    scheme=Hmac(header="Sentry-Hook-Signature"),
    event=("header:Sentry-Hook-Resource",),
    action=("$.action",),
    sample_event="issue",
    delivery_id=("header:Request-ID",),
    summary_fields=(
        SummaryField("action", ("$.action",)),
        SummaryField("issue", ("$.data.issue.shortId", "$.data.issue.id", "$.data.event.issue_id")),
        SummaryField(
            "title", ("$.data.issue.title", "$.data.event.title", "$.data.error.title", "$.data.description_title")
        ),
        SummaryField("where", ("$.data.issue.culprit", "$.data.event.culprit", "$.data.error.culprit")),
        SummaryField("level", ("$.data.issue.level", "$.data.event.level", "$.data.error.level")),
        SummaryField("project", ("$.data.issue.project.slug", "$.data.event.project", "$.data.error.project")),
        SummaryField("by", ("$.actor.name",)),
    ),
)
