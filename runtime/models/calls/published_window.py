"""The windows of known models, as the package `genai-prices` has published them."""

from __future__ import annotations

import asyncio
from typing import Final

from dslc.blocks.model import price_provider
from runtime.models.calls.price import WITHOUT_PRICES

_windows: Final[dict[tuple[str, str | None, str], int | None]] = {}


async def published_window(row: str, url: str | None, model: str) -> int | None:
    """Return the tokens of a model's window; None if they are not published. `row`: of the service. `url`: its address.
    Raises nothing."""
    key = row, url if row == "openai" else None, model
    if row not in WITHOUT_PRICES and key not in _windows:
        # The package takes some time to load.
        _windows[key] = await asyncio.to_thread(_look_up, *key)
    return _windows.get(key)


def _look_up(row: str, url: str | None, model: str) -> int | None:
    """Return the window. Only the address says which service `openai` is: a server of one's own may serve a known model
    with a smaller window, and none is found for it."""
    import genai_prices

    tokens = genai_prices.Usage(input_tokens=1)
    try:
        if row == "openai":
            found = genai_prices.calc_price(tokens, model, provider_api_url=url)
        else:
            found = genai_prices.calc_price(tokens, model, provider_id=price_provider(row))
    except Exception:
        # It does not know the service or the model.
        return None
    return found.model.context_window
