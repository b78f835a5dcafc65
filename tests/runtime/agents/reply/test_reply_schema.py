"""The schema and the instructions of replies agree with what is read."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from jsonschema import Draft202012Validator

from runtime.agents.reply.instructions import reply_instructions, tool_list
from runtime.agents.reply.reading import read_reply
from runtime.agents.reply.reply_schema import reply_schema
from runtime.models.request import Reply, ToolSchema
from runtime.tools import TOOLS as TABLE
from tests.lanes import examples
from tests.runtime.agents.reply.generated import MEANT, Meant
from tests.runtime.agents.reply.toolset import TOOLS

ALL = tuple(ToolSchema(name.replace(".", "_"), tool.doc, tool.schema) for name, tool in TABLE.items())


@settings(max_examples=examples(200))
@given(MEANT)
def test_every_reply_that_can_be_meant_is_valid(meant: Meant) -> None:
    Draft202012Validator(reply_schema(TOOLS)).validate(meant.value())


@pytest.mark.parametrize(
    "value",
    [
        {"messages": []},
        {"messages": ["a"], "tool_calls": [], "more": 1},
        {"messages": "a", "tool_calls": []},
        {"messages": [], "tool_calls": [{"name": "unknown", "args": {}}]},
        {"messages": [], "tool_calls": [{"name": "done"}]},
        {"messages": [], "tool_calls": [{"name": "done", "args": {"why": "so"}}]},
        {"messages": [], "tool_calls": [{"name": "memory_append", "args": {"label": "human"}}]},
        {"messages": [], "tool_calls": [{"name": "archival_search", "args": {"query": "a", "limit": "5"}}]},
    ],
)
def test_other_replies_are_not(value: Any) -> None:
    assert not Draft202012Validator(reply_schema(TOOLS)).is_valid(value)


def test_a_reply_without_tools_has_messages_only() -> None:
    validator = Draft202012Validator(reply_schema(()))
    assert validator.is_valid({"messages": ["Hello."]})
    assert not validator.is_valid({"messages": ["Hello."], "tool_calls": []})
    assert "tool" not in reply_instructions(())


def test_the_schema_of_all_tools_is_valid_and_bounded() -> None:
    schema = reply_schema(ALL)
    Draft202012Validator.check_schema(schema)
    assert '"$ref"' not in json.dumps(schema)
    for limit in (24_000, 5_000, 500, 0):
        bounded = reply_schema(ALL, limit)
        Draft202012Validator.check_schema(bounded)
        assert len(json.dumps(bounded)) < limit + 200 * len(ALL)


def test_the_largest_arguments_become_open_first() -> None:
    validator = Draft202012Validator(reply_schema(TOOLS, 500))
    small = {"messages": [], "tool_calls": [{"name": "done", "args": {"why": "so"}}]}
    large = {"messages": [], "tool_calls": [{"name": "set_lights", "args": {"colour": "red"}}]}
    assert not validator.is_valid(small)
    assert validator.is_valid(large)


def test_the_example_of_the_instructions_is_a_valid_reply() -> None:
    wrong = []
    for tools in (TOOLS, ALL, TOOLS[-1:], *((tool,) for tool in ALL)):
        example = next(line for line in reply_instructions(tools).splitlines() if line.startswith("{"))
        reading = read_reply(Reply(text=example), tools)
        valid = Draft202012Validator(reply_schema(tools)).is_valid(json.loads(example))
        if not valid or (reading.rung, len(reading.calls)) != ("strict", 1):
            wrong.append(example)
    assert not wrong


def test_tools_are_listed_with_their_types() -> None:
    assert tool_list(TOOLS[3:5]) == (
        "- archival_search(query, tags?: list of string, limit?: integer): Search.\n- web-fetch(url): Fetch a page."
    )


def test_an_enumeration_is_listed_with_its_values() -> None:
    parameters = {"type": "object", "properties": {"mode": {"enum": ["auto", "fast"]}}}
    assert tool_list([ToolSchema("go", "Go.\nFar.", parameters)]) == '- go(mode?: "auto" | "fast"): Go.'
    assert msgspec.json.encode(reply_schema((ToolSchema("go", "Go.", parameters),)))
