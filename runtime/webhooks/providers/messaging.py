"""Providers: chats, mail, telephony and support."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from pydantic import Field

from dslc.blocks.block import GroupModel
from dslc.blocks.values.types import SecretReference
from runtime.webhooks.handshakes import Handshake, json_echo, json_proof, query_echo, query_proof
from runtime.webhooks.keys.public_key import ed25519_key, p256_key
from runtime.webhooks.providers.provider import MIB, Provider
from runtime.webhooks.request.field_source import BODY
from runtime.webhooks.request.payload import Payload, json_or_form
from runtime.webhooks.request.request import OK, StaticAnswer, WebhookRequest
from runtime.webhooks.schemes.basic import Basic
from runtime.webhooks.schemes.hmac import Hmac
from runtime.webhooks.schemes.public_key import PublicKey
from runtime.webhooks.schemes.signature_header import PrefixHeader
from runtime.webhooks.schemes.token import Token

_DISCORD = PublicKey(
    key=ed25519_key,
    header="X-Signature-Ed25519",
    encoding="hex",
    payload="{timestamp}{body}",
    timestamp_header="X-Signature-Timestamp",
)


def _discord_ping(kind: int, answer: StaticAnswer) -> Handshake:
    """Answer a signed body whose `type` is this number with `answer`."""

    def respond(request: WebhookRequest, payload: Payload, secrets: tuple[bytes, ...]) -> StaticAnswer | None:
        body = payload.value_or_none()
        return answer if isinstance(body, dict) and body.get("type") == kind else None

    return Handshake(f"POST of `$.type` {kind}: {answer.status}", respond, signed=True)


class MetaOptions(GroupModel):
    """The verify token with which Meta checks the address."""

    verify_token: SecretReference | None = Field(
        None,
        repr=False,
        description="The verify token in the app's settings; without it Meta cannot subscribe.",
        examples=["secret://env/META_VERIFY_TOKEN"],
    )


def _meta_subscription(token: str | None) -> Handshake:
    name = "hub.verify_token"
    return query_echo("hub.challenge", fixed=(("hub.mode", "subscribe"),), token_name=name, token=token)


MESSAGING: Final = (
    Provider(
        name="customerio",
        title="Customer.io",
        doc="Reporting webhooks of Customer.io.",
        doc_url="https://docs.customer.io/journeys/webhooks/",
        scheme=Hmac(
            header="X-CIO-Signature", payload="v0:{timestamp}:{body}", timestamp_header="X-CIO-Timestamp", tolerance=300
        ),
        event=("$.object_type + $.metric", "$.metric"),
        delivery_id=("$.event_id",),
    ),
    Provider(
        name="intercom",
        title="Intercom",
        doc="Notifications of an Intercom app, signed with SHA-1, the only option. The secret is the client secret.",
        doc_url="https://developers.intercom.com/docs/webhooks",
        scheme=Hmac(header="X-Hub-Signature", form=PrefixHeader("sha1="), algorithm="sha1"),
        event=("$.topic",),
        delivery_id=("$.id",),
        answer=OK,
    ),
    Provider(
        name="line",
        title="LINE",
        doc="The Messaging API of LINE. The secret is the channel's secret.",
        doc_url="https://developers.line.biz/en/reference/messaging-api/#signature-validation",
        scheme=Hmac(header="X-Line-Signature", encoding="base64"),
        event=("$.events[0].type",),
        delivery_id=("$.events[*].webhookEventId",),
        answer=OK,
    ),
    Provider(
        name="postmark",
        title="Postmark",
        doc="Postmark's webhooks. It does not sign: the secret is the `name:password` of the webhook's basic auth.",
        doc_url="https://postmarkapp.com/developer/webhooks/webhooks-overview",
        scheme=Basic(),
        # Up to 35 MB of attachments in one mail:
        # https://postmarkapp.com/support/article/1056-what-are-the-attachment-and-email-size-limits
        body_limit=25 * MIB,
        event=("$.RecordType",),
        # MessageID is the same for the message's delivery, opening and every click; each of them has its own time.
        delivery_id=(BODY,),
    ),
    Provider(
        name="sendgrid",
        title="SendGrid",
        doc="SendGrid's signed event webhook: several events in one delivery. The secret is the verification key.",
        doc_url="https://www.twilio.com/docs/sendgrid/for-developers/tracking-events/"
        "getting-started-event-webhook-security-features",
        scheme=PublicKey(
            key=p256_key,
            header="X-Twilio-Email-Event-Webhook-Signature",
            payload="{timestamp}{body}",
            timestamp_header="X-Twilio-Email-Event-Webhook-Timestamp",
        ),
        delivery_id=("$[*].sg_event_id",),
        event=("$[0].event",),
    ),
    Provider(
        name="slack",
        title="Slack",
        doc="Slack's Events API, slash commands and interactivity.",
        doc_url="https://docs.slack.dev/authentication/verifying-requests-from-slack/",
        scheme=Hmac(
            header="X-Slack-Signature",
            form=PrefixHeader("v0="),
            payload="v0:{timestamp}:{body}",
            timestamp_header="X-Slack-Request-Timestamp",
            tolerance=300,
        ),
        # Events are JSON; an interaction is a form whose `payload` is JSON; a slash command is a plain form.
        decoder=json_or_form("payload", plain=True),
        handshake=json_echo(where="$.type", equals="url_verification", echo="$.challenge"),
        event=("$.event.type", "$.type", "$.command"),
        delivery_id=("$.event_id",),
        answer=OK,
    ),
    Provider(
        name="telegram",
        title="Telegram",
        doc="Updates of a Telegram bot. The secret is the `secret_token` of setWebhook.",
        doc_url="https://core.telegram.org/bots/api#setwebhook",
        scheme=Token(header="X-Telegram-Bot-Api-Secret-Token"),
        # Telegram would execute a JSON answer as a call of the bot.
        answer=StaticAnswer(200),
        # An update has one kind, which is the name of its content.
        event=("key:update_id",),
        delivery_id=("$.update_id",),
    ),
    Provider(
        name="telnyx",
        title="Telnyx",
        doc="Telnyx messages, calls and faxes (API v2). The secret is the account's public key.",
        doc_url="https://developers.telnyx.com/docs/development/sdk/python/webhooks",
        scheme=PublicKey(
            key=ed25519_key,
            header="telnyx-signature-ed25519",
            payload="{timestamp}|{body}",
            timestamp_header="telnyx-timestamp",
        ),
        event=("$.data.event_type",),
        delivery_id=("$.data.id",),
    ),
    Provider(
        name="twitch",
        title="Twitch",
        doc="Twitch's EventSub over webhooks. The event of a revoked subscription is the reason, "
        "`authorization_revoked`.",
        doc_url="https://dev.twitch.tv/docs/eventsub/handling-webhook-events/",
        scheme=Hmac(
            header="Twitch-Eventsub-Message-Signature",
            form=PrefixHeader("sha256="),
            payload="{id}{timestamp}{body}",
            timestamp_header="Twitch-Eventsub-Message-Timestamp",
            id_header="Twitch-Eventsub-Message-Id",
            # No id contains a colon, and the time has its first one at a fixed place: so it ends the id.
            id_border=":",
            unit="rfc3339",
            tolerance=600,
        ),
        handshake=json_echo(
            where="$.subscription.status", equals="webhook_callback_verification_pending", echo="$.challenge"
        ),
        # Of the members of the root only the subscription has a transport. Its status is `enabled` until it is revoked.
        event=("$[?@.transport && @.status != 'enabled'].status", "$.subscription.type"),
        delivery_id=("header:Twitch-Eventsub-Message-Id",),
    ),
    Provider(
        name="twitter",
        title="X (Twitter)",
        doc="X's Account Activity API. The secret is the app's consumer secret.",
        doc_url="https://developer.x.com/en/docs/x-api/enterprise/account-activity-api/guides/securing-webhooks",
        # The handshake signs short texts for anyone who asks: none of them begins like this.
        scheme=Hmac(
            header="X-Twitter-Webhooks-Signature", form=PrefixHeader("sha256="), encoding="base64", begins=b"{"
        ),
        handshake=query_proof(token="crc_token", name="response_token"),  # noqa: S106 - its name
        event=("key:for_user_id,user_has_blocked,apps,users",),
        # Every event contains its own id or time; there is no other id.
        delivery_id=(BODY,),
        answer=OK,
    ),
    Provider(
        name="zendesk",
        title="Zendesk",
        doc="Webhooks of Zendesk.",
        doc_url="https://developer.zendesk.com/documentation/webhooks/verifying/",
        scheme=Hmac(
            header="X-Zendesk-Webhook-Signature",
            encoding="base64",
            payload="{timestamp}{body}",
            timestamp_header="X-Zendesk-Webhook-Signature-Timestamp",
            unit="rfc3339",
            tolerance=300,
        ),
        # https://support.zendesk.com/hc/en-us/articles/4408839108378
        body_limit=256 * 1024,
        event=("$.type",),
        delivery_id=("header:X-Zendesk-Webhook-Invocation-Id",),
    ),
    Provider(
        name="zoom",
        title="Zoom",
        doc="Events of a Zoom app. The secret is the app's secret token.",
        doc_url="https://developers.zoom.us/docs/api/webhooks/",
        scheme=Hmac(
            header="X-Zm-Signature",
            form=PrefixHeader("v0="),
            payload="v0:{timestamp}:{body}",
            timestamp_header="X-Zm-Request-Timestamp",
            tolerance=300,
        ),
        # Zoom validates the URL when it is saved and every 72 hours.
        handshake=json_proof(
            where="$.event",
            equals="endpoint.url_validation",
            token="$.payload.plainToken",  # noqa: S106 - the path of the token
            token_name="plainToken",  # noqa: S106
            proof_name="encryptedToken",
        ),
        event=("$.event",),
        # `event_ts` is in every body; the signature differs for each attempt.
        delivery_id=(BODY,),
        answer=OK,
    ),
    Provider(
        name="discord",
        title="Discord",
        doc="Discord interactions: commands, components, modals. The secret is the application's public key.",
        doc_url="https://docs.discord.com/developers/interactions/overview",
        scheme=_DISCORD,
        handshake=_discord_ping(1, StaticAnswer(200, "application/json", b'{"type":1}')),
        # Deferred answer: Discord shows that the app is thinking until its message is edited.
        answer=StaticAnswer(200, "application/json", b'{"type":5}'),
        event=("$.type",),
        delivery_id=("$.id",),
    ),
    Provider(
        name="discord-events",
        title="Discord events",
        doc="Events that Discord sends to an app. The secret is the application's public key.",
        doc_url="https://docs.discord.com/developers/events/webhook-events",
        scheme=_DISCORD,
        handshake=_discord_ping(0, StaticAnswer(204, "application/json", b"")),
        answer=StaticAnswer(204, "application/json", b""),
        event=("$.event.type",),
    ),
    Provider(
        name="meta",
        title="Meta",
        doc="Webhooks of Facebook, Instagram, Messenger and WhatsApp. The secret is the app's secret.",
        doc_url="https://developers.facebook.com/docs/graph-api/webhooks/getting-started",
        scheme=Hmac(header="X-Hub-Signature-256", form=PrefixHeader("sha256=")),
        handshake=_meta_subscription(None),
        event=("$.entry[0].changes[0].field", "$.object"),
        # Ids are inside the change, elsewhere in every product; each entry has a time.
        delivery_id=(BODY,),
        options=MetaOptions,
        configure=lambda row, options: replace(row, handshake=_meta_subscription(options.verify_token)),
        answer=OK,
    ),
)
