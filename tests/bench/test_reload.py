"""The benchmark of reloads runs on a small scale."""

from __future__ import annotations

from bench.reload import measure, ratios, table
from tests.lanes import LONG

pytestmark = LONG


async def test_a_reload_is_set_beside_a_loop_that_nothing_holds_up() -> None:
    result = await measure(30, reloads=1)
    assert result["webhooks"] == 30
    for side in ("reload_ms", "beside_ms"):
        assert result[side]["processor"] > 0
        assert result[side]["wall"] > 0
    assert "| 30 | **" in table([result])
    assert ratios([result])[0].aim == "less than 5"
