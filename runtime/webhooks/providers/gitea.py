"""Gitea and Forgejo."""

from __future__ import annotations

from runtime.webhooks.providers.provider import Provider, SummaryField
from runtime.webhooks.schemes.hmac import Hmac

GITEA = Provider(
    name="gitea",
    title="Gitea",
    # For a form they sign its content, not the bytes sent.
    doc="Webhooks of Gitea and Forgejo, sent as JSON: as a form they do not sign what they send.",
    doc_url="https://docs.gitea.com/usage/repository/webhooks",
    scheme=Hmac(header="X-Gitea-Signature"),
    event=("header:X-Gitea-Event",),
    action=("$.action",),
    sample_event="push",
    delivery_id=("header:X-Gitea-Delivery",),
    summary_fields=(
        SummaryField("repository", ("$.repository.full_name",)),
        SummaryField("action", ("$.action",)),
        SummaryField("number", ("$.number", "$.issue.number")),
        SummaryField("title", ("$.issue.title", "$.pull_request.title", "$.release.name")),
        SummaryField("ref", ("$.ref",)),
        SummaryField("commit", ("$.head_commit.message", "$.commits[0].message")),
        SummaryField("sender", ("$.sender.login",)),
    ),
)
