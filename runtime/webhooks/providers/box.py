"""Box."""

from __future__ import annotations

import json
import re

from runtime.webhooks.handshakes import PRESENCE_CHECK
from runtime.webhooks.providers.provider import Provider, SummaryField
from runtime.webhooks.schemes.hmac import Hmac

_SPECIAL = re.compile(r"\\(?!/)|[^\x20-\x7e]")
_SHORT = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def escaped(body: bytes) -> bytes:
    """Return the body as Box signs it if names are not ASCII: escaped again, as if inside a JSON string. A body that is
    only ASCII, or not UTF-8, is returned unchanged.

    So a signed ASCII body with both an escaped letter and a backslash has a second form with the same MAC. It is
    unknown which of the two Box sent. An attacker who captured one before it arrived could send the other, in which
    some backslashes are missing; after either has arrived, the MAC is known, and the other is refused as replayed.
    """
    if body.isascii():
        return body
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return body
    return _SPECIAL.sub(lambda found: _SHORT.get(found[0]) or json.dumps(found[0])[1:-1], text).encode()


BOX = Provider(
    name="box",
    title="Box",
    doc="Box's V2 webhooks. Use one of the app's two signature keys, or both while one is being changed.",
    doc_url="https://developer.box.com/guides/webhooks/v2/signatures-v2",
    scheme=Hmac(
        header="BOX-SIGNATURE-PRIMARY",
        more_headers=("BOX-SIGNATURE-SECONDARY",),
        encoding="base64",
        payload="{body}{timestamp}",
        timestamp_header="BOX-DELIVERY-TIMESTAMP",
        unit="rfc3339",
        tolerance=600,
        rewritten=escaped,
    ),
    handshake=PRESENCE_CHECK,
    event=("$.trigger",),
    # Not BOX-DELIVERY-ID, which differs for every attempt.
    delivery_id=("$.id",),
    summary_fields=(
        SummaryField("item", ("$.source.name", "$.source.item.name")),
        SummaryField("kind", ("$.source.type",)),
        SummaryField("id", ("$.source.id",)),
        SummaryField("folder", ("$.source.parent.name",)),
        SummaryField("by", ("$.created_by.name", "$.created_by.login")),
        SummaryField("comment", ("$.source.message",)),
    ),
)
