"""The measurement of chats measures what it says."""

from __future__ import annotations

import pytest

from bench.agents.chat import measure, table
from tests.lanes import LONG


@LONG
@pytest.mark.filterwarnings("ignore:Bare functions are deprecated:DeprecationWarning")
def test_the_loop_and_both_forms_of_a_chat_are_measured_side_by_side() -> None:
    result = measure(number=3)
    middle = result["milliseconds"]
    assert list(middle) == ["loop", "stream", "json", "events"]
    assert all(value > 0 for value in middle.values())
    assert middle["events"] < middle["loop"]
    assert "stream - loop, ms at p50" in table(result)
