"""The benchmark of the key-value store runs on a small scale."""

from __future__ import annotations

from bench.tables.kv import measure, table


async def test_sets_and_gets_are_set_beside_bare_sqlite() -> None:
    result = await measure(20, turns=1)
    assert all(milliseconds > 0 for milliseconds in result["milliseconds"].values())
    assert "a second, 50 clients at once" in table(result)
