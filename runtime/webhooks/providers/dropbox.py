"""Dropbox."""

from __future__ import annotations

from runtime.webhooks.handshakes.echo import QueryEcho
from runtime.webhooks.providers.provider import Provider, SummaryField
from runtime.webhooks.request.static_response import OK
from runtime.webhooks.schemes.hmac import Hmac

DROPBOX = Provider(
    name="dropbox",
    title="Dropbox",
    doc="Notifications that files of a Dropbox app's users changed, without their names. The secret "
    "is the app's secret.",
    doc_url="https://www.dropbox.com/developers/reference/webhooks",
    scheme=Hmac(header="X-Dropbox-Signature"),
    handshake=QueryEcho(echo="challenge"),
    answer=OK,
    summary_fields=(
        SummaryField("account", ("$.list_folder.accounts[*]",)),
        SummaryField("user", ("$.delta.users[*]",)),
    ),
)
