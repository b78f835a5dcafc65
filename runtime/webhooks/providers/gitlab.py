"""GitLab."""

from __future__ import annotations

from dataclasses import replace

from runtime.webhooks.providers.provider import MIB, Provider, SummaryField
from runtime.webhooks.providers.standard_webhooks import symmetric
from runtime.webhooks.schemes.secret_prefix import SecretPrefixScheme
from runtime.webhooks.schemes.token import Token

_SIGNED = symmetric()

GITLAB = Provider(
    name="gitlab",
    title="GitLab",
    doc="GitLab's webhooks. A secret that begins with `whsec_` is a signing token; any other one is "
    "the secret token, which GitLab sends and does not sign with.",
    doc_url="https://docs.gitlab.com/user/project/integrations/webhooks/",
    scheme=SecretPrefixScheme(((b"whsec_", _SIGNED),), Token(header="X-Gitlab-Token")),
    # https://gitlab.com/gitlab-org/gitlab/-/merge_requests/38687
    body_limit=25 * MIB,
    event=("header:X-Gitlab-Event",),
    sample_event="Push Hook",
    # Both are the same for every attempt and have the same value; the first is signed if there is a signature.
    delivery_id=("header:webhook-id", "header:Idempotency-Key"),
    summary_fields=(
        SummaryField("project", ("$.project.path_with_namespace",)),
        SummaryField("ref", ("$.ref", "$.object_attributes.ref")),
        SummaryField("action", ("$.object_attributes.action", "$.object_attributes.status")),
        SummaryField("number", ("$.object_attributes.iid",)),
        SummaryField("title", ("$.object_attributes.title", "$.name")),
        SummaryField("note", ("$.object_attributes.note",)),
        SummaryField("commit", ("$.commits[0].title",)),
        SummaryField("user", ("$.user.username", "$.user_username")),
    ),
)

GITLAB_SIGNING = replace(
    GITLAB,
    name="gitlab-signing",
    title="GitLab (signed)",
    doc="GitLab's webhooks with a signing token (`whsec_…`) only.",
    doc_url="https://gitlab.com/gitlab-org/gitlab/-/merge_requests/230944",
    scheme=_SIGNED,
    delivery_id=("header:webhook-id",),
)
