"""Bitbucket."""

from __future__ import annotations

from runtime.webhooks.providers.provider import Provider, SummaryField
from runtime.webhooks.schemes.hmac import Hmac
from runtime.webhooks.schemes.signature_header import Prefixed

BITBUCKET = Provider(
    name="bitbucket",
    title="Bitbucket",
    doc="Webhooks of Bitbucket Cloud and Data Center.",
    doc_url="https://support.atlassian.com/bitbucket-cloud/docs/manage-webhooks/",
    # The name of GitHub's old SHA-1 header, but SHA-256: the row sets the algorithm, not the header.
    scheme=Hmac(header="X-Hub-Signature", form=Prefixed("sha256=")),
    event=("header:X-Event-Key",),
    sample_event="pullrequest:created",
    delivery_id=("header:X-Request-UUID", "header:X-Request-Id"),
    summary_fields=(
        SummaryField("repository", ("$.repository.full_name", "$.repository.slug")),
        SummaryField("actor", ("$.actor.display_name", "$.actor.displayName")),
        SummaryField("pull request", ("$.pullrequest.id", "$.pullRequest.id")),
        SummaryField("title", ("$.pullrequest.title", "$.pullRequest.title", "$.issue.title")),
        SummaryField("state", ("$.pullrequest.state", "$.pullRequest.state", "$.commit_status.state")),
        SummaryField(
            "branch", ("$.push.changes[0].new.name", "$.pullrequest.source.branch.name", "$.changes[0].ref.displayId")
        ),
        SummaryField("comment", ("$.comment.content.raw", "$.comment.text")),
    ),
)
