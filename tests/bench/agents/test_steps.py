"""The measurement of steps measures what it says."""

from __future__ import annotations

from bench.agents.steps import STEPS, measure, table
from bench.harness.scripted_model import SUMMARY, reply
from tests.lanes import LONG


@LONG
def test_steps_of_both_threads_and_conversations_are_measured() -> None:
    result = measure(messages=40, turns=1, number=64, each=1)
    assert [name.partition(",")[0] for name in result["milliseconds"]] == ["first step", "step"] * 2
    assert all(row["own"] > 0 and row["processor"] > 0 for row in result["milliseconds"].values())
    assert (result["talks"].sent, result["talks"].answered_once) == (64, 64)
    assert "64 conversations at once: 64 messages, 64 answered once" in table(result)


def test_the_model_calls_a_tool_in_each_step_but_the_last_one() -> None:
    asked = [{"role": "system", "content": "You help."}, {"role": "user", "content": "Tea?"}]
    replies = []
    for _ in range(STEPS):
        replies.append(reply({"messages": asked}, STEPS))
        asked += [{"role": "assistant", "content": replies[-1]}, {"role": "user", "content": "<tool_output>"}]
    assert ["memory_list" in each for each in replies] == [True] * (STEPS - 1) + [False]
    summarizing = [{"role": "system", "content": "You keep the summary."}, {"role": "user", "content": "Tea."}]
    assert reply({"messages": summarizing}, STEPS) == SUMMARY
