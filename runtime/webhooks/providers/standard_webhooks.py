"""Standard Webhooks, and senders that implement it with header names of their own.

Their `whsec_` precedes base64, unlike Stripe's, which is part of the key.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from runtime.webhooks.keys.public_key import ed25519_key
from runtime.webhooks.keys.shared_secret import base64_key, text_key
from runtime.webhooks.providers.provider import Provider
from runtime.webhooks.request.request import StaticAnswer
from runtime.webhooks.schemes.hmac import Hmac
from runtime.webhooks.schemes.public_key import PublicKey
from runtime.webhooks.schemes.secret_prefix import SecretPrefixScheme
from runtime.webhooks.schemes.signature_header import ListHeader


def symmetric(family: str = "webhook", key: Callable[[bytes], bytes] = base64_key) -> Hmac:
    """Return the symmetric scheme, with headers of one family only: `webhook-id` and `svix-signature` are never
    mixed."""
    return Hmac(
        header=f"{family}-signature",
        form=ListHeader("v1,", " "),
        encoding="base64",
        payload="{id}.{timestamp}.{body}",
        timestamp_header=f"{family}-timestamp",
        id_header=f"{family}-id",
        tolerance=300,
        key=key,
    )


def openai_key(secret: bytes) -> bytes:
    """Return the key: only a secret with the prefix is base64, as in OpenAI's own library."""
    return base64_key(secret) if secret.strip().startswith(b"whsec_") else text_key(secret)


_ASYMMETRIC = PublicKey(
    key=ed25519_key,
    header="webhook-signature",
    form=ListHeader("v1a,", " "),
    payload="{id}.{timestamp}.{body}",
    timestamp_header="webhook-timestamp",
    id_header="webhook-id",
)


def _optional_base64_key(secret: bytes) -> bytes | None:
    """Return the alternative key that Polar's own library accepts."""
    try:
        return base64_key(secret)
    except ValueError:
        return None


STANDARD_WEBHOOKS = Provider(
    name="standard-webhooks",
    title="Standard Webhooks",
    doc="Any sender that follows the Standard Webhooks specification. The secret is `whsec_…`, or "
    "the public key `whpk_…` of a sender that signs with Ed25519.",
    doc_url="https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md",
    scheme=SecretPrefixScheme(
        tuple((prefix, _ASYMMETRIC) for prefix in (b"whpk_", b"whsk_", b"-----BEGIN")), symmetric()
    ),
    event=("$.type",),
    delivery_id=("header:webhook-id",),
)

SVIX = replace(
    STANDARD_WEBHOOKS,
    name="svix",
    title="Svix",
    doc="Any sender that delivers through Svix, with headers that begin with `svix-`.",
    doc_url="https://docs.svix.com/receiving/verifying-payloads/how",
    scheme=symmetric("svix"),
    delivery_id=("header:svix-id",),
)

CLERK = replace(
    SVIX,
    name="clerk",
    title="Clerk",
    doc="Events of users, sessions and organizations at Clerk.",
    doc_url="https://clerk.com/docs/webhooks/sync-data",
)

RESEND = replace(
    SVIX,
    name="resend",
    title="Resend",
    doc="Events of mail sent with Resend.",
    doc_url="https://resend.com/docs/webhooks/verify-webhooks-requests",
)

OPENAI = replace(
    STANDARD_WEBHOOKS,
    name="openai",
    title="OpenAI",
    doc="Events of background responses, batches, evaluations and fine-tuning at OpenAI.",
    doc_url="https://platform.openai.com/docs/guides/webhooks",
    scheme=symmetric(key=openai_key),
    key_form="base64 of the key behind `whsec_`, else its text",
)

REPLICATE = replace(
    STANDARD_WEBHOOKS,
    name="replicate",
    title="Replicate",
    doc="Predictions and trainings at Replicate.",
    doc_url="https://replicate.com/docs/webhooks",
    scheme=symmetric(),
    event=("$.status",),
)

SUPABASE = replace(
    STANDARD_WEBHOOKS,
    name="supabase",
    title="Supabase Auth",
    doc="Supabase's hooks of Auth, whose secret is shown as `v1,whsec_…`. Its database webhooks are not signed.",
    doc_url="https://supabase.com/docs/guides/auth/auth-hooks",
    scheme=symmetric(),
    event=("$.email_data.email_action_type",),
    # Auth waits for the answer: an object, empty to change nothing.
    answer=StaticAnswer(200, "application/json", b"{}"),
)

POLAR = replace(
    STANDARD_WEBHOOKS,
    name="polar",
    title="Polar",
    doc="Events of Polar. The whole secret is the key, or it is base64 of it.",
    doc_url="https://docs.polar.sh/integrate/webhooks",
    scheme=replace(symmetric(key=text_key), other_key=_optional_base64_key),
)

SENDERS: Final = (STANDARD_WEBHOOKS, SVIX, CLERK, RESEND, OPENAI, REPLICATE, SUPABASE, POLAR)
