"""The error for an unknown name is one readable line."""

from __future__ import annotations

from runtime.suggestions import unknown_name


def test_an_unknown_name_is_answered_with_the_nearest_or_with_all() -> None:
    assert unknown_name("user", "ad", ["ada", "grace"]).hint == "did you mean ada?"
    assert unknown_name("user", "zz", ["grace", "ada"]).hint == "there are: ada, grace"
    assert unknown_name("user", "zz", []).hint == "there are none"


def test_of_many_names_only_the_first_are_listed() -> None:
    hint = unknown_name("webhook", "zz", [f"{number:03}" for number in range(112)]).hint
    assert hint is not None
    assert hint.endswith(", 010, 011 and 100 more")


def test_of_very_many_or_long_names_none_is_looked_for_as_nearest() -> None:
    known = [f"{'a' * 88}{number:03}" for number in range(900)]
    hint = unknown_name("column", "a" * 91, known).hint
    assert hint is not None
    assert hint.startswith("there are: ")
