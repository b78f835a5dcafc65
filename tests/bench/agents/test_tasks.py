"""The measurement of lists and searches of very many tasks runs on a small scale."""

from __future__ import annotations

from bench.agents.tasks import FILTERS, measure, table
from tests.lanes import LONG


@LONG
async def test_every_list_and_search_is_measured() -> None:
    result = await measure(400, 2, None)
    asked = {f"{kind}{name}" for kind in ("list", "search") for name in FILTERS}
    asked |= {f"search{name} after a change" for name in FILTERS}
    assert asked <= result.keys()
    assert all(value > 0 for times in result.values() for value in times.values())
    assert all(name in table(result) for name in asked)
