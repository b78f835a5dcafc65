"""GitHub."""

from __future__ import annotations

from runtime.webhooks.providers.provider import Provider, SummaryField
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
    summary_fields=(
        SummaryField("repository", ("$.repository.full_name",)),
        SummaryField("organization", ("$.organization.login",)),
        SummaryField("action", ("$.action",)),
        SummaryField("number", ("$.issue.number", "$.pull_request.number", "$.number")),
        SummaryField("title", ("$.issue.title", "$.pull_request.title", "$.discussion.title", "$.release.name")),
        SummaryField("ref", ("$.ref",)),
        SummaryField("commit", ("$.head_commit.message",)),
        SummaryField("sender", ("$.sender.login",)),
    ),
)
