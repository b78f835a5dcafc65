"""Types of the parameters and results of the webhook tools, from which their schemas are built."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from pydantic import AfterValidator, AwareDatetime, Field

from dslc.blocks.values.quantity import read_duration
from runtime.tools.patterns import UUID, NewSecret
from runtime.tools.result import NextCursor, Result

LONGEST_OVERLAP = timedelta(days=30)

# No control characters, and no characters that change the direction of text or are invisible: a title identifies a
# webhook on terminals. The two joiners (U+200C, U+200D) are part of letters and emojis.
_NO_CONTROL = (
    r"\u0000-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e"
    r"\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb"
)
_TITLE = rf"^[^{_NO_CONTROL}\u0020]([^{_NO_CONTROL}]*[^{_NO_CONTROL}\u0020])?$"


def _duration(text: str) -> str:
    if read_duration(text) > LONGEST_OVERLAP:
        raise ValueError(f"an overlap is {LONGEST_OVERLAP.days} days at most")
    return text


WebhookId = Annotated[str, Field(pattern=UUID, description="The webhook's id, a UUID.")]
Title = Annotated[
    str,
    Field(
        pattern=_TITLE,
        max_length=200,
        description="The title: up to 200 characters in one line, without a space at either end.",
        examples=["Nightly build"],
    ),
]
NewTitle = Annotated[
    Annotated[str, Field(pattern=_TITLE, max_length=200)] | None,
    Field(description="The new title: up to 200 characters in one line, without a space at either end."),
]
IsActive = Annotated[bool | None, Field(description="Whether it accepts requests; false: they are answered 404.")]
AgentName = Annotated[
    Annotated[str, Field(min_length=1, max_length=64)] | None,
    Field(description="The agent to run for each delivery; null: deliveries are only stored.", examples=["reviewer"]),
]
Insecure = Annotated[bool, Field(description="Accept unsigned requests: anyone who knows the URL can run the agent.")]
Overlap = Annotated[
    str,
    Field(
        max_length=40,
        pattern=r"^[0-9a-z]+$",
        description="How long the previous secret stays valid, such as `24h` or `7d`; `0s` ends it at once, "
        "`30d` is the maximum.",
        examples=["24h"],
    ),
    AfterValidator(_duration),
]
Limit = Annotated[int, Field(ge=1, le=200, description="Maximum number of results.")]
Cursor = Annotated[
    str | None, Field(max_length=200, description="`next_cursor` of the previous page; without it, the first page.")
]
Secret = Annotated[
    NewSecret,
    Field(
        repr=False,
        description="The signing secret; the whole text is the key. It is shown only once, so store it. null if "
        "unverified requests are accepted.",
    ),
]


class Webhook(Result):
    """A webhook created through the API, without its secret."""

    webhook_id: WebhookId
    title: str
    agent: str | None = Field(description="The agent to run for each delivery; null: deliveries are only stored.")
    user_id: str = Field(description="The id of its user.")
    url: str = Field(description="The URL for senders.")
    is_active: bool = Field(description="false: requests are answered 404.")
    insecure_allow_unverified: bool = Field(description="true: unsigned requests are accepted.")
    previous_secret_until: AwareDatetime | None = Field(
        description="The time until which the previous secret is also valid."
    )
    created_at: AwareDatetime
    updated_at: AwareDatetime


class NewWebhook(Webhook):
    """A new webhook, with its secret."""

    secret: Secret
    notes: list[str] = Field(description="Notes, for instance that no daemon listens at the URL yet.")


class RotatedSecret(Result):
    """A new secret, and the time until which the previous one is valid."""

    webhook_id: WebhookId
    secret: Secret
    previous_secret_until: AwareDatetime | None = Field(description="null: the previous secret is no longer valid.")


class WebhookPage(Result):
    """A page of one's webhooks, oldest first."""

    webhooks: list[Webhook]
    next_cursor: NextCursor


class DeletedWebhook(Result):
    """The deleted webhook."""

    webhook_id: WebhookId


class AuditEntry(Result):
    """One request, or several similar ones that were refused within a minute; never the body."""

    id: str
    time: AwareDatetime = Field(description="When it arrived; for several requests, when the newest did.")
    verdict: str = Field(description="accepted, refused, filtered, repeated or handshake.", examples=["accepted"])
    rejection_reason: str | None = Field(description="Why it was not accepted; null if it was.")
    http_status: int = Field(description="The status of the answer.")
    insecure_allow_unverified: bool = Field(description="true: the webhook accepts unsigned requests.")
    signature_valid: bool | None = Field(description="null if the webhook accepts unsigned requests.")
    secret: str | None = Field(description="The secret that matched: newest, or previous after a rotation.")
    source_ip: str | None
    payload_size_bytes: int
    payload_sha256: str | None
    headers: dict[str, str] = Field(description="Some of the headers; never one that may contain a secret.")
    delivery_id: str | None
    run_id: str | None = Field(description="The state of the delivery.")
    run_state: str | None
    count: int = Field(description="The number of requests in this entry.")


class AuditPage(Result):
    """A page of requests, newest first."""

    entries: list[AuditEntry]
    next_cursor: NextCursor
