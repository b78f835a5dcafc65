"""Vercel."""

from __future__ import annotations

from runtime.webhooks.providers.provider import Fact, Provider
from runtime.webhooks.schemes.hmac import Hmac

VERCEL = Provider(
    name="vercel",
    title="Vercel",
    doc="Events of Vercel, signed with SHA-1, the only option.",
    doc_url="https://vercel.com/docs/webhooks/webhooks-api",
    scheme=Hmac(header="X-Vercel-Signature", algorithm="sha1"),
    event=("$.type",),
    delivery_id=("$.id",),
    facts=(
        Fact("deployment", ("$.payload.deployment.name", "$.payload.name")),
        Fact("url", ("$.payload.deployment.url", "$.payload.url")),
        Fact("project", ("$.payload.project.id", "$.payload.projectId")),
        Fact("target", ("$.payload.target",)),
        Fact("commit", ("$.payload.deployment.meta.githubCommitMessage",)),
        Fact("link", ("$.payload.links.deployment",)),
    ),
)
