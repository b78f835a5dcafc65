"""Dropbox."""

from __future__ import annotations

from runtime.webhooks.answer import OK
from runtime.webhooks.handshake import QueryEcho
from runtime.webhooks.hmac_scheme import Hmac
from runtime.webhooks.provider import Fact, Provider

DROPBOX = Provider(
    name="dropbox",
    title="Dropbox",
    doc="Says that files of a Dropbox app's users changed, not which. The secret is the app's secret.",
    doc_url="https://www.dropbox.com/developers/reference/webhooks",
    scheme=Hmac(header="X-Dropbox-Signature"),
    handshake=QueryEcho(echo="challenge"),
    answer=OK,
    facts=(
        Fact("account", ("$.list_folder.accounts[*]",)),
        Fact("user", ("$.delta.users[*]",)),
    ),
)
