"""Gitea and Forgejo."""

from __future__ import annotations

from runtime.webhooks.providers.provider import Fact, Provider
from runtime.webhooks.schemes.hmac import Hmac

GITEA = Provider(
    name="gitea",
    title="Gitea",
    # As a form they sign what the form holds, not what is sent.
    doc="Webhooks of Gitea and Forgejo, sent as JSON: as a form they do not sign what they send.",
    doc_url="https://docs.gitea.com/usage/repository/webhooks",
    scheme=Hmac(header="X-Gitea-Signature"),
    event=("header:X-Gitea-Event",),
    action=("$.action",),
    sample_event="push",
    delivery_id=("header:X-Gitea-Delivery",),
    facts=(
        Fact("repository", ("$.repository.full_name",)),
        Fact("action", ("$.action",)),
        Fact("number", ("$.number", "$.issue.number")),
        Fact("title", ("$.issue.title", "$.pull_request.title", "$.release.name")),
        Fact("ref", ("$.ref",)),
        Fact("commit", ("$.head_commit.message", "$.commits[0].message")),
        Fact("sender", ("$.sender.login",)),
    ),
)
