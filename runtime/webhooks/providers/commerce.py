"""Providers: payments and shops."""

from __future__ import annotations

from typing import Final

from runtime.webhooks.handshakes import form_ping
from runtime.webhooks.providers.provider import MIB, Provider
from runtime.webhooks.request.field_source import BODY
from runtime.webhooks.request.request import OK
from runtime.webhooks.schemes.basic import Basic
from runtime.webhooks.schemes.hmac import Hmac
from runtime.webhooks.schemes.jwt import Jwt
from runtime.webhooks.schemes.signature_header import Fields

COMMERCE: Final = (
    Provider(
        name="chargebee",
        title="Chargebee",
        doc="Chargebee events. It does not sign: the secret is the `name:password` of the webhook's basic auth.",
        doc_url="https://www.chargebee.com/docs/2.0/events_and_webhooks.html",
        scheme=Basic(),
        event=("$.event_type",),
        delivery_id=("$.id",),
    ),
    Provider(
        name="coinbase-commerce",
        title="Coinbase Commerce",
        doc="Charges of Coinbase Commerce.",
        doc_url="https://docs.cdp.coinbase.com/commerce/api-arcitecture/webhooks-security",
        scheme=Hmac(header="X-CC-Webhook-Signature"),
        event=("$.event.type",),
        # Not `$.id`, which differs for every attempt.
        delivery_id=("$.event.id",),
        answer=OK,
    ),
    Provider(
        name="lemonsqueezy",
        title="Lemon Squeezy",
        doc="Events of a Lemon Squeezy shop.",
        doc_url="https://docs.lemonsqueezy.com/help/webhooks/signing-requests",
        scheme=Hmac(header="X-Signature"),
        event=("$.meta.event_name",),
        # Only `updated_at` distinguishes two events of an object.
        delivery_id=(BODY,),
        answer=OK,
    ),
    Provider(
        name="paddle",
        title="Paddle",
        doc="Notifications of Paddle Billing. The whole secret, its `pdl_ntfset_` included, is the key.",
        doc_url="https://developer.paddle.com/webhooks/signature-verification",
        scheme=Hmac(
            header="Paddle-Signature",
            form=Fields(timestamp="ts", signature="h1", separator=";"),
            payload="{timestamp}:{body}",
            tolerance=300,
        ),
        event=("$.event_type",),
        delivery_id=("$.notification_id", "$.event_id"),
        answer=OK,
    ),
    Provider(
        name="plaid",
        title="Plaid",
        doc="Plaid's webhooks. The secret is the key from `/webhook_verification_key/get`, as JSON. "
        "Plaid changes it from time to time and requires credentials for it, so add each new one by "
        "hand.",
        doc_url="https://plaid.com/docs/api/webhooks/webhook-verification/",
        scheme=Jwt(
            header="Plaid-Verification",
            algorithms=("ES256",),
            expires=False,
            tolerance=300,
            body_claim="request_body_sha256",
        ),
        event=("$.webhook_type + $.webhook_code", "$.webhook_code"),
    ),
    Provider(
        name="razorpay",
        title="Razorpay",
        doc="Events of Razorpay.",
        doc_url="https://razorpay.com/docs/webhooks/validate-test/",
        scheme=Hmac(header="X-Razorpay-Signature"),
        event=("$.event",),
        delivery_id=("header:X-Razorpay-Event-Id",),
    ),
    Provider(
        name="shopify",
        title="Shopify",
        doc="Webhooks of a Shopify app or shop. The secret is the app's client secret.",
        doc_url="https://shopify.dev/docs/apps/build/webhooks/subscribe/https",
        scheme=Hmac(header="X-Shopify-Hmac-Sha256", encoding="base64"),
        # Undocumented; more than a megabyte now and then:
        # https://community.shopify.com/c/Shopify-APIs-SDKs/Webhook-requests-exceed-max-size/m-p/144434
        body_limit=4 * MIB,
        event=("header:X-Shopify-Topic",),
        sample_event="orders/create",
        delivery_id=("header:X-Shopify-Webhook-Id",),
    ),
    Provider(
        name="square",
        title="Square",
        doc="Events of Square. It signs the URL, so `public_url` is needed: the notification URL as it is subscribed.",
        doc_url="https://developer.squareup.com/docs/webhooks/step3validate",
        scheme=Hmac(header="X-Square-HmacSha256-Signature", encoding="base64", payload="{url}{body}"),
        event=("$.type",),
        delivery_id=("$.event_id",),
    ),
    Provider(
        name="stripe",
        title="Stripe",
        doc="Stripe events. The whole signing secret, its `whsec_` included, is the key.",
        doc_url="https://docs.stripe.com/webhooks/signature",
        scheme=Hmac(header="Stripe-Signature", form=Fields(), payload="{timestamp}.{body}", tolerance=300),
        event=("$.type",),
        delivery_id=("$.id",),
    ),
    Provider(
        name="woocommerce",
        title="WooCommerce",
        doc="Webhooks of a WooCommerce shop.",
        doc_url="https://developer.woocommerce.com/docs/webhooks/",
        scheme=Hmac(header="X-WC-Webhook-Signature", encoding="base64"),
        # A new webhook is tested with an unsigned form.
        handshake=form_ping("webhook_id"),
        event=("header:X-WC-Webhook-Topic",),
        sample_event="order.created",
        delivery_id=("header:X-WC-Webhook-Delivery-ID",),
    ),
)
