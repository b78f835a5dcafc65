"""The benchmark of restarts runs on a small scale."""

from __future__ import annotations

from bench.restart import measure, table
from tests.lanes import LONG


@LONG
async def test_a_start_on_many_chunks_is_set_beside_one_on_a_single_chunk() -> None:
    result = await measure(60, starts=1)
    assert result["chunks"] == 60
    assert all(value > 0 for row in result["rows"].values() for value in row)
    assert "| 60 chunks | one |" in table(result)
