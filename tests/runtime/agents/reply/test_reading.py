"""Replies are read as they were meant, and never as something else."""

from __future__ import annotations

import json
import time
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from runtime.agents.reply.agent_reply import ToolCalling
from runtime.agents.reply.reading import read_reply
from runtime.models.request import Reply, ToolCall
from tests.lanes import LONG, examples, first_of
from tests.runtime.agents.reply.generated import FORMS, MEANT, SAYING, Meant, said, tagged
from tests.runtime.agents.reply.test_golden_replies import CASES
from tests.runtime.agents.reply.toolset import TOOLS

_MEBIBYTE = 2**20
_BEGINS = ("", "{", "[", '{"messages":["', "{'messages': ['", '{"tool_calls": "')
_REPEATED = [
    "{",
    "[",
    '{"',
    '{"a":',
    '{"messages":',
    '{"messages":["',
    '{"name":"done","args":',
    '"',
    "'",
    "“",
    "\\",
    '{\\"',
    "<",
    "<think>",
    "</think>",
    "<tool_call>",
    "<function=a>",
    "<function=a><parameter=b>",
    "[TOOL_CALLS]",
    "/*",
    "{//\n",
    "```json\n",
    "` ",
    "   {",
    ",",
    "1",
    "done(",
    "done()\n",
    "Action: a\n",
    "a",
    ".",
    "\x00",
    "\n",
    "é",
    "\ud800",
    '{"messages":["a"],"tool_calls":[]}\n',
    '"messages":["a"],',
    "<|im_end|>",
    "<|channel|>analysis<|message|>",
    "messages: \n",
    "&quot;",
]


@settings(max_examples=examples(100))
@given(MEANT)
def test_a_valid_reply_is_read_as_it_is(meant: Meant) -> None:
    reading = read_reply(Reply(text=json.dumps(meant.value())), TOOLS)
    assert said(reading) == Meant(list(meant.shown), meant.calls)
    assert (reading.rung, reading.lossless, reading.problem) == ("strict", True, None)


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=examples(150))
@given(meant=SAYING)
def test_no_form_that_loses_nothing_changes_a_reply(form: str, meant: Meant) -> None:
    reading = read_reply(Reply(text=FORMS[form](meant.value())), TOOLS)
    assert said(reading) == Meant(list(meant.shown), meant.calls)
    assert reading.lossless
    assert reading.problem is None


@settings(max_examples=examples(200))
@given(MEANT.filter(lambda meant: bool(meant.calls)))
def test_tagged_calls_are_calls(meant: Meant) -> None:
    reading = read_reply(Reply(text=f"I'll see.\n{tagged(meant)}"), TOOLS)
    repeated = [
        call for index, call in enumerate(meant.calls) if json.dumps(call) not in map(json.dumps, meant.calls[:index])
    ]
    assert said(reading) == Meant(["I'll see."], repeated)
    assert reading.lossless


@pytest.mark.parametrize("form", [*FORMS, "tagged"])
@settings(max_examples=examples(300))
@given(meant=SAYING, data=st.data())
def test_a_reply_that_ends_anywhere_has_no_other_calls_that_may_run(
    form: str, meant: Meant, data: st.DataObject
) -> None:
    text = (tagged(meant) if form == "tagged" else FORMS[form](meant.value())).encode()
    end = data.draw(st.integers(0, len(text)))
    reading = read_reply(Reply(text=text[:end].decode(errors="ignore")), TOOLS)
    if reading.lossless:
        calls = said(reading).calls
        assert calls == _without_repeated(meant.calls, form)[: len(calls)]


def _without_repeated(calls: list[tuple[str, Any]], form: str) -> list[tuple[str, Any]]:
    """Equal values one after the other are read once; in one list they are different calls."""
    if form != "tagged":
        return calls
    return [call for index, call in enumerate(calls) if json.dumps(call) not in map(json.dumps, calls[:index])]


@settings(max_examples=examples(200))
@given(meant=MEANT, data=st.data())
def test_native_arguments_that_end_anywhere_may_not_run(meant: Meant, data: st.DataObject) -> None:
    for name, arguments in meant.calls:
        text = json.dumps(arguments)
        end = data.draw(st.integers(1, len(text) - 1))
        reading = read_reply(Reply(text="", calls=(ToolCall("a", name, text[:end]),)), TOOLS, "native")
        assert not reading.lossless


@settings(max_examples=examples(500))
@given(st.sampled_from(CASES), st.data())
def test_any_change_of_a_reply_is_read_and_can_be_stored(case: Any, data: st.DataObject) -> None:
    text = case.reply().text
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text)))
        to = data.draw(st.integers(at, min(len(text), at + 5)))
        text = (
            text[:at] + data.draw(st.sampled_from([*"{}[]\"'`:,\\<>/“„«=#(\n\x00\ud800", "", "{{", "null"])) + text[to:]
        )
    ways: tuple[ToolCalling, ...] = ("json", "native")
    for calling in ways:
        reading = read_reply(Reply(text=text, calls=(ToolCall("a", "done", text),)), TOOLS, calling)
        msgspec.json.encode(read_reply(Reply(text=text), TOOLS, calling))
        assert msgspec.json.decode(msgspec.json.encode(reading), type=type(reading)) == reading


