"""Jira Cloud."""

from __future__ import annotations

from runtime.webhooks.providers.provider import Provider, SummaryField
from runtime.webhooks.schemes.hmac import Hmac
from runtime.webhooks.schemes.signature_header import Prefixed

JIRA = Provider(
    name="jira",
    title="Jira",
    doc="Webhooks of Jira Cloud with a secret. Those of Connect apps have a JWT instead.",
    doc_url="https://developer.atlassian.com/cloud/jira/platform/webhooks/",
    scheme=Hmac(header="X-Hub-Signature", form=Prefixed("sha256=")),
    event=("$.webhookEvent",),
    delivery_id=("header:X-Atlassian-Webhook-Identifier",),
    summary_fields=(
        SummaryField("issue", ("$.issue.key",)),
        SummaryField("summary", ("$.issue.fields.summary",)),
        SummaryField("status", ("$.issue.fields.status.name",)),
        SummaryField("priority", ("$.issue.fields.priority.name",)),
        SummaryField("assignee", ("$.issue.fields.assignee.displayName",)),
        SummaryField("by", ("$.user.displayName", "$.comment.author.displayName")),
        SummaryField("changed", ("$.changelog.items[0].field",)),
    ),
)
