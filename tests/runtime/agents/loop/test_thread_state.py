"""The entries of a thread follow its messages, however these arrive."""

from __future__ import annotations

import pytest

from runtime.agents.loop.thread_state import ThreadState
from runtime.agents.loop.transcript import entries_of
from runtime.database.connection import Database
from runtime.threads.content import EventPart, TextPart, ToolCallPart, ToolOutputPart
from runtime.threads.messages import Message, Messages, NewMessage
from runtime.threads.run_log import RunLog
from runtime.threads.summaries import Summaries
from runtime.threads.thread import Threads
from tests.clocks import ManualClock

OTHERS = 3


def call(number: int) -> ToolCallPart:
    return ToolCallPart(f"c{number}", "search", "{}")


def output(number: int) -> ToolOutputPart:
    return ToolOutputPart(f"c{number}", "search", f"found {number}", "ok")


def messages() -> list[tuple[str, NewMessage]]:
    """Return the messages of a run with three steps and the event of its end, with a turn of another run in the middle
    of a step."""
    own = [
        NewMessage(role="user", parts=(TextPart("What is there?"),), tokens=5, key="input"),
        NewMessage(role="assistant", kind="reasoning", parts=(TextPart("Hm."),), tokens=5, key="1/reasoning"),
        NewMessage(role="assistant", parts=(TextPart("I look."),), tokens=5, key="1/message"),
        NewMessage(role="assistant", kind="tool_call", parts=(call(1), call(2)), tokens=5, key="1/calls"),
        NewMessage(role="system", kind="event", parts=(EventPart("run_cancelled", "Another."),), tokens=5),
        NewMessage(role="tool", kind="tool_output", parts=(output(1),), tokens=5, key="1/output/0"),
        NewMessage(role="tool", kind="tool_output", parts=(output(2),), tokens=5, key="1/output/1"),
        NewMessage(role="assistant", kind="reasoning", parts=(TextPart("So."),), tokens=5, key="2/reasoning"),
        NewMessage(role="assistant", parts=(TextPart("Tea."),), tokens=5, key="2/message"),
        NewMessage(role="assistant", kind="tool_call", parts=(call(3), call(4)), tokens=5, key="3/calls"),
        NewMessage(role="tool", kind="tool_output", parts=(output(3),), tokens=5, key="3/output/0"),
        NewMessage(role="tool", kind="tool_output", parts=(output(4),), tokens=5, key="3/output/1"),
        NewMessage(
            role="system", kind="event", parts=(EventPart("run_cancelled", "Cancelled."),), tokens=5, key="ended"
        ),
    ]
    others = [NewMessage(role="user", parts=(TextPart(f"{number}."),), tokens=5) for number in range(OTHERS)]
    place = next(place for place, each in enumerate(own) if each.key == "3/output/1")
    told = [("run", each) for each in own]
    return [*told[:place], *(("other", each) for each in others), *told[place:]]


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("at_once", [1, 2, 3, 9])
async def test_entries_do_not_depend_on_how_many_messages_are_added_at_once(
    database: Database, clock: ManualClock, native: bool, at_once: int
) -> None:
    thread = await Threads(database, clock).main("owner", "helper")
    store = Messages(database, clock)
    state = ThreadState(thread, store, Summaries(database, clock), RunLog(database, clock, "run", 1), native=native)
    await state.load()
    all_of_them: list[Message] = []
    new = messages()
    for begin in range(0, len(new), at_once):
        stored = [
            message
            for run_id, each in new[begin : begin + at_once]
            for message in await store.append(thread, [each], run_id=run_id)
        ]
        all_of_them += stored
        state.add(stored)
        # A repetition changes nothing.
        state.add(stored)
        assert state.entries == tuple(entries_of(all_of_them, native=native, own="run"))
