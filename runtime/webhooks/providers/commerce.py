"""Providers: payments and shops."""

from __future__ import annotations

from typing import Final

from runtime.webhooks.handshakes import form_ping
from runtime.webhooks.providers.provider import MIB, Provider, SummaryField
from runtime.webhooks.request.field_source import BODY
from runtime.webhooks.request.static_response import OK
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
        summary_fields=(
            SummaryField("customer", ("$.content.customer.email", "$.content.customer.id")),
            SummaryField("subscription", ("$.content.subscription.id",)),
            SummaryField("plan", ("$.content.subscription.subscription_items[0].item_price_id",)),
            SummaryField("invoice", ("$.content.invoice.id",)),
            SummaryField("amount", ("$.content.transaction.amount", "$.content.invoice.total")),
        ),
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
        summary_fields=(
            SummaryField("charge", ("$.event.data.code",)),
            SummaryField("name", ("$.event.data.name",)),
            SummaryField("amount", ("$.event.data.pricing.local.amount",)),
            SummaryField("currency", ("$.event.data.pricing.local.currency",)),
            SummaryField("status", ("$.event.data.timeline[-1].status",)),
        ),
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
        summary_fields=(
            SummaryField("kind", ("$.data.type",)),
            SummaryField("id", ("$.data.id",)),
            SummaryField("status", ("$.data.attributes.status",)),
            SummaryField(
                "product", ("$.data.attributes.product_name", "$.data.attributes.first_order_item.product_name")
            ),
            SummaryField("total", ("$.data.attributes.total_formatted",)),
            SummaryField("email", ("$.data.attributes.user_email",)),
            SummaryField("test mode", ("$.meta.test_mode",)),
        ),
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
        summary_fields=(
            SummaryField("id", ("$.data.id",)),
            SummaryField("status", ("$.data.status",)),
            SummaryField("customer", ("$.data.customer_id",)),
            SummaryField("subscription", ("$.data.subscription_id",)),
            SummaryField("total in minor units", ("$.data.details.totals.grand_total",)),
            SummaryField("currency", ("$.data.currency_code",)),
        ),
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
        summary_fields=(
            SummaryField("type", ("$.webhook_type",)),
            SummaryField("code", ("$.webhook_code",)),
            SummaryField("item", ("$.item_id",)),
            SummaryField("environment", ("$.environment",)),
            SummaryField("new transactions", ("$.new_transactions",)),
            SummaryField("error", ("$.error.error_message", "$.error.error_code")),
        ),
    ),
    Provider(
        name="razorpay",
        title="Razorpay",
        doc="Events of Razorpay.",
        doc_url="https://razorpay.com/docs/webhooks/validate-test/",
        scheme=Hmac(header="X-Razorpay-Signature"),
        event=("$.event",),
        delivery_id=("header:X-Razorpay-Event-Id",),
        summary_fields=(
            SummaryField("payment", ("$.payload.payment.entity.id",)),
            SummaryField("order", ("$.payload.order.entity.id", "$.payload.payment.entity.order_id")),
            SummaryField("status", ("$.payload.payment.entity.status", "$.payload.order.entity.status")),
            SummaryField("amount in minor units", ("$.payload.payment.entity.amount", "$.payload.order.entity.amount")),
            SummaryField("currency", ("$.payload.payment.entity.currency", "$.payload.order.entity.currency")),
            SummaryField("error", ("$.payload.payment.entity.error_description",)),
        ),
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
        summary_fields=(
            SummaryField("order", ("$.name", "$.order_number")),
            SummaryField("title", ("$.title",)),
            SummaryField("id", ("$.id",)),
            SummaryField("total", ("$.total_price", "$.current_total_price")),
            SummaryField("currency", ("$.currency",)),
            SummaryField("paid", ("$.financial_status",)),
            SummaryField("fulfilled", ("$.fulfillment_status",)),
            SummaryField("email", ("$.email", "$.customer.email")),
        ),
    ),
    Provider(
        name="square",
        title="Square",
        doc="Events of Square. It signs the URL, so `public_url` is needed: the notification URL as it is subscribed.",
        doc_url="https://developer.squareup.com/docs/webhooks/step3validate",
        scheme=Hmac(header="X-Square-HmacSha256-Signature", encoding="base64", payload="{url}{body}"),
        event=("$.type",),
        delivery_id=("$.event_id",),
        summary_fields=(
            SummaryField("merchant", ("$.merchant_id",)),
            SummaryField("object", ("$.data.type",)),
            SummaryField("id", ("$.data.id",)),
            SummaryField(
                "status",
                ("$.data.object.payment.status", "$.data.object.invoice.status", "$.data.object.refund.status"),
            ),
            SummaryField(
                "amount", ("$.data.object.payment.amount_money.amount", "$.data.object.refund.amount_money.amount")
            ),
            SummaryField(
                "currency",
                ("$.data.object.payment.amount_money.currency", "$.data.object.refund.amount_money.currency"),
            ),
        ),
    ),
    Provider(
        name="stripe",
        title="Stripe",
        doc="Stripe events. The whole signing secret, its `whsec_` included, is the key.",
        doc_url="https://docs.stripe.com/webhooks/signature",
        scheme=Hmac(header="Stripe-Signature", form=Fields(), payload="{timestamp}.{body}", tolerance=300),
        event=("$.type",),
        delivery_id=("$.id",),
        summary_fields=(
            SummaryField("object", ("$.data.object.object",)),
            SummaryField("id", ("$.data.object.id",)),
            SummaryField("status", ("$.data.object.status",)),
            SummaryField("amount", ("$.data.object.amount", "$.data.object.amount_total", "$.data.object.amount_due")),
            SummaryField("currency", ("$.data.object.currency",)),
            SummaryField("customer", ("$.data.object.customer",)),
            SummaryField("live mode", ("$.livemode",)),
        ),
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
        summary_fields=(
            SummaryField("order", ("$.number",)),
            SummaryField("name", ("$.name",)),
            SummaryField("id", ("$.id",)),
            SummaryField("status", ("$.status",)),
            SummaryField("total", ("$.total", "$.price")),
            SummaryField("currency", ("$.currency",)),
            SummaryField("email", ("$.billing.email", "$.email")),
        ),
    ),
)
