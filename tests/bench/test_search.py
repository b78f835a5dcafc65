"""The benchmark of searches runs on a small scale."""

from __future__ import annotations

from bench.search import Texts, measure, table
from tests.lanes import LONG


def test_generated_texts_are_the_same_every_time() -> None:
    first, second = Texts().entries(30), Texts().entries(30)
    assert first == second
    assert len({entry.id for entry in first}) == 30


@LONG
async def test_every_ratio_is_measured() -> None:
    result = await measure(60, queries=2)
    assert [ratio.aim for ratio in result["ratios"]] == [
        "at most 1.5",
        "at most 1.5",
        "at most 10",
        "below 2",
        "about 1",
    ]
    assert all(ratio.value > 0 for ratio in result["ratios"])
    assert "600 items: hybrid" in table(result)
