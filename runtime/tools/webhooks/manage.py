"""Tools on dynamic webhooks: a URL for one user, whose deliveries run an agent or are only stored."""

from __future__ import annotations

import difflib
from datetime import timedelta
from typing import Annotated, Any

import structlog
from pydantic import AfterValidator, Field

from dslc.blocks.values.quantity import read_duration
from runtime.database.errors import Unavailable
from runtime.errors import NotFound, UsageError
from runtime.tools.context import Context
from runtime.tools.cursor import read_cursor, write_cursor
from runtime.tools.memory.access import user_filter
from runtime.tools.patterns import EXAMPLE_ID, UUID, NewSecret
from runtime.tools.result import NextCursor, Result, UnixTime
from runtime.tools.tool import tool
from runtime.webhooks.audit.log import LogEntry, page
from runtime.webhooks.routing.dynamic_routes import PREFIX
from runtime.webhooks.routing.dynamic_webhooks import DynamicWebhook

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
    previous_secret_until: UnixTime | None = Field(
        description="The time until which the previous secret is also valid."
    )
    created_at: UnixTime
    updated_at: UnixTime


class NewWebhook(Webhook):
    """A new webhook, with its secret."""

    secret: Secret
    notes: list[str] = Field(description="Notes, for instance that no daemon listens at the URL yet.")


class RotatedSecret(Result):
    """A new secret, and the time until which the previous one is valid."""

    webhook_id: WebhookId
    secret: Secret
    previous_secret_until: UnixTime | None = Field(description="null: the previous secret is no longer valid.")


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
    time: UnixTime = Field(description="When it arrived; for several requests, when the newest did.")
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
    run_id: str | None
    run_state: str | None = Field(description="The state of the delivery.")
    count: int = Field(description="The number of requests in this entry.")


class AuditPage(Result):
    """A page of requests, newest first."""

    entries: list[AuditEntry]
    next_cursor: NextCursor


log = structlog.get_logger("symbiont.webhooks")


@tool("write", example={"title": "Nightly build", "agent": None})
async def webhook_create(
    context: Context, title: Title, agent: AgentName, insecure_allow_unverified: Insecure = False
) -> NewWebhook:
    """Create a webhook that runs an agent on each delivery, or only stores them.

    Senders post JSON to its URL with the header `X-Swarmlet-Signature: t=SECONDS,v1=HEX`: the Unix time, and the
    HMAC-SHA256 of `SECONDS.BODY` in lower-case hexadecimal, keyed by the secret. The secret is returned only here. An
    agent does not get it: `symbi webhook secret ID` shows it to a person, once. A webhook accepts 60 deliveries a
    minute, all webhooks of a user together 300, and bodies up to 256 KiB.
    """
    user = context.caller.user_id
    if agent is not None and agent not in context.agents:
        near = difflib.get_close_matches(agent, context.agents, n=3, cutoff=0.5)
        known = f"did you mean {' or '.join(near)}?" if near else "agents are declared in the program"
        raise UsageError(f"no agent is called {agent!r}", hint=known)
    verified, shown = not insecure_allow_unverified, context.acting is None
    made, secret = await context.webhooks.create(user, title, agent, verified=verified, shown=shown)
    await _record_change(context, "created", made.id)
    # Only a daemon records requests that were not accepted.
    listens = context.daemon.audit is not None
    notes = [] if listens else ["no daemon runs here to answer at the URL: `symbi up` starts one"]
    if secret is not None and not shown:
        notes.append(f"`symbi webhook secret {made.id}` shows a person the secret, once")
    return NewWebhook.of(made, **_renamed_fields(made, context), secret=secret, notes=notes)


@tool("read", example={"limit": 20})
async def webhook_list(context: Context, limit: Limit = 50, cursor: Cursor = None) -> WebhookPage:
    """List your webhooks, oldest first; with the scope `admin` those of all users."""
    after: Any = None if cursor is None else read_cursor(cursor, int, str)
    # One more than the limit shows if there is another page.
    found = await context.webhooks.page(user_filter(context, None), limit + 1, after)
    shown = found[:limit]
    more = write_cursor(shown[-1].created_at, shown[-1].id) if len(found) > limit else None
    return WebhookPage(webhooks=[_webhook(each, context) for each in shown], next_cursor=more)


@tool("read", example={"webhook_id": EXAMPLE_ID})
async def webhook_get(context: Context, webhook_id: WebhookId) -> Webhook:
    """Show one of your webhooks without its secret; with `admin`, one of any user."""
    return _webhook(await _own_webhook(context, webhook_id), context)


