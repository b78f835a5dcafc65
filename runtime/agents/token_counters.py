"""The counters of tokens of the models that agents use, whose learnt ratios survive a restart."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import Final

import structlog

from runtime.database import meta
from runtime.database.connection import Database
from runtime.database.errors import Unavailable
from runtime.models.client import ModelClient
from runtime.token_counter import FIRST_RATIO, TokenCounter

log = structlog.get_logger("symbiont.agent")

_COUNTERS: Final = 64
"""Models whose counters are kept in memory."""
_SMALLEST_CHANGE: Final = 0.02
"""Share by which a ratio has changed before it is stored again."""


class TokenCounters:
    """One counter for each model, which learns from all its calls."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._counters: OrderedDict[str, TokenCounter] = OrderedDict()
        self._stored: dict[str, float] = {}

    async def of(self, client: ModelClient) -> TokenCounter:
        """Return the counter for a model, with the ratio that was learnt before. Raises `Unavailable`."""
        name = _name(client)
        if name not in self._counters:
            async with self._database.read() as connection:
                stored = await meta.current(connection, name)
            # Others may have asked for it meanwhile.
            ratio = FIRST_RATIO if stored is None else float(stored)
            self._counters.setdefault(name, TokenCounter(ratio, client.model))
            if len(self._counters) > _COUNTERS:
                self._counters.popitem(last=False)
        self._counters.move_to_end(name)
        return self._counters[name]

    async def keep(self, client: ModelClient) -> None:
        """Store what the counter for a model has learnt, if that is worth it. Raises nothing."""
        name = _name(client)
        counter = self._counters.get(name)
        if counter is None or abs(counter.ratio / self._stored.get(name, counter.first_ratio) - 1) < _SMALLEST_CHANGE:
            return
        ratio = counter.ratio
        try:
            async with self._database.write() as connection:
                await connection.run_sync(meta.put, name, f"{ratio:.4f}")
        except Unavailable as error:
            log.warning("token_ratio_not_stored", model=client.model, reason=error.line())
            return
        self._stored[name] = ratio


def _name(client: ModelClient) -> str:
    """Return the name of the row of a model, in the length that such a name may have."""
    return f"token_ratio:{hashlib.sha256(f'{client.name}/{client.model}'.encode()).hexdigest()[:40]}"
