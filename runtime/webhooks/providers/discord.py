"""Discord: interactions, and the events of an app."""

from __future__ import annotations

from runtime.webhooks.handshakes import Handshake
from runtime.webhooks.keys.public_key import ed25519_key
from runtime.webhooks.providers.provider import Provider, SummaryField
from runtime.webhooks.request.payload import Payload
from runtime.webhooks.request.request import WebhookRequest
from runtime.webhooks.request.static_response import StaticAnswer
from runtime.webhooks.schemes.public_key import PublicKey

_SCHEME = PublicKey(
    key=ed25519_key,
    header="X-Signature-Ed25519",
    encoding="hex",
    payload="{timestamp}{body}",
    timestamp_header="X-Signature-Timestamp",
)


def _ping(kind: int, answer: StaticAnswer) -> Handshake:
    """Answer a signed body whose `type` is this number with `answer`."""

    def respond(request: WebhookRequest, payload: Payload, secrets: tuple[bytes, ...]) -> StaticAnswer | None:
        body = payload.value_or_none()
        return answer if isinstance(body, dict) and body.get("type") == kind else None

    return Handshake(f"POST of `$.type` {kind}: {answer.status}", respond, signed=True)


DISCORD = Provider(
    name="discord",
    title="Discord",
    doc="Discord interactions: commands, components, modals. The secret is the application's public key.",
    doc_url="https://docs.discord.com/developers/interactions/overview",
    scheme=_SCHEME,
    handshake=_ping(1, StaticAnswer(200, "application/json", b'{"type":1}')),
    # Deferred answer: Discord shows that the app is thinking until its message is edited.
    answer=StaticAnswer(200, "application/json", b'{"type":5}'),
    event=("$.type",),
    delivery_id=("$.id",),
    summary_fields=(
        SummaryField("command", ("$.data.name",)),
        SummaryField("component", ("$.data.custom_id",)),
        SummaryField("guild", ("$.guild_id",)),
        SummaryField("channel", ("$.channel_id", "$.channel.id")),
        SummaryField("user", ("$.member.user.username", "$.user.username")),
    ),
)

DISCORD_EVENTS = Provider(
    name="discord-events",
    title="Discord events",
    doc="Events that Discord sends to an app. The secret is the application's public key.",
    doc_url="https://docs.discord.com/developers/events/webhook-events",
    scheme=_SCHEME,
    handshake=_ping(0, StaticAnswer(204, "application/json", b"")),
    answer=StaticAnswer(204, "application/json", b""),
    event=("$.event.type",),
    summary_fields=(
        SummaryField("application", ("$.application_id",)),
        SummaryField("at", ("$.event.timestamp",)),
        SummaryField("user", ("$.event.data.user.username",)),
    ),
)
