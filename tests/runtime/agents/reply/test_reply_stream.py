"""What is shown of a reply while it arrives is what its reading says."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.agents.reply.agent_reply import ToolCalling
from runtime.agents.reply.reading import read_reply
from runtime.agents.reply.reply_stream import ReplyStream
from runtime.models.request import Reply
from tests.lanes import LONG, examples
from tests.runtime.agents.reply.generated import FORMS, MEANT, SAYING, Meant
from tests.runtime.agents.reply.test_golden_replies import CASES, Case
from tests.runtime.agents.reply.toolset import TOOLS

_SHOWN_FORMS = ("plain", "unescaped", "indented", "fenced", "explained", "after reasoning", "with tokens")


def _streamed(stream: ReplyStream, text: str, ends: list[int]) -> list[str]:
    """Feed a text in parts that end at `ends`, and return the messages that were shown."""
    messages: list[str] = []
    for begin, end in zip([0, *ends], [*ends, len(text)], strict=True):
        for shown in stream.feed(text[begin:end]):
            assert shown.text
            assert shown.index in (len(messages) - 1, len(messages))
            if shown.index == len(messages):
                messages.append("")
            messages[shown.index] += shown.text
    return messages


def _ends(data: st.DataObject, text: str) -> list[int]:
    return sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))


@pytest.mark.parametrize("form", _SHOWN_FORMS)
@settings(max_examples=examples(150))
@given(meant=SAYING, data=st.data())
def test_every_message_is_shown_however_the_text_is_cut(form: str, meant: Meant, data: st.DataObject) -> None:
    text = FORMS[form](meant.value())
    assert _streamed(ReplyStream(), text, _ends(data, text)) == list(meant.shown)


@settings(max_examples=examples(300))
@given(meant=MEANT, data=st.data())
def test_a_reply_that_ends_anywhere_continues_what_was_shown(meant: Meant, data: st.DataObject) -> None:
    text = json.dumps(meant.value())
    text = text[: data.draw(st.integers(0, len(text)))]
    shown = _streamed(ReplyStream(), text, _ends(data, text))
    reading = read_reply(Reply(text=text, finish="length"), TOOLS)
    if reading.rung != "text":
        # The last message may have been shown in part.
        assert len(shown) <= len(reading.messages)
        assert all(whole.startswith(part) for part, whole in zip(shown, reading.messages, strict=False))
        assert shown[:-1] == list(reading.messages[: len(shown)][:-1])


def test_white_space_that_was_shown_is_part_of_the_message_wherever_the_reply_ends() -> None:
    messages = ['He said "tea" \u3000', " a\n\n b "]
    for text in (json.dumps({"messages": messages}, ensure_ascii=escaped) for escaped in (True, False)):
        for end in range(len(text)):
            shown = ReplyStream().feed(text[:end])
            reading = read_reply(Reply(text=text[:end], finish="length"), TOOLS)
            if '["' in text[:end]:
                assert [each.text for each in shown] == list(reading.messages), end


@settings(max_examples=examples(200))
@given(st.text(max_size=60), st.data())
def test_a_native_text_is_shown_as_it_arrives(text: str, data: st.DataObject) -> None:
    text = text.replace("<", "").replace("[", "")
    stream = ReplyStream("native")
    reading = read_reply(Reply(text=f"<think>Tea.</think>\n{text}"), TOOLS, "native")
    shown = _streamed(stream, f"<think>Tea.</think>\n{text}", _ends(data, text))
    assert shown == list(reading.messages)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.file}-{case.name}")
def test_any_reply_is_shown_in_order_and_a_valid_one_as_it_is(case: Case) -> None:
    calling: ToolCalling = "native" if "native" in case.options else "json"
    text = case.reply().text
    shown = _streamed(ReplyStream(calling), text, list(range(1, len(text))))
    if case.file == "valid":
        assert shown == list(case.reading().messages)


def test_a_character_is_shown_when_it_is_whole() -> None:
    stream = ReplyStream()
    parts = ['{"messages": ["a\\', "n", "b\\u00", "e9", "\\ud83d", "\\u", "de00", 'c"]}']
    assert [[shown.text for shown in stream.feed(part)] for part in parts] == [
        ["a"],
        ["\n"],
        ["b"],
        ["é"],
        [],
        [],
        ["😀"],
        ["c"],
    ]


@pytest.mark.parametrize(
    "text", ["\\\\\\ud800\\udc00", "\\ud800a", "\\ud800\\n", "\\ud800\\ud800\\udc00", "\\ud800\\u0041", "\\ud800"]
)
def test_pairs_of_escapes_are_one_character_wherever_they_are_cut(text: str) -> None:
    text = f'{{"messages": ["{text}"], "tool_calls": []}}'
    for end in range(len(text)):
        assert _streamed(ReplyStream(), text, [end]) == list(read_reply(Reply(text=text), TOOLS).messages)
    assert _streamed(ReplyStream(), text, list(range(1, len(text)))) == list(
        read_reply(Reply(text=text), TOOLS).messages
    )


def test_a_mark_of_reasoning_in_parts_is_not_shown() -> None:
    stream = ReplyStream("native")
    parts = ["<th", "ink>Tea", ".</thi", "nk>", "Hello <b", ">you</b> <", "3"]
    assert "".join(shown.text for part in parts for shown in stream.feed(part)) == "Hello <b>you</b> <3"


def test_other_lists_of_texts_are_not_shown() -> None:
    stream = ReplyStream()
    text = '{"notes": ["no", {"messages": ["no"]}], "tool_calls": [{"name": "done", "args": {"messages": ["no"]}}]}'
    assert stream.feed(text) == []


@LONG
def test_a_mebibyte_in_small_parts_does_not_hang() -> None:
    for text in ('{"messages": ["' + "\\n" * 2**19, '{"messages": ["' + "\\u00e9" * 2**17, "{" * 2**20, "<" * 2**20):
        for stream in (ReplyStream(), ReplyStream("native")):
            began = time.process_time()
            for at in range(0, len(text), 16):
                stream.feed(text[at : at + 16])
            assert time.process_time() - began < 30


def test_reasoning_without_a_begin_is_not_shown_once_it_was_seen() -> None:
    parts = ["secret plan", " about user </th", "ink> hello ", "there"]
    first = ReplyStream("native")
    assert "".join(shown.text for part in parts for shown in first.feed(part)).endswith("hello there")
    assert first.has_unopened_reasoning

    later = ReplyStream("native", held=True)
    assert [shown.text for part in parts for shown in later.feed(part)] == ["hello", " there"]
    plain = ReplyStream("native", held=True)
    assert [shown for part in ("no plan", " at all") for shown in plain.feed(part)] == []
    marked = ReplyStream("native", held=True)
    assert [shown.text for part in ("<think>plan", "</think>hello") for shown in marked.feed(part)] == ["hello"]
