"""The table of webhook providers. To add one: its row, and a line here."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from runtime.extension_table import table_of
from runtime.webhooks.providers.adyen import ADYEN
from runtime.webhooks.providers.aws_sns import AWS_SNS
from runtime.webhooks.providers.azure_event_grid import AZURE_EVENT_GRID
from runtime.webhooks.providers.basic import BASIC
from runtime.webhooks.providers.bitbucket import BITBUCKET
from runtime.webhooks.providers.box import BOX
from runtime.webhooks.providers.calendly import CALENDLY
from runtime.webhooks.providers.chargebee import CHARGEBEE
from runtime.webhooks.providers.coinbase_cdp import COINBASE_CDP
from runtime.webhooks.providers.coinbase_commerce import COINBASE_COMMERCE
from runtime.webhooks.providers.custom import CUSTOM
from runtime.webhooks.providers.customerio import CUSTOMERIO
from runtime.webhooks.providers.discord import DISCORD, DISCORD_EVENTS
from runtime.webhooks.providers.docusign import DOCUSIGN
from runtime.webhooks.providers.dropbox import DROPBOX
from runtime.webhooks.providers.elevenlabs import ELEVENLABS
from runtime.webhooks.providers.figma import FIGMA
from runtime.webhooks.providers.fusionauth import FUSIONAUTH
from runtime.webhooks.providers.gitea import GITEA
from runtime.webhooks.providers.github import GITHUB
from runtime.webhooks.providers.gitlab import GITLAB, GITLAB_SIGNING
from runtime.webhooks.providers.google_pubsub import GOOGLE_PUBSUB
from runtime.webhooks.providers.hubspot import HUBSPOT
from runtime.webhooks.providers.intercom import INTERCOM
from runtime.webhooks.providers.jira import JIRA
from runtime.webhooks.providers.jwt import JWT
from runtime.webhooks.providers.lemonsqueezy import LEMONSQUEEZY
from runtime.webhooks.providers.line import LINE
from runtime.webhooks.providers.linear import LINEAR
from runtime.webhooks.providers.mailgun import MAILGUN
from runtime.webhooks.providers.meta import META
from runtime.webhooks.providers.microsoft_graph import MICROSOFT_GRAPH
from runtime.webhooks.providers.mux import MUX
from runtime.webhooks.providers.netlify import NETLIFY
from runtime.webhooks.providers.okta import OKTA
from runtime.webhooks.providers.paddle import PADDLE
from runtime.webhooks.providers.pagerduty import PAGERDUTY
from runtime.webhooks.providers.paypal import PAYPAL
from runtime.webhooks.providers.plaid import PLAID
from runtime.webhooks.providers.postmark import POSTMARK
from runtime.webhooks.providers.provider import Provider
from runtime.webhooks.providers.razorpay import RAZORPAY
from runtime.webhooks.providers.sendgrid import SENDGRID
from runtime.webhooks.providers.sentry import SENTRY
from runtime.webhooks.providers.shopify import SHOPIFY
from runtime.webhooks.providers.slack import SLACK
from runtime.webhooks.providers.square import SQUARE
from runtime.webhooks.providers.standard_webhooks import (
    CLERK,
    OPENAI,
    POLAR,
    REPLICATE,
    RESEND,
    STANDARD_WEBHOOKS,
    SUPABASE,
    SVIX,
)
from runtime.webhooks.providers.stripe import STRIPE
from runtime.webhooks.providers.swarmlet import SWARMLET
from runtime.webhooks.providers.telegram import TELEGRAM
from runtime.webhooks.providers.telnyx import TELNYX
from runtime.webhooks.providers.token import TOKEN
from runtime.webhooks.providers.trello import TRELLO
from runtime.webhooks.providers.twilio import TWILIO
from runtime.webhooks.providers.twitter import TWITTER
from runtime.webhooks.providers.typeform import TYPEFORM
from runtime.webhooks.providers.vercel import VERCEL
from runtime.webhooks.providers.webflow import WEBFLOW
from runtime.webhooks.providers.woocommerce import WOOCOMMERCE
from runtime.webhooks.providers.workos import WORKOS
from runtime.webhooks.providers.zendesk import ZENDESK
from runtime.webhooks.providers.zoom import ZOOM

PROVIDERS: Mapping[str, Provider] = table_of(
    "provider",
    (
        CUSTOM,
        GITHUB,
        SLACK,
        STRIPE,
        SWARMLET,
        ADYEN,
        BITBUCKET,
        BOX,
        CALENDLY,
        CLERK,
        COINBASE_CDP,
        COINBASE_COMMERCE,
        CUSTOMERIO,
        DOCUSIGN,
        DROPBOX,
        ELEVENLABS,
        GITEA,
        HUBSPOT,
        INTERCOM,
        JIRA,
        LEMONSQUEEZY,
        LINE,
        LINEAR,
        MAILGUN,
        META,
        MUX,
        OPENAI,
        PADDLE,
        PAGERDUTY,
        POLAR,
        RAZORPAY,
        REPLICATE,
        RESEND,
        SENTRY,
        SHOPIFY,
        SQUARE,
        STANDARD_WEBHOOKS,
        SUPABASE,
        SVIX,
        TRELLO,
        TWILIO,
        TWITTER,
        TYPEFORM,
        VERCEL,
        WEBFLOW,
        WOOCOMMERCE,
        WORKOS,
        ZENDESK,
        ZOOM,
        AWS_SNS,
        AZURE_EVENT_GRID,
        BASIC,
        CHARGEBEE,
        DISCORD,
        DISCORD_EVENTS,
        FIGMA,
        FUSIONAUTH,
        GITLAB,
        GITLAB_SIGNING,
        GOOGLE_PUBSUB,
        JWT,
        MICROSOFT_GRAPH,
        NETLIFY,
        OKTA,
        PAYPAL,
        PLAID,
        POSTMARK,
        SENDGRID,
        TELEGRAM,
        TELNYX,
        TOKEN,
    ),
)


def find_provider(provider: str | Provider) -> Provider:
    """Return the row of that name; a row is returned unchanged. Raises ValueError with the nearest name: never a silent
    `custom`."""
    if isinstance(provider, Provider):
        return provider
    row = PROVIDERS.get(provider)
    if row is None:
        nearest = get_close_matches(provider, PROVIDERS, n=1)
        raise ValueError(f"no provider {provider!r}" + (f"; did you mean {nearest[0]}?" if nearest else ""))
    return row
