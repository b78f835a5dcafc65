"""The benchmark of lists runs on a small scale, and its sides agree."""

from __future__ import annotations

from bench.listing import measure, ratios, table


async def test_every_side_lists_the_same_and_is_measured() -> None:
    result = await measure(items=250)
    assert {what: set(times) for what, times in result.items()} == {
        "newest": {"index", "store", "scan"},
        "by a tag": {"index", "store", "scan"},
    }
    assert len(ratios(result)) == 4
    assert "by a tag: scan / index" in table(result)
