"""Microsoft Graph change notifications."""

from __future__ import annotations

import re

from runtime.webhooks.handshakes import Handshake
from runtime.webhooks.providers.provider import Provider, SummaryField
from runtime.webhooks.request.payload import Payload
from runtime.webhooks.request.request import WebhookRequest, query_parameters
from runtime.webhooks.request.static_response import StaticAnswer
from runtime.webhooks.schemes.token import BodyToken, without

# Graph sends `Validation: Testing client application reachability for subscription Request-Id: …`.
_TOKEN = re.compile(r"[A-Za-z0-9 .:;,()_+/=-]{1,1024}")


def _validate(request: WebhookRequest, payload: Payload, secrets: tuple[bytes, ...]) -> StaticAnswer | None:
    """Answer an empty POST whose query has one `validationToken` with this token as plain text. SharePoint writes the
    name in lower case."""
    parameters = query_parameters(request.query).items()
    tokens = [value for name, value in parameters if name.lower() == "validationtoken"]
    if request.body or len(tokens) != 1 or not _TOKEN.fullmatch(tokens[0]):
        return None
    return StaticAnswer(body=tokens[0].encode())


MICROSOFT_GRAPH = Provider(
    name="microsoft-graph",
    title="Microsoft Graph",
    doc="Change notifications of Microsoft 365. Graph does not sign: the secret is the "
    "subscription's `clientState`, which every notification of a delivery must contain.",
    doc_url="https://learn.microsoft.com/en-us/graph/change-notifications-delivery-webhooks",
    scheme=BodyToken(items="$.value[*]", field="clientState", wrap=lambda item: {"value": [item]}),
    decoder=without("clientState", items="$.value[*]"),
    handshake=Handshake("POST: `validationToken` is echoed", _validate),
    delivery_id=("$.value[*].id",),
    event=("$.value[0].lifecycleEvent", "$.value[0].changeType"),
    summary_fields=(
        SummaryField("change", ("$.value[0].changeType", "$.value[0].lifecycleEvent")),
        SummaryField("resource", ("$.value[0].resource",)),
        SummaryField("type", ("$.value[0].resourceData['@odata.type']",)),
        SummaryField("subscription", ("$.value[0].subscriptionId",)),
    ),
)
