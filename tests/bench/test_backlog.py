"""The benchmark of searches during embedding runs on a small scale."""

from __future__ import annotations

from bench.backlog import QUESTIONS, measure


async def test_searches_are_measured_with_and_without_a_backlog() -> None:
    result = await measure(200, "hashing", rounds=1)
    rows, (ratio,) = result["rows_ms"], result["ratios"]
    assert rows["idle"]["searches"] == QUESTIONS
    assert rows["during"]["searches"] > 0
    assert ratio.value > 0
