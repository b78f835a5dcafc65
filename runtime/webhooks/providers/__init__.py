"""The table of webhook providers. To add one: a row in the file of its kind, or a file of its own and a line here."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from runtime.extension_table import table_of
from runtime.webhooks.providers.adyen import ADYEN
from runtime.webhooks.providers.aws_sns import AWS_SNS
from runtime.webhooks.providers.clouds import CLOUDS
from runtime.webhooks.providers.coinbase_cdp import COINBASE_CDP
from runtime.webhooks.providers.commerce import COMMERCE
from runtime.webhooks.providers.custom import BASIC, CUSTOM, JWT, SWARMLET, TOKEN
from runtime.webhooks.providers.development import DEVELOPMENT
from runtime.webhooks.providers.mailgun import MAILGUN
from runtime.webhooks.providers.mercado_pago import MERCADO_PAGO
from runtime.webhooks.providers.messaging import MESSAGING
from runtime.webhooks.providers.office import OFFICE
from runtime.webhooks.providers.paypal import PAYPAL
from runtime.webhooks.providers.provider import Provider
from runtime.webhooks.providers.standard_webhooks import SENDERS
from runtime.webhooks.providers.twilio import TWILIO

PROVIDERS: Mapping[str, Provider] = table_of(
    "provider",
    (
        *(CUSTOM, SWARMLET, TOKEN, BASIC, JWT),
        *(*CLOUDS, *COMMERCE, *DEVELOPMENT, *MESSAGING, *OFFICE, *SENDERS),
        *(ADYEN, AWS_SNS, COINBASE_CDP, MAILGUN, MERCADO_PAGO, PAYPAL, TWILIO),
    ),
)


def find_provider(name: str) -> Provider:
    """Return the row of that name. Raises ValueError with the nearest name: never a silent `custom`."""
    row = PROVIDERS.get(name)
    if row is None:
        nearest = get_close_matches(name, PROVIDERS, n=1)
        raise ValueError(f"no provider {name!r}" + (f"; did you mean {nearest[0]}?" if nearest else ""))
    return row
