"""Netlify."""

from __future__ import annotations

from runtime.webhooks.providers.provider import Provider, SummaryField
from runtime.webhooks.request.field_source import BODY
from runtime.webhooks.schemes.jwt import Jwt

NETLIFY = Provider(
    name="netlify",
    title="Netlify",
    doc="Netlify's deploy notifications. The secret is the notification's JWS secret token, of 32 characters or more.",
    doc_url="https://docs.netlify.com/deploy/deploy-notifications/",
    scheme=Jwt(
        header="X-Webhook-Signature",
        algorithms=("HS256",),
        issuer=("netlify",),
        expires=False,
        body_claim="sha256",
    ),
    # The state is used as event, since there is no other. The id is the deploy's, the same in every state.
    event=("$.state",),
    delivery_id=(BODY,),
    summary_fields=(
        SummaryField("site", ("$.name", "$.site_id")),
        SummaryField("branch", ("$.branch",)),
        SummaryField("commit", ("$.title", "$.commit_ref")),
        SummaryField("context", ("$.context",)),
        SummaryField("error", ("$.error_message",)),
        SummaryField("url", ("$.deploy_ssl_url", "$.deploy_url")),
    ),
)
