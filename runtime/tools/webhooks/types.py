"""The parameters and results of the webhook tools, as types: what their schemas are made of."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field

from dslc.blocks.values.duration import read_duration

LONGEST_OVERLAP = timedelta(days=30)

_UUID = r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
# Neither control characters nor those that turn the direction of text or are not seen at all: a title is shown on
# terminals, and tells a webhook from others. The two joiners (U+200C, U+200D) are letters' and emojis'.
_NO_CONTROL = (
    r"\u0000-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e"
    r"\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb"
)
_TITLE = rf"^[^{_NO_CONTROL}\u0020]([^{_NO_CONTROL}]*[^{_NO_CONTROL}\u0020])?$"


def _duration(text: str) -> str:
    if read_duration(text) > LONGEST_OVERLAP:
        raise ValueError(f"an overlap is {LONGEST_OVERLAP.days} days at most")
    return text


WebhookId = Annotated[str, Field(pattern=_UUID, description="The webhook's id, a UUID.")]
Title = Annotated[
    str,
    Field(
        pattern=_TITLE,
        max_length=200,
        description="What people call it: up to 200 characters in one line, without a space at either end.",
        examples=["Nightly build"],
    ),
]
AgentName = Annotated[
    Annotated[str, Field(min_length=1, max_length=64)] | None,
    Field(description="The agent that each delivery wakes; null: deliveries are only kept.", examples=["reviewer"]),
]
Insecure = Annotated[
    bool, Field(description="Accept requests that nobody signed: whoever knows the URL can wake the agent.")
]
Overlap = Annotated[
    str,
    Field(
        max_length=40,
        pattern=r"^[0-9a-z]+$",
        description="How long the secret before stays good, such as `24h` or `7d`; `0s` ends it at once, `30d` is the "
        "longest.",
        examples=["24h"],
    ),
    AfterValidator(_duration),
]
Limit = Annotated[int, Field(ge=1, le=200, description="The most to answer.")]
Cursor = Annotated[
    str | None, Field(max_length=200, description="`next_cursor` of the page before; the first page without one.")
]
Secret = Annotated[
    str | None,
    Field(
        repr=False,
        description="The signing secret; the whole text is the key. Shown this once, so keep it. null when unverified "
        "requests are accepted.",
    ),
]


class _Result(BaseModel):
    model_config = ConfigDict(frozen=True)


class Webhook(_Result):
    """A webhook made at run time, without its secret."""

    webhook_id: WebhookId
    title: str
    agent: str | None = Field(description="The agent that each delivery wakes; null: deliveries are only kept.")
    user_id: str = Field(description="Whose it is: the user's id.")
    url: str = Field(description="Where senders post.")
    is_active: bool = Field(description="false: requests are answered 404.")
    insecure_allow_unverified: bool = Field(description="true: requests that nobody signed are accepted.")
    previous_secret_until: AwareDatetime | None = Field(description="Until when the secret before is good too.")
    created_at: AwareDatetime
    updated_at: AwareDatetime


class NewWebhook(Webhook):
    """A webhook that was just made, with its secret."""

    secret: Secret
    notes: list[str] = Field(description="What there is to know, for instance that nobody listens at the URL yet.")


class RotatedSecret(_Result):
    """A new secret, and until when the one before is good."""

    webhook_id: WebhookId
    secret: Secret
    previous_secret_until: AwareDatetime | None = Field(description="null: the secret before is not good any more.")


class WebhookPage(_Result):
    """Some of one's webhooks, oldest first."""

    webhooks: list[Webhook]
    next_cursor: str | None = Field(description="For the next page; null when this is the last one.")


class DeletedWebhook(_Result):
    """The webhook that is no more."""

    webhook_id: WebhookId


class AuditEntry(_Result):
    """One request, or several alike ones that were refused within a minute. Never the body itself."""

    id: str
    time: AwareDatetime = Field(description="When it came in; of the newest, where several are one entry.")
    verdict: str = Field(description="accepted, refused, filtered, repeated or handshake.", examples=["accepted"])
    rejection_reason: str | None = Field(description="Why it was not accepted; null when it was.")
    http_status: int = Field(description="What was answered.")
    insecure_allow_unverified: bool = Field(description="true: the webhook accepts requests that nobody signed.")
    signature_valid: bool | None = Field(description="null when the webhook accepts requests that nobody signed.")
    secret: str | None = Field(description="Which secret matched: newest, or previous after a rotation.")
    source_ip: str | None
    payload_size_bytes: int
    payload_sha256: str | None
    headers: dict[str, str] = Field(description="Some of the headers; never one that may hold a secret.")
    delivery_id: str | None
    run_id: str | None = Field(description="What the agent did about it.")
    run_state: str | None
    count: int = Field(description="How many requests this entry stands for.")


class AuditPage(_Result):
    """Some of what came in, newest first."""

    entries: list[AuditEntry]
    next_cursor: str | None = Field(description="For the next page; null when this is the last one.")
