"""The benchmark of the model local runs on a small scale."""

from __future__ import annotations

from bench.models.local import measure, table
from tests.lanes import LONG
from tests.runtime.models.local.gguf import small_model, workers


@LONG
async def test_every_ratio_of_the_local_model_is_measured() -> None:
    file = small_model()
    assert workers() == []
    result = await measure(file, rounds=1, threads=1, read=60, write=5)
    assert len(result["ratios"]) == 6
    assert result["alone"]["worker_own_mb"] > 10
    assert "| model local |" in table(result)
