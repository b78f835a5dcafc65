"""Providers: code, builds, deployments and incidents."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from runtime.webhooks.providers.provider import MIB, Provider
from runtime.webhooks.providers.standard_webhooks import symmetric
from runtime.webhooks.request.field_source import BODY
from runtime.webhooks.request.payload import json_or_form
from runtime.webhooks.request.request import OK
from runtime.webhooks.schemes.hmac import Hmac
from runtime.webhooks.schemes.jwt import Jwt
from runtime.webhooks.schemes.secret_prefix import SecretPrefixScheme
from runtime.webhooks.schemes.signature_header import Fields, ListHeader, PrefixHeader
from runtime.webhooks.schemes.token import Token

_GITLAB_SIGNED = symmetric()

GITLAB = Provider(
    name="gitlab",
    title="GitLab",
    doc="GitLab's webhooks. A secret that begins with `whsec_` is a signing token; any other one is "
    "the secret token, which GitLab sends and does not sign with.",
    doc_url="https://docs.gitlab.com/user/project/integrations/webhooks/",
    scheme=SecretPrefixScheme(((b"whsec_", _GITLAB_SIGNED),), Token(header="X-Gitlab-Token")),
    # https://gitlab.com/gitlab-org/gitlab/-/merge_requests/38687
    body_limit=25 * MIB,
    event=("header:X-Gitlab-Event",),
    sample_event="Push Hook",
    # Both are the same for every attempt and have the same value; the first is signed if there is a signature.
    delivery_id=("header:webhook-id", "header:Idempotency-Key"),
)

GITLAB_SIGNING = replace(
    GITLAB,
    name="gitlab-signing",
    title="GitLab (signed)",
    doc="GitLab's webhooks with a signing token (`whsec_…`) only.",
    doc_url="https://gitlab.com/gitlab-org/gitlab/-/merge_requests/230944",
    scheme=_GITLAB_SIGNED,
    delivery_id=("header:webhook-id",),
)


DEVELOPMENT: Final = (
    Provider(
        name="bitbucket",
        title="Bitbucket",
        doc="Webhooks of Bitbucket Cloud and Data Center.",
        doc_url="https://support.atlassian.com/bitbucket-cloud/docs/manage-webhooks/",
        # The name of GitHub's old SHA-1 header, but SHA-256: the row sets the algorithm, not the header.
        scheme=Hmac(header="X-Hub-Signature", form=PrefixHeader("sha256=")),
        event=("header:X-Event-Key",),
        sample_event="pullrequest:created",
        delivery_id=("header:X-Request-UUID", "header:X-Request-Id"),
    ),
    Provider(
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
    ),
    Provider(
        name="github",
        title="GitHub",
        doc="Webhooks of GitHub repositories, organizations and apps.",
        doc_url="https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries",
        scheme=Hmac(header="X-Hub-Signature-256", form=PrefixHeader("sha256=")),
        # https://docs.github.com/en/webhooks/webhook-events-and-payloads#payload-cap
        body_limit=25 * MIB,
        decoder=json_or_form("payload"),
        event=("header:X-GitHub-Event",),
        action=("$.action",),
        sample_event="pull_request",
        delivery_id=("header:X-GitHub-Delivery",),
    ),
    Provider(
        name="jira",
        title="Jira",
        doc="Webhooks of Jira Cloud with a secret. Those of Connect apps have a JWT instead.",
        doc_url="https://developer.atlassian.com/cloud/jira/platform/webhooks/",
        scheme=Hmac(header="X-Hub-Signature", form=PrefixHeader("sha256=")),
        event=("$.webhookEvent",),
        delivery_id=("header:X-Atlassian-Webhook-Identifier",),
    ),
    Provider(
        name="linear",
        title="Linear",
        doc="Webhooks of a Linear workspace. The time is in the body, `webhookTimestamp`.",
        doc_url="https://linear.app/developers/webhooks",
        scheme=Hmac(header="Linear-Signature", timestamp_path="$.webhookTimestamp", unit="ms", tolerance=60),
        event=("header:Linear-Event", "$.type"),
        action=("$.action",),
        sample_event="Issue",
        delivery_id=("header:Linear-Delivery",),
        answer=OK,
    ),
    Provider(
        name="mux",
        title="Mux",
        doc="Events of Mux Video.",
        doc_url="https://docs.mux.com/guides/verify-webhook-signatures",
        scheme=Hmac(header="Mux-Signature", form=Fields(), payload="{timestamp}.{body}", tolerance=300),
        event=("$.type",),
        delivery_id=("$.id",),
    ),
    Provider(
        name="netlify",
        title="Netlify",
        doc="Netlify's deploy notifications. The secret is the notification's JWS secret token, of "
        "32 characters or more.",
        doc_url="https://docs.netlify.com/deploy/deploy-notifications/",
        scheme=Jwt(
            header="X-Webhook-Signature", algorithms=("HS256",), issuer=("netlify",), expires=False, body_claim="sha256"
        ),
        # The state is used as event, since there is no other. The id is the deploy's, the same in every state.
        event=("$.state",),
        delivery_id=(BODY,),
    ),
    Provider(
        name="pagerduty",
        title="PagerDuty",
        doc="PagerDuty's V3 webhooks.",
        doc_url="https://developer.pagerduty.com/docs/webhooks/webhook-signatures/",
        scheme=Hmac(header="X-PagerDuty-Signature", form=ListHeader("v1=", ",")),
        event=("$.event.event_type",),
        delivery_id=("$.event.id",),
    ),
    Provider(
        name="sentry",
        title="Sentry",
        doc="Issues, errors and alerts of a Sentry integration. The secret is its client secret.",
        doc_url="https://docs.sentry.io/integrations/integration-platform/webhooks/",
        # Sentry-Hook-Timestamp is not signed, so it proves nothing.
        scheme=Hmac(header="Sentry-Hook-Signature"),
        event=("header:Sentry-Hook-Resource",),
        action=("$.action",),
        sample_event="issue",
        delivery_id=("header:Request-ID",),
    ),
    Provider(
        name="vercel",
        title="Vercel",
        doc="Events of Vercel, signed with SHA-1, the only option.",
        doc_url="https://vercel.com/docs/webhooks/webhooks-api",
        scheme=Hmac(header="X-Vercel-Signature", algorithm="sha1"),
        event=("$.type",),
        delivery_id=("$.id",),
    ),
    Provider(
        name="webflow",
        title="Webflow",
        doc="Webhooks of a Webflow app; those made in a site's dashboard are not signed. The secret is the "
        "client secret.",
        doc_url="https://developers.webflow.com/data/docs/working-with-webhooks",
        scheme=Hmac(
            header="X-Webflow-Signature",
            payload="{timestamp}:{body}",
            timestamp_header="X-Webflow-Timestamp",
            unit="ms",
            tolerance=300,
        ),
        event=("$.triggerType",),
        answer=OK,
    ),
    Provider(
        name="workos",
        title="WorkOS",
        doc="Events of WorkOS.",
        doc_url="https://workos.com/docs/events/data-syncing/webhooks",
        scheme=Hmac(
            header="WorkOS-Signature",
            form=Fields(separator=", "),
            payload="{timestamp}.{body}",
            unit="ms",
            tolerance=180,
        ),
        event=("$.event",),
        delivery_id=("$.id",),
        answer=OK,
    ),
    GITLAB,
    GITLAB_SIGNING,
)