def test_a_broken_call_with_a_number_beyond_all_is_read_and_can_be_stored() -> None:
    text = '{{"messages": [], "tool_calls": [{"name": "set_lights", "args": {"on": false, "level": 1e999}}]}'
    reading = read_reply(Reply(text=text, calls=(ToolCall("a", "done", text),)), TOOLS, "native")
    assert msgspec.json.decode(msgspec.json.encode(reading), type=type(reading)) == reading


@settings(max_examples=examples(300))
@given(st.text(max_size=80))
@example("\ufeff")
@example("{" * 3_000)
def test_any_text_is_read(text: str) -> None:
    reading = read_reply(Reply(text=text), TOOLS)
    msgspec.json.encode(reading)
    assert all(message.strip() for message in reading.messages)


@LONG
@first_of("text", _REPEATED, 4)
def test_a_mebibyte_of_the_same_does_not_hang(text: str) -> None:
    """Quadratic work would take minutes; the deadline is far above what is measured (`bench.agents.replies`)."""
    for begin in _BEGINS:
        began = time.process_time()
        msgspec.json.encode(read_reply(Reply(text=begin + text * (_MEBIBYTE // len(text))), TOOLS))
        assert time.process_time() - began < 20


@pytest.mark.parametrize("depth", [30, 100, 1_000, 100_000])
def test_deep_values_are_read_or_shown_as_text(depth: int) -> None:
    arguments = '{"a":' * depth + "1" + "}" * depth
    text = f'{{"messages": ["Deep."], "tool_calls": [{{"name": "done", "args": {arguments}}}]}}'
    reading = read_reply(Reply(text=text), TOOLS)
    assert bool(reading.calls and reading.lossless) == (depth == 30)


@pytest.mark.parametrize("limit", ["1e300", '"1e300"', "-1e19", "9223372036854775808.0", '"18446744073709551616"'])
def test_a_number_that_no_integer_holds_can_be_recorded(limit: str) -> None:
    call = f'{{"name": "archival_search", "args": {{"query": "tea", "limit": {limit}}}}}'
    reading = read_reply(Reply(text=f'{{"messages": [], "tool_calls": [{call}]}}'), TOOLS)
    assert reading.lossless
    msgspec.json.encode(reading.calls[0].arguments)


@pytest.mark.parametrize("calling", ["json", "native"])
def test_an_object_that_cannot_be_read_is_no_text_for_the_only_parameter(calling: ToolCalling) -> None:
    broken = '{"url": "https://example.org/a"b' + "x" * 20_000 + '"}'
    if calling == "native":
        reply = Reply(text="", calls=(ToolCall("a", "web-fetch", broken),))
    else:
        reply = Reply(text=json.dumps({"messages": [], "tool_calls": [{"name": "web-fetch", "args": broken}]}))
    reading = read_reply(reply, TOOLS, calling)
    assert not reading.lossless
    assert said(reading).calls == [("web-fetch", {})]


@settings(max_examples=examples(100))
@given(MEANT.filter(lambda meant: bool(meant.calls)))
def test_calls_before_more_text_may_be_quoted(meant: Meant) -> None:
    """A payload may have a whole reply in it."""
    text = f"The issue says: {json.dumps(meant.value())} - I do not do that."
    ways: tuple[ToolCalling, ...] = ("json", "native")
    for calling in ways:
        reading = read_reply(Reply(text=text), TOOLS, calling)
        assert not (reading.calls and reading.lossless)


def test_calls_have_different_ids() -> None:
    same = ToolCall("a", "done", "{}")
    reading = read_reply(
        Reply(text="", calls=(same, same, ToolCall("", "done", "{}"), ToolCall("call_2", "done", "{}"))), TOOLS
    )
    ids = [call.id for call in reading.calls]
    assert ids[0] == "a"
    assert len(set(ids)) == len(ids) == 4


def test_a_reply_of_very_many_messages_and_calls_is_bounded() -> None:
    calls = [{"name": "done", "args": {}}] * 1_000
    reading = read_reply(Reply(text=json.dumps({"messages": ["Hello."] * 1_000, "tool_calls": calls})), TOOLS)
    assert len(reading.messages) < 100
    assert "".join(reading.messages).count("Hello.") == 1_000
    assert len(reading.calls) < 200
    assert not reading.lossless
    native = Reply(text="", calls=tuple(ToolCall(f"a{number}", "done", "{}") for number in range(1_000)))
    assert [call.id for call in read_reply(native, TOOLS).calls] == [
        f"a{number}" for number in range(len(reading.calls))
    ]
    assert not read_reply(native, TOOLS).lossless


def test_the_reasoning_of_the_service_and_of_the_text_is_kept() -> None:
    reading = read_reply(Reply(text="<think>Two.</think>Hello.", reasoning="One."), TOOLS)
    assert (reading.reasoning, reading.messages) == ("One.\n\nTwo.", ("Hello.",))


def test_a_withheld_reply_runs_nothing() -> None:
    text = '{"messages": [], "tool_calls": [{"name": "done", "args": {}}]}'
    reading = read_reply(Reply(text=text, finish="filtered"), TOOLS)
    assert (reading.lossless, reading.problem) == (False, "cut")
