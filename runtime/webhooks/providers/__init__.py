"""The table of webhook providers. To add one: its row, and a line here."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from runtime.rows import by_name
from runtime.webhooks.provider import Provider
from runtime.webhooks.providers.custom import CUSTOM
from runtime.webhooks.providers.github import GITHUB
from runtime.webhooks.providers.slack import SLACK
from runtime.webhooks.providers.stripe import STRIPE
from runtime.webhooks.providers.swarmlet import SWARMLET

PROVIDERS: Mapping[str, Provider] = by_name(
    "provider",
    (
        CUSTOM,
        GITHUB,
        SLACK,
        STRIPE,
        SWARMLET,
    ),
)


def find_provider(provider: str | Provider) -> Provider:
    """The row of that name; a row is itself. Raises ValueError with the nearest name: never a silent `custom`."""
    if isinstance(provider, Provider):
        return provider
    row = PROVIDERS.get(provider)
    if row is None:
        nearest = get_close_matches(provider, PROVIDERS, n=1)
        raise ValueError(f"no provider {provider!r}" + (f"; did you mean {nearest[0]}?" if nearest else ""))
    return row