@tool("write", idempotent=True, example={"webhook_id": EXAMPLE_ID, "is_active": False})
async def webhook_update(
    context: Context, webhook_id: WebhookId, title: NewTitle = None, is_active: IsActive = None
) -> Webhook:
    """Rename a webhook, or switch it on or off. Omitted fields do not change.

    While it is off, requests are answered 404.
    """
    if title is None and is_active is None:
        raise UsageError("there is nothing to change", hint="give title or is_active")
    whose = user_filter(context, None)
    changed = await context.webhooks.change(whose, webhook_id, title=title, is_active=is_active)
    done = "renamed" if is_active is None else "switched on" if is_active else "switched off"
    await _record_change(context, done, webhook_id, there=changed is not None)
    assert changed is not None
    return _webhook(changed, context)


@tool("write", destructive=True, example={"webhook_id": EXAMPLE_ID})
async def webhook_delete(context: Context, webhook_id: WebhookId) -> DeletedWebhook:
    """Delete a webhook. Deliveries that it has accepted are still run."""
    deleted = await context.webhooks.delete(user_filter(context, None), webhook_id)
    await _record_change(context, "deleted", webhook_id, there=deleted)
    return DeletedWebhook(webhook_id=webhook_id)


@tool("write", example={"webhook_id": EXAMPLE_ID, "overlap": "24h"})
async def webhook_rotate_secret(context: Context, webhook_id: WebhookId, overlap: Overlap = "24h") -> RotatedSecret:
    """Give a webhook a new secret, which is returned only here.

    An agent does not get it, see webhook_create. The previous secret stays valid for the overlap, so that senders can
    change over; an older one ends at once.
    """
    wanted = read_duration(overlap) // timedelta(milliseconds=1)
    shown = context.acting is None
    rotated = await context.webhooks.rotate(user_filter(context, None), webhook_id, wanted, shown=shown)
    await _record_change(context, "rotated", webhook_id, there=rotated is not None)
    assert rotated is not None
    webhook, secret = rotated
    return RotatedSecret.of(webhook, webhook_id=webhook_id, secret=secret, previous_secret_until=webhook.previous_until)


@tool("read", example={"webhook_id": EXAMPLE_ID, "limit": 20})
async def webhook_get_audit_log(
    context: Context, webhook_id: WebhookId, limit: Limit = 50, cursor: Cursor = None
) -> AuditPage:
    """List the requests to a webhook, accepted and refused, newest first."""
    webhook = await _own_webhook(context, webhook_id)
    before = None if cursor is None else str(read_cursor(cursor, str)[0])
    if context.daemon.audit is not None:
        # Requests that arrived a moment ago are included.
        await context.daemon.audit.flush()
    found = await page(context.database, webhook.user_id, webhook.id, limit + 1, before)
    shown = found[:limit]
    return AuditPage(
        entries=[_entry(each, verified=webhook.verified) for each in shown],
        next_cursor=write_cursor(shown[-1].id) if len(found) > limit else None,
    )


async def _own_webhook(context: Context, webhook_id: str) -> DynamicWebhook:
    """Return the caller's webhook, or with the scope `admin` that of any user. Raises NotFound for another user's
    webhook as for a missing one."""
    found = await context.webhooks.get(user_filter(context, None), webhook_id)
    if found is None:
        raise _not_found(webhook_id)
    return found


def _not_found(webhook_id: str) -> NotFound:
    return NotFound(f"you have no webhook {webhook_id}")


async def _record_change(context: Context, done: str, webhook_id: str, *, there: bool = True) -> None:
    """Record a change, and apply it before it is answered. Raises NotFound unless the webhook was `there`."""
    if not there:
        raise _not_found(webhook_id)
    caller = context.caller
    log.info("webhook_changed", change=done, webhook=webhook_id, user_id=caller.user_id, token=caller.token_id)
    try:
        await context.routes.refresh()
    except Unavailable as error:
        # The change is stored; the routes follow as soon as the database is available again.
        log.warning("change_not_applied", webhook=webhook_id, reason=str(error))


def _webhook(webhook: DynamicWebhook, context: Context) -> Webhook:
    return Webhook.of(webhook, **_renamed_fields(webhook, context))


def _renamed_fields(webhook: DynamicWebhook, context: Context) -> dict[str, Any]:
    """Return the fields of a result that a webhook has under no name or another one."""
    until = webhook.previous_until
    return {
        "webhook_id": webhook.id,
        "url": context.daemon.url_of(f"{PREFIX}{webhook.id}"),
        "insecure_allow_unverified": not webhook.verified,
        "previous_secret_until": until if until is not None and until > context.clock.now() * 1000 else None,
    }


def _entry(entry: LogEntry, *, verified: bool) -> AuditEntry:
    return AuditEntry.of(
        entry,
        time=entry.received_at,
        rejection_reason=None if entry.verdict == "accepted" else entry.reason,
        http_status=entry.status,
        insecure_allow_unverified=not verified,
        signature_valid=entry.verified if verified else None,
        secret=None if entry.secret_index is None else ("newest", "previous")[min(entry.secret_index, 1)],
        source_ip=entry.source,
        payload_size_bytes=entry.size,
        payload_sha256=entry.body_sha256,
        headers=dict(entry.headers),
    )
