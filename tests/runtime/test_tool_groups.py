"""Choices of tools by groups: their words, and what a program's clients are shown without a choice."""

from __future__ import annotations

import pytest

from runtime.errors import UsageError
from runtime.tool_groups import COLLECTIONS, EVERYTHING, GROUPS, ToolChoice, groups_of
from tests.cases import each_case
from tests.runtime.api.app import program_of

WEBHOOK = 'webhook builds { path "/hooks/builds" provider github insecure_allow_unverified true }\n'


@each_case(
    ("text", "words"),
    [
        ("tasks", ("tasks",)),
        ("kv, tasks,kv", ("tasks", "kv")),
        ("read-only,collections", ("collections", "read-only")),
        ("all", ("all",)),
        ("tasks,all", ("all",)),
        ("read-only", ("read-only",)),
        ("all,read-only", ("read-only",)),
        (",".join(GROUPS), ("all", "approvals")),
        ("all,approvals,read-only", ("all", "approvals", "read-only")),
    ],
)
def test_a_choice_is_its_words_in_one_order_and_is_read_from_them_again(text: str, words: tuple[str, ...]) -> None:
    choice = ToolChoice.read(text)
    assert choice.words == words
    assert ToolChoice.read(str(choice)) == ToolChoice.of(words) == choice


@each_case("text", ["", "task", "tasks,", "tasks kv", "Tasks", "tasks;kv", "\0"])
def test_a_word_that_is_none_is_refused_with_those_that_are(text: str) -> None:
    with pytest.raises(UsageError, match="no group of tools is called") as refused:
        ToolChoice.read(text)
    assert "tasks" in (refused.value.hint or "")


def test_words_of_a_newer_program_add_nothing() -> None:
    for words in (["calendar"], ["calendar", "read-only"], []):
        assert not ToolChoice.of(words).groups
    assert ToolChoice.of(["calendar", "tasks"]) == ToolChoice.read("tasks")


def test_a_limit_leaves_what_both_have() -> None:
    limit = ToolChoice.read("tasks,kv,read-only")
    assert EVERYTHING.within(limit) == limit
    assert ToolChoice.read("tasks,collections").within(limit) == ToolChoice.read("tasks,read-only")
    assert limit.within(None) == limit
    assert limit.has("kv", read_only=True)
    assert not limit.has("kv", read_only=False)
    assert not EVERYTHING.has(None, read_only=True)
    assert not EVERYTHING.has("approvals", read_only=True)


@each_case(
    ("program", "shown"),
    [
        ("", "collections"),
        ("memory notes { store collection }", "collections"),
        ("agent recorder {}", "collections,memory"),
        ("agent helper { model ollama }", "collections,memory,agents"),
        (WEBHOOK, "collections,memory,webhooks"),
        (WEBHOOK + "agent helper { model ollama }", "collections,memory,agents"),
    ],
)
def test_without_a_choice_a_client_is_shown_collections_and_what_the_program_has(program: str, shown: str) -> None:
    assert groups_of(program_of(program)) == ToolChoice.read(shown)
    assert COLLECTIONS.within(groups_of(program_of(program))) == COLLECTIONS
