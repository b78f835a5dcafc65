"""Telegram."""

from __future__ import annotations

from runtime.webhooks.providers.provider import Provider, SummaryField
from runtime.webhooks.request.static_response import StaticAnswer
from runtime.webhooks.schemes.token import Token

TELEGRAM = Provider(
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
    summary_fields=(
        SummaryField(
            "from", ("$.message.from.username", "$.message.from.first_name", "$.callback_query.from.username")
        ),
        SummaryField("chat", ("$.message.chat.title", "$.message.chat.username", "$.channel_post.chat.title")),
        SummaryField(
            "text", ("$.message.text", "$.edited_message.text", "$.channel_post.text", "$.callback_query.data")
        ),
    ),
)
