"""Messages of a thread as a model reads them: every call has an output, and services accept them."""

from __future__ import annotations

import re

import pytest

from runtime.agents.context.fields import Entry
from runtime.agents.loop.transcript import entries_of
from runtime.threads.content import EventPart, MessageKind, Part, Role, TextPart, ToolCallPart, ToolOutputPart
from runtime.threads.messages import Message

ACCEPTED = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def message(position: int, role: Role, kind: MessageKind, *parts: Part, key: str, run_id: str = "r") -> Message:
    return Message(
        id=str(position),
        thread_id="t",
        user_id="u",
        position=position,
        role=role,
        kind=kind,
        parts=parts,
        tokens=1,
        run_id=run_id,
        key=key,
        created_at=0,
    )


def read(*calls: ToolCallPart, native: bool, outputs: tuple[ToolOutputPart, ...] = ()) -> list[Entry]:
    """Return the entries of a turn that was cancelled after these calls."""
    found = [message(2 + at, "tool", "tool_output", each, key=f"1/output/{at}") for at, each in enumerate(outputs)]
    end = message(9, "system", "event", EventPart("run_cancelled", "The turn was cancelled."), key="ended at 1")
    begin = message(0, "user", "message", TextPart("Go."), key="input")
    called = message(1, "assistant", "tool_call", *calls, key="1/calls")
    return entries_of([begin, called, *found, end], native=native)


@pytest.mark.parametrize("native", [False, True])
def test_a_call_without_an_output_may_have_happened(native: bool) -> None:
    calls = (ToolCallPart("a", "memory_append", "{}"), ToolCallPart("b", "webhook_create", "{}"))
    _, called, output, missing, event = read(
        *calls, native=native, outputs=(ToolOutputPart("a", "memory_append", "1"),)
    )
    assert {called.group, output.group, missing.group} == {1}
    assert "cancelled" in event.text
    assert "not known whether it happened" in missing.text
    assert ("status: unknown" if native else '<tool_output name="webhook_create" status="unknown">') in missing.text
    assert missing.call_id == ("b" if native else None)


@pytest.mark.parametrize("native", [False, True])
def test_the_call_that_ends_a_turn_did_what_it_should(native: bool) -> None:
    found = read(ToolCallPart("a", "done", "{}"), native=native)
    assert not any("unknown" in each.text for each in found)
    # Services refuse a call without an output.
    assert [each.call_id for each in found if each.role == "tool"] == (["a"] if native else [])


@pytest.mark.parametrize("name", ["multi_tool_use.parallel", "x" * 100, "", "Erinnere dich", "a\nb"])
def test_an_invented_name_is_accepted_by_services_that_made_it(name: str) -> None:
    [_, called, *_] = read(ToolCallPart("a", name, "{}"), native=True)
    assert [bool(ACCEPTED.fullmatch(call.name)) for call in called.calls] == [True]
    [_, written, *_] = read(ToolCallPart("a", name, "{}"), native=False)
    assert "tool_calls" in written.text


@pytest.mark.parametrize("native", [False, True])
def test_the_end_of_another_run_does_not_part_a_call_from_its_output(native: bool) -> None:
    found = entries_of(
        [
            message(0, "user", "message", TextPart("Go."), key="input"),
            message(1, "assistant", "tool_call", ToolCallPart("c", "search", "{}"), key="1/calls"),
            message(2, "system", "event", EventPart("run_cancelled", "Another turn was cancelled."), key="ended"),
            message(3, "tool", "tool_output", ToolOutputPart("c", "search", "found", "ok"), key="1/output/0"),
        ],
        native=native,
    )
    assert [entry.position for entry in found] == [0, 1, 3, 2]
    assert [entry.group for entry in found] == [0, 1, 1, 2]
    assert "found" in found[2].text
    assert not any("not known whether" in entry.text for entry in found)


def waiting(*later: Message) -> list[Message]:
    """Return a turn with a call that waits, another turn after it, and what came later."""
    call = ToolCallPart("c", "merge", '{"number":5}')
    return [
        message(0, "user", "message", TextPart("Merge it."), key="input"),
        message(1, "assistant", "tool_call", call, key="1/calls"),
        message(2, "user", "message", TextPart("And the weather?"), key="input", run_id="other"),
        message(3, "assistant", "message", TextPart("Sunny."), key="1/message", run_id="other"),
        *later,
    ]


@pytest.mark.parametrize("native", [False, True])
def test_a_call_waits_while_its_run_goes_on_and_its_output_comes_where_it_was_stored(native: bool) -> None:
    during = entries_of(waiting(), native=native, open_runs={"r"})
    merged = ToolOutputPart("c", "merge", "merged", "ok")
    after = entries_of(
        waiting(message(4, "tool", "tool_output", merged, key="1/output/0")), native=native, open_runs={"r"}
    )
    assert "waits for approval" in during[2].text
    assert (during[2].role, during[2].call_id) == ("tool", "c" if native else None)
    # What a model has read stays as it was.
    assert after[:-1] == during
    assert (after[-1].group, after[-1].call_id, after[-1].role) == (4, None, "user" if native else "tool")
    assert "merged" in after[-1].text
    assert '<tool_call name="merge">\n{"number":5}' in after[-1].text
    assert entries_of(waiting(), native=native)[2].text != during[2].text


@pytest.mark.parametrize("native", [False, True])
def test_outputs_that_came_before_other_turns_stay_beside_their_calls(native: bool) -> None:
    calls = (ToolCallPart("a", "search", "{}"), ToolCallPart("b", "merge", "{}"))
    found = entries_of(
        [
            message(0, "assistant", "tool_call", *calls, key="1/calls"),
            message(1, "tool", "tool_output", ToolOutputPart("a", "search", "found", "ok"), key="1/output/0"),
            message(2, "user", "message", TextPart("Hello."), key="input", run_id="other"),
            message(3, "tool", "tool_output", ToolOutputPart("b", "merge", "merged", "ok"), key="1/output/1"),
        ],
        native=native,
    )
    assert [entry.group for entry in found] == [0, 0, 0, 2, 3]
    assert [entry.position for entry in found] == [0, 1, 0, 2, 3]
    assert "found" in found[1].text
    assert "waits for approval" in found[2].text
