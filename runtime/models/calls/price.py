"""The cost of a call: by the block's own prices, else by the published ones that the package `genai-prices` holds.

The package is data: nothing is fetched. It takes about 0.3 s and 30 MB to load, so it is loaded in a thread by the
first call that needs it.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Final, NamedTuple, Protocol

from dslc.blocks.model import price_provider
from runtime.models.budgets.limits import NANO
from runtime.models.request import Usage

# Services of models that run on one's own machine have no published prices.
WITHOUT_PRICES: Final = frozenset({"ollama", "local", "hashing"})


class Price(Protocol):
    """The price of one model's tokens."""

    def prepare(self) -> None:
        """Load what `cost` needs. Does not block."""

    def cost(self, model: str, usage: Usage) -> int | None:
        """Return the cost of a call in 1e-9 US dollars; None if it is not known."""

    def limited_cost(self, usage: Usage) -> int | None:
        """Return the cost that counts against limits, by the prices of the program alone; None if it gives none."""


class BlockPrice(NamedTuple):
    """The prices of a block: US dollars per million tokens. A price that is missing counts as 0."""

    input_price: float | None
    output_price: float | None

    def prepare(self) -> None:
        """Do nothing: the prices are here."""

    def cost(self, model: str, usage: Usage) -> int | None:
        if usage.tokens_in is None and usage.tokens_out is None:
            return None
        return self._cost(usage)

    def limited_cost(self, usage: Usage) -> int | None:
        return None if self.input_price is None or self.output_price is None else self._cost(usage)

    def _cost(self, usage: Usage) -> int:
        dollars = (usage.tokens_in or 0) * (self.input_price or 0) + (usage.tokens_out or 0) * (self.output_price or 0)
        return round(dollars * NANO / 1_000_000)


class PublishedPrice(NamedTuple):
    """The published prices of a service. `row`: its name in a program. `url`: its address if the row has one."""

    row: str
    url: str | None

    def prepare(self) -> None:
        if self.row not in WITHOUT_PRICES:
            _load_in_thread()

    def cost(self, model: str, usage: Usage) -> int | None:
        if self.row in WITHOUT_PRICES or (usage.tokens_in is None and usage.tokens_out is None):
            return None
        try:
            import genai_prices

            tokens = genai_prices.Usage(
                input_tokens=usage.tokens_in or 0,
                cache_read_tokens=min(usage.cached or 0, usage.tokens_in or 0),
                output_tokens=usage.tokens_out or 0,
            )
            if self.url is not None:
                found = genai_prices.calc_price(tokens, model, provider_api_url=self.url)
            else:
                found = genai_prices.calc_price(tokens, model, provider_id=price_provider(self.row))
        except Exception:
            # It does not know the service, the model, or a price for such tokens. No call fails for want of a price.
            return None
        return round(found.total_price * NANO)

    def limited_cost(self, usage: Usage) -> int | None:
        return None


_loading = threading.Event()


def _load_in_thread() -> None:
    """Load the prices, once, while the first call runs."""
    if not _loading.is_set():
        _loading.set()
        asyncio.get_running_loop().run_in_executor(None, _load)


def _load() -> None:
    import genai_prices

    genai_prices.calc_price(genai_prices.Usage(input_tokens=1), "gpt-4.1-mini", provider_id="openai")
