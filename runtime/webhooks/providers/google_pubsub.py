"""Google Cloud Pub/Sub."""

from __future__ import annotations

from dataclasses import replace

from pydantic import Field

from dslc.blocks.options import Options
from runtime.webhooks.providers.jwt import Texts
from runtime.webhooks.providers.provider import MIB, Provider, SummaryField
from runtime.webhooks.schemes.jwt import Jwt

_SCHEME = Jwt(
    algorithms=("RS256",),
    issuer=("https://accounts.google.com", "accounts.google.com"),
    jwks_url="https://www.googleapis.com/oauth2/v3/certs",
    configured=False,
    leeway=60,
)


class PubSubOptions(Options):
    """The accepted tokens. Both options are needed: Google issues tokens to anyone, for any audience."""

    audience: Texts = Field(
        min_length=1,
        description="The subscription's audience; by default the push endpoint's URL.",
        examples=[["https://example.org/hooks/pubsub"]],
    )
    service_account: str = Field(
        description="The e-mail address of the subscription's service account.",
        examples=["push@project.iam.gserviceaccount.com"],
        min_length=3,
    )


def configure(row: Provider, options: PubSubOptions) -> Provider:
    """Return the row for the tokens of `options`."""
    claims = (("email", options.service_account), ("email_verified", True))
    return replace(row, scheme=replace(_SCHEME, audience=options.audience, claims=claims))


GOOGLE_PUBSUB = Provider(
    name="google-pubsub",
    title="Google Pub/Sub",
    doc="Authenticated push subscriptions of Google Cloud Pub/Sub. The token proves the sender, not the content.",
    doc_url="https://docs.cloud.google.com/pubsub/docs/authenticate-push-subscriptions",
    scheme=_SCHEME,
    # https://docs.cloud.google.com/pubsub/quotas#resource_limits: 10 MB of data, in base64
    body_limit=14 * MIB,
    event=("$.message.attributes.eventType",),
    delivery_id=("$.message.messageId",),
    summary_fields=(
        SummaryField("subscription", ("$.subscription",)),
        SummaryField("event", ("$.message.attributes.eventType",)),
        SummaryField("published", ("$.message.publishTime",)),
        SummaryField("attempt", ("$.deliveryAttempt",)),
    ),
    options=PubSubOptions,
    configure=configure,
    keyless=True,
)
