"""The contract of tool calls: a model that writes JSON, and one that uses its own calls, are read alike."""

from __future__ import annotations

import json
from typing import Any

import pytest

from runtime.agents.reply.agent_reply import AgentReply, ToolCalling
from runtime.agents.reply.reading import read_reply
from runtime.models.request import Finish, Reply, ToolCall
from tests.runtime.agents.reply.toolset import TOOLS

Calls = list[tuple[str, str]]


@pytest.fixture(params=["json", "native"])
def calling(request: pytest.FixtureRequest) -> ToolCalling:
    """Every way to call tools."""
    found: ToolCalling = request.param
    return found


def _read(calling: ToolCalling, text: str, calls: Calls, finish: Finish = "stop") -> AgentReply:
    """Read a reply with one message and calls, whose arguments are texts."""
    if calling == "native":
        native = tuple(ToolCall(f"id{index}", name, arguments) for index, (name, arguments) in enumerate(calls))
        return read_reply(Reply(text=text, calls=native, finish=finish), TOOLS, calling)
    written = ", ".join(f'{{"name": {json.dumps(name)}, "args": {arguments or "{}"}}}' for name, arguments in calls)
    value = f'{{"messages": {json.dumps([text] if text else [])}, "tool_calls": [{written}]}}'
    return read_reply(Reply(text=value, finish=finish), TOOLS, calling)


def _said(reading: AgentReply) -> tuple[tuple[str, ...], list[tuple[str, dict[str, Any]]]]:
    return reading.messages, [(call.name, call.arguments) for call in reading.calls]


def test_a_text_is_a_message(calling: ToolCalling) -> None:
    reading = _read(calling, "Hello.", [])
    assert _said(reading) == (("Hello.",), [])
    assert reading.lossless


def test_a_text_and_calls_are_both_read_in_their_order(calling: ToolCalling) -> None:
    reading = _read(calling, "I look.", [("archival_search", '{"query": "tea"}'), ("done", "{}")])
    assert _said(reading) == (("I look.",), [("archival_search", {"query": "tea"}), ("done", {})])
    assert reading.lossless
    assert reading.rung == "strict"


def test_equal_calls_are_two_calls(calling: ToolCalling) -> None:
    reading = _read(calling, "", [("archival_insert", '{"content": "tea"}')] * 2)
    assert len(reading.calls) == 2
    assert reading.calls[0].id != reading.calls[1].id


@pytest.mark.parametrize(
    ("arguments", "read"),
    [
        ('{"query": "tea", "limit": "5"}', {"query": "tea", "limit": 5}),
        ('{"query": 5, "tags": "tea"}', {"query": "5", "tags": ["tea"]}),
        ("{'query': 'tea',}", {"query": "tea"}),
        ("{“query”: “tea”}", {"query": "tea"}),
        ('"{\\"query\\": \\"tea\\"}"', {"query": "tea"}),
        ('{"query": "a\nb"}', {"query": "a\nb"}),
        ('{"query": "tea", "unknown": {"a": [1]}}', {"query": "tea", "unknown": {"a": [1]}}),
    ],
)
def test_arguments_are_read_without_a_loss(calling: ToolCalling, arguments: str, read: dict[str, Any]) -> None:
    reading = _read(calling, "", [("archival_search", arguments)])
    assert _said(reading) == ((), [("archival_search", read)])
    assert reading.lossless
    assert reading.problem is None


@pytest.mark.parametrize(
    "arguments",
    [
        '{"content": "He said "tea"."}',
        '{"content": "tea", "content": "coffee"}',
        '{"content": NaN}',
        '["tea"]',
        '"tea"',
        '{"content" "tea"}',
    ],
)
def test_a_guessed_call_may_not_run(calling: ToolCalling, arguments: str) -> None:
    reading = _read(calling, "", [("archival_insert", arguments)])
    assert not reading.lossless
    assert reading.problem == "malformed"


def test_a_reply_that_was_cut_off_may_not_run(calling: ToolCalling) -> None:
    reading = _read(calling, "", [("done", "{}")], finish="length")
    assert (reading.lossless, reading.problem) == (False, "cut")


def test_a_call_without_arguments_has_none(calling: ToolCalling) -> None:
    for arguments in ("", "null", "{}"):
        reading = _read(calling, "", [("done", arguments)])
        assert _said(reading) == ((), [("done", {})])
        assert reading.lossless


def test_a_name_that_no_tool_has_stays_as_it_is(calling: ToolCalling) -> None:
    reading = _read(calling, "", [("archival_search", '{"query": "tea"}'), ("web_fetch", '{"url": "a"}')])
    assert [call.name for call in reading.calls] == ["archival_search", "web_fetch"]
    assert reading.lossless


def test_reasoning_is_neither_a_message_nor_a_call(calling: ToolCalling) -> None:
    draft = '<think>{"messages": ["no"], "tool_calls": [{"name": "done", "args": {}}]}</think>'
    answer = "Hello." if calling == "native" else '{"messages": ["Hello."], "tool_calls": []}'
    reading = read_reply(Reply(text=f"{draft}\n{answer}"), TOOLS, calling)
    assert _said(reading) == (("Hello.",), [])
    assert reading.reasoning == draft.removeprefix("<think>").removesuffix("</think>")


def test_a_call_in_the_marks_of_a_template_is_a_call(calling: ToolCalling) -> None:
    text = 'I look.\n<tool_call>\n{"name": "archival_search", "arguments": {"query": "tea"}}\n</tool_call>'
    reading = read_reply(Reply(text=text), TOOLS, calling)
    assert _said(reading) == (("I look.",), [("archival_search", {"query": "tea"})])
    assert reading.lossless


def test_a_reply_of_nothing_is_empty(calling: ToolCalling) -> None:
    assert read_reply(Reply(text=" \n"), TOOLS, calling).problem == "empty"
