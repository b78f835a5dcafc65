"""Replies in parts: text, and calls of tools in the forms in which services send them."""

from __future__ import annotations

from runtime.models.answers.partial_reply import LONGEST_REPLY, PartialReply, arguments_of
from runtime.models.request import Reply, ToolCall


def calls(*fragments: tuple[int | None, str | None, str | None, object]) -> list[tuple[str, str]]:
    """Return name and arguments of each call."""
    partial = PartialReply()
    for fragment in fragments:
        index, call_id, name, arguments = fragment
        partial.add_fragment(index, call_id or "", name or "", arguments)
    return [(call.name, call.arguments) for call in partial.reply().calls]


def test_a_reply_without_parts_is_empty() -> None:
    assert PartialReply().reply() == Reply(text="")


def test_a_call_in_fragments_is_one_call() -> None:
    told = calls((0, "a", "note", ""), (0, None, None, '{"x"'), (1, "b", "look", "{}"), (0, None, None, ": 1}"))
    assert told == [("note", '{"x": 1}'), ("look", "{}")]


def test_fragments_without_an_index_belong_to_the_call_before() -> None:
    told = calls((None, "a", "note", '{"x"'), (None, None, None, ": 1}"), (None, "b", "look", "{}"))
    assert told == [("note", '{"x": 1}'), ("look", "{}")]


def test_an_id_that_is_repeated_with_every_fragment_is_one_call() -> None:
    assert calls((None, "a", "note", '{"x"'), (None, "a", "note", ": 1}")) == [("note", '{"x": 1}')]


def test_whole_calls_with_the_same_index_are_several() -> None:
    assert calls((0, "a", "note", "{}"), (0, "b", "look", "{}")) == [("note", "{}"), ("look", "{}")]


def test_calls_without_index_and_id_are_told_apart_by_their_names() -> None:
    assert calls((None, None, "note", {"x": 1}), (None, None, "note", {"x": 2})) == [
        ("note", '{"x":1}'),
        ("note", '{"x":2}'),
    ]


def test_fragments_of_a_call_with_a_number_of_its_own_are_one_call() -> None:
    told = calls((1, "a", "note", '{"x"'), (1, None, None, ": 1}"), (2, "b", "look", "{"), (2, None, None, "}"))
    assert told == [("note", '{"x": 1}'), ("look", "{}")]


def test_fragments_of_calls_with_the_same_number_belong_to_the_newest() -> None:
    told = calls((0, "a", "note", "{}"), (0, "b", "look", "{"), (0, None, None, "}"))
    assert told == [("note", "{}"), ("look", "{}")]


def test_an_index_that_leaves_some_out_is_the_next_one() -> None:
    assert calls((7, "a", "note", "{}"), (1_000_000, "b", "look", None)) == [("note", "{}"), ("look", "{}")]


def test_a_name_after_complete_arguments_begins_another_call() -> None:
    told = calls((0, "", "note", '{"x"'), (0, "", "", ": 1}"), (0, "", "note", '{"x"'), (0, "", "", ": 2}"))
    assert told == [("note", '{"x": 1}'), ("note", '{"x": 2}')]
    assert calls((None, "a", "note", '{"x": 1}'), (None, "a", "look", "")) == [("note", '{"x": 1}'), ("look", "{}")]


def test_a_name_that_is_repeated_before_other_arguments_begins_another_call() -> None:
    told = calls((0, "", "note", ""), (0, "", "", '{"x": 1}'), (0, "", "note", ""), (0, "", "", '{"x": 2}'))
    assert told == [("note", '{"x": 1}'), ("note", '{"x": 2}')]


def test_a_last_fragment_that_repeats_the_call_adds_nothing() -> None:
    once = [("note", '{"x": 1}')]
    assert calls((0, "a", "note", '{"x": '), (0, "", "", "1}"), (0, "a", "note", "")) == once
    assert calls((0, "a", "note", '{"x": '), (0, "", "", "1}"), (0, "a", "note", '{"x": 1}')) == once
    assert calls((0, "a", "note", '{"x": '), (0, "", "", "1}"), (0, "", "", '{"x": 1}')) == once


def test_an_empty_object_before_the_arguments_is_none() -> None:
    assert calls((0, "a", "note", "{}"), (0, "", "", '{"x": '), (0, "", "", "1}")) == [("note", '{"x": 1}')]


def test_whole_calls_are_several_whatever_their_ids() -> None:
    partial = PartialReply()
    for number in range(2):
        partial.add_call("note", {"x": number}, "same", {"extra_content": number})
    found = partial.reply().calls
    assert [(call.id, call.arguments, call.extra) for call in found] == [
        ("same", '{"x":0}', {"extra_content": 0}),
        ("same", '{"x":1}', {"extra_content": 1}),
    ]


def test_a_call_without_an_id_is_given_one() -> None:
    partial = PartialReply()
    for _ in range(2):
        partial.add_call("note", {})
    first, second = partial.reply().calls
    assert first.id
    assert second.id not in {"", first.id}


def test_a_reply_with_calls_that_was_cut_off_is_cut_off() -> None:
    partial = PartialReply()
    partial.finish = "length"
    partial.add_fragment(0, "a", "note", '{"x')
    assert partial.reply().finish == "length"


def test_a_reply_that_is_too_long_is_cut_off() -> None:
    partial = PartialReply()
    for _ in range(2):
        partial.add_text("x" * (LONGEST_REPLY // 2 - 1))
    assert partial.reply().finish == "stop"
    partial.add_fragment(0, "a", "note", '{"x": 1}')
    reply = partial.reply()
    assert (len(reply.text) + len(reply.calls[0].arguments), reply.finish) == (LONGEST_REPLY, "length")


def test_arguments_that_are_no_object_are_empty() -> None:
    for text in ("", "{", "[]", "5", "null", "[" * 100_000):
        assert arguments_of(ToolCall("a", "note", text)) == {}
    assert arguments_of(ToolCall("a", "note", '{"x": 1}')) == {"x": 1}
