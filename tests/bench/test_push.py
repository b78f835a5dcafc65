"""The benchmark of pushes runs on a small scale."""

from __future__ import annotations

from bench.push import measure, table


async def test_a_push_is_set_beside_bare_inserts_of_its_rows() -> None:
    result = await measure(60, rounds=1)
    assert result["chunks"] == 60
    assert all(seconds > 0 for seconds in result["seconds"].values())
    assert [ratio.aim for ratio in result["ratios"][:2]] == ["at most 2", "at most 2"]
    assert "60 chunks" in table(result)
