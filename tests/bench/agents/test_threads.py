"""The measurement of recall over very many threads runs on a small scale."""

from __future__ import annotations

from bench.agents.threads import FIRST, LOOKS, MEMORY, SINCE_CHANGE, measure, table
from tests.lanes import LONG


@LONG
async def test_every_look_is_measured_for_many_threads_and_for_a_tenth() -> None:
    result = await measure(640, 200, rounds=1)
    assert list(result.many) == list(result.tenth) == [*LOOKS, MEMORY]
    assert list(result.first_search) == [FIRST, MEMORY]
    for measured in (result.many, result.tenth, result.first_search):
        assert all(value > 0 for value in measured.values())
    assert len(result.ratios) == len(SINCE_CHANGE)
    assert all(row in table(result) for row in (*LOOKS, MEMORY, FIRST))
