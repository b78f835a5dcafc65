"""Vercel."""

from __future__ import annotations

from runtime.webhooks.providers.provider import Provider, SummaryField
from runtime.webhooks.schemes.hmac import Hmac

VERCEL = Provider(
    name="vercel",
    title="Vercel",
    doc="Events of Vercel, signed with SHA-1, the only option.",
    doc_url="https://vercel.com/docs/webhooks/webhooks-api",
    scheme=Hmac(header="X-Vercel-Signature", algorithm="sha1"),
    event=("$.type",),
    delivery_id=("$.id",),
    summary_fields=(
        SummaryField("deployment", ("$.payload.deployment.name", "$.payload.name")),
        SummaryField("url", ("$.payload.deployment.url", "$.payload.url")),
        SummaryField("project", ("$.payload.project.id", "$.payload.projectId")),
        SummaryField("target", ("$.payload.target",)),
        SummaryField("commit", ("$.payload.deployment.meta.githubCommitMessage",)),
        SummaryField("link", ("$.payload.links.deployment",)),
    ),
)
