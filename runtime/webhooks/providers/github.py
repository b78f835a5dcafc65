"""GitHub."""

from __future__ import annotations

from runtime.webhooks.providers.provider import Fact, Provider
from runtime.webhooks.request.payload import json_or_form
from runtime.webhooks.schemes.hmac import Hmac
from runtime.webhooks.schemes.signature_header import Prefixed

GITHUB = Provider(
    name="github",
    title="GitHub",
    doc="Webhooks of GitHub repositories, organizations and apps.",
    doc_url="https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries",
    scheme=Hmac(header="X-Hub-Signature-256", form=Prefixed("sha256=")),
    decoder=json_or_form("payload"),
    event=("header:X-GitHub-Event",),
    action=("$.action",),
    sample_event="pull_request",
    delivery_id=("header:X-GitHub-Delivery",),
    facts=(
        Fact("repository", ("$.repository.full_name",)),
        Fact("organization", ("$.organization.login",)),
        Fact("action", ("$.action",)),
        Fact("number", ("$.issue.number", "$.pull_request.number", "$.number")),
        Fact("title", ("$.issue.title", "$.pull_request.title", "$.discussion.title", "$.release.name")),
        Fact("ref", ("$.ref",)),
        Fact("commit", ("$.head_commit.message",)),
        Fact("sender", ("$.sender.login",)),
    ),
)
