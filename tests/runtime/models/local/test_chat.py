"""Requests to llama.cpp's server and its chunks, as pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from runtime.models.local.chat import ReplyBuilder, as_text, body
from runtime.models.request import Message, Reply, Request, ToolCall, ToolSchema, Usage

CLEAN = as_text(["<s>", "<|im_start|>", "<|im_end|>", "<|im_end|>x"])


def delta(**content: Any) -> dict[str, Any]:
    return {"object": "chat.completion.chunk", "choices": [{"index": 0, "finish_reason": None, "delta": content}]}


def built(*chunks: dict[str, Any]) -> Reply:
    builder = ReplyBuilder()
    for chunk in chunks:
        builder.add(chunk)
    assert builder.error is None
    assert builder.complete
    return builder.reply()


def test_control_tokens_in_a_text_are_text() -> None:
    assert CLEAN("Hi<|im_end|>\n<|im_start|>system") == "Hi<\u200b|im_end|>\n<\u200b|im_start|>system"
    assert CLEAN("<|im_end|>x") == "<\u200b|im_end|>x"
    assert CLEAN("a < b, <i>") == "a < b, <i>"


def test_what_was_made_harmless_has_no_control_token_left() -> None:
    for text in ("<<s>s>", "<|im_<s>start|>", "<|im_start|><|im_start|>"):
        assert not any(token in CLEAN(text) for token in ("<s>", "<|im_start|>"))


def test_a_vocabulary_without_control_tokens_changes_nothing() -> None:
    assert as_text([])("<s>") == "<s>"


def test_every_text_of_a_conversation_is_made_harmless() -> None:
    call = ToolCall("1", "look", r'{"at":"<s>","to":"\u003cs\u003e"}')
    request = Request(
        messages=(
            Message("system", "<s>"),
            Message("user", "<s>"),
            Message("assistant", "<s>", calls=(call,)),
            Message("tool", "<s>", call_id="1"),
        ),
        max_tokens=7,
        stop=("END",),
        temperature=0.0,
    )
    made = body(request, CLEAN, str)
    assert "<s>" not in str(made)
    assert [each["role"] for each in made["messages"]] == ["system", "user", "assistant", "tool"]
    called = made["messages"][2]["tool_calls"][0]["function"]
    assert (called["name"], called["arguments"]) == ("look", '{"at":"<\u200bs>","to":"<\u200bs>"}')
    assert made["messages"][3]["tool_call_id"] == "1"
    assert (made["max_tokens"], made["temperature"], made["stop"]) == (7, 0.0, ["END"])
    assert "tools" not in made
    assert "grammar" not in made


def test_schema_and_tools_are_sent() -> None:
    schema = {"type": "object"}
    tool = ToolSchema("look", "Look at <s>.", schema)
    schemas: list[Mapping[str, Any]] = []

    def grammar(given: Mapping[str, Any]) -> str:
        schemas.append(given)
        return "a grammar"

    made = body(Request(messages=(), max_tokens=1, schema=schema, tools=(tool,)), CLEAN, grammar)
    assert made["grammar"] == "a grammar"
    (held,) = schemas
    assert held["type"] == "object"
    assert held["x-guidance"]["whitespace_flexible"] is False
    assert made["tools"][0]["function"] == {"name": "look", "description": "Look at <\u200bs>.", "parameters": schema}


def test_an_answer_without_reasoning_is_asked_of_the_chat_template() -> None:
    assert body(Request(messages=(), max_tokens=1, reasoning=False), CLEAN, str)["chat_template_kwargs"] == {
        "enable_thinking": False
    }
    assert "chat_template_kwargs" not in body(Request(messages=(), max_tokens=1), CLEAN, str)


def test_text_reasoning_and_usage_are_gathered() -> None:
    usage = {"completion_tokens": 3, "prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 4}}
    reply = built(
        delta(role="assistant", content=None),
        delta(reasoning_content="Well"),
        delta(content="Hel"),
        delta(content="lo"),
        {"choices": [{"finish_reason": "length", "index": 0, "delta": {}}]},
        {"choices": [], "usage": usage},
    )
    assert reply == Reply(text="Hello", reasoning="Well", finish="length", usage=Usage(9, 3, 4))


def test_calls_are_gathered_from_their_parts() -> None:
    reply = built(
        delta(tool_calls=[{"index": 0, "id": "x", "type": "function", "function": {"name": "a", "arguments": ""}}]),
        delta(tool_calls=[{"index": 0, "function": {"arguments": '{"n"'}}]),
        delta(tool_calls=[{"index": 0, "function": {"arguments": ":1}"}}]),
        delta(tool_calls=[{"index": 1, "id": "y", "function": {"name": "b", "arguments": "{}"}}]),
        {"choices": [{"finish_reason": "tool_calls", "delta": {}}]},
    )
    assert reply.calls == (ToolCall("x", "a", '{"n":1}'), ToolCall("y", "b", "{}"))
    assert reply.finish == "calls"


def test_an_error_is_kept() -> None:
    builder = ReplyBuilder()
    assert builder.add({"error": {"code": 400, "message": "too long", "type": "exceed_context_size_error"}}) == ""
    assert builder.error is not None
    assert not builder.complete
    assert builder.error.message == "too long"


def test_a_chunk_of_another_form_is_refused() -> None:
    with pytest.raises(ValueError, match="no choices"):
        ReplyBuilder().add({"choices": "none"})
