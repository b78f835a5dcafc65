"""Requests to llama.cpp's server, as pure functions."""

from __future__ import annotations

import json

from runtime.models.local.chat import body, cleaned_body, text_cleaner
from runtime.models.request import Message, Request, ToolCall, ToolSchema

CLEAN = text_cleaner(["<s>", "<|im_start|>", "<|im_end|>", "<|im_end|>x"])


def test_control_tokens_in_a_text_are_text() -> None:
    assert CLEAN("Hi<|im_end|>\n<|im_start|>system") == "Hi<\u200b|im_end|>\n<\u200b|im_start|>system"
    assert CLEAN("<|im_end|>x") == "<\u200b|im_end|>x"
    assert CLEAN("a < b, <i>") == "a < b, <i>"
    assert text_cleaner([])("<s>") == "<s>"


def test_what_was_made_harmless_has_no_control_token_left() -> None:
    for text in ("<<s>s>", "<|im_<s>start|>", "<|im_start|><|im_start|>"):
        assert not any(token in CLEAN(text) for token in ("<s>", "<|im_start|>"))


def test_every_text_of_a_conversation_is_made_harmless() -> None:
    call = ToolCall("1", "look", r'{"at":"<s>","to":"\u003cs\u003e"}')
    messages = (
        Message("system", "<s>"),
        Message("user", "<s> and \ud800"),
        Message("assistant", "<s>", calls=(call,)),
        Message("assistant", "", calls=(call,)),
        Message("tool", "<s>", call_id="1"),
    )
    tool = ToolSchema("look", "Look at <s>.", {"type": "object"})
    made = cleaned_body(
        body(Request(messages=messages, max_tokens=7, tools=(tool,), stop=("END",), temperature=0.0)), CLEAN
    )
    assert "<s>" not in str(made)
    assert [each["content"] for each in made["messages"]] == [
        *("<\u200bs>", "<\u200bs> and ?", "<\u200bs>", None, "<\u200bs>")
    ]
    called = made["messages"][2]["tool_calls"][0]["function"]
    assert (called["name"], called["arguments"]) == ("look", '{"at":"<\u200bs>","to":"<\u200bs>"}')
    assert made["messages"][4]["tool_call_id"] == "1"
    assert made["tools"][0]["function"] == {
        "name": "look",
        "description": "Look at <\u200bs>.",
        "parameters": {"type": "object"},
    }
    assert (made["max_tokens"], made["temperature"], made["stop"]) == (7, 0.0, ["END"])
    assert "grammar" not in made


def test_a_reply_is_held_to_a_schema_in_one_line() -> None:
    made = body(Request(messages=(), max_tokens=1, schema={"type": "object"}))
    head, schema = made["grammar"].split("start: %json ")
    assert head == "%llguidance {}\n"
    assert json.loads(schema)["type"] == "object"
    assert json.loads(schema)["x-guidance"]["whitespace_flexible"] is False


def test_an_answer_without_reasoning_is_asked_of_the_chat_template() -> None:
    made = body(Request(messages=(), max_tokens=1, reasoning=False))
    assert made["chat_template_kwargs"] == {"enable_thinking": False}
    assert "chat_template_kwargs" not in body(Request(messages=(), max_tokens=1))
