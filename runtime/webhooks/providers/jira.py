"""Jira Cloud."""

from __future__ import annotations

from runtime.webhooks.providers.provider import Fact, Provider
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
    facts=(
        Fact("issue", ("$.issue.key",)),
        Fact("summary", ("$.issue.fields.summary",)),
        Fact("status", ("$.issue.fields.status.name",)),
        Fact("priority", ("$.issue.fields.priority.name",)),
        Fact("assignee", ("$.issue.fields.assignee.displayName",)),
        Fact("by", ("$.user.displayName", "$.comment.author.displayName")),
        Fact("changed", ("$.changelog.items[0].field",)),
    ),
)
