"""Names of tools for models have the form that providers accept, and lead back to one tool each."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.tools import TOOLS
from runtime.tools.model.names import LONGEST, model_name, model_names

FORM = re.compile(r"[a-zA-Z0-9_-]{1,64}")
SIMILAR = st.text(alphabet="a._ä", max_size=3)
LONG = st.builds(lambda middle, end: f"{'a' * 60}{middle}{end}", SIMILAR, SIMILAR)
HASHED = st.builds(model_name, LONG)
NAMES = st.lists(st.one_of(st.text(), SIMILAR, LONG, HASHED), max_size=40)


@given(names=NAMES)
def test_two_names_never_become_one(names: list[str]) -> None:
    found = model_names(names)
    assert sorted(found.values()) == sorted(set(names))
    assert all(FORM.fullmatch(each) for each in found)


@given(names=NAMES)
def test_a_name_in_the_right_form_stays_whatever_the_others_are(names: list[str]) -> None:
    found = model_names(names)
    assert all(found[name] == name for name in names if FORM.fullmatch(name))


@given(names=NAMES)
def test_the_names_do_not_depend_on_the_order(names: list[str]) -> None:
    assert model_names(names) == model_names(reversed(names))


@pytest.mark.parametrize(
    ("name", "expected"),
    [("memory_search", "memory_search"), ("github.search", "github_search"), ("a/b c", "a_b_c"), ("", "_")],
)
def test_other_characters_are_replaced(name: str, expected: str) -> None:
    assert model_name(name) == expected


def test_a_name_too_long_is_cut_and_ends_in_a_hash() -> None:
    one, other = "github." + "x" * 90, "github." + "x" * 91
    assert len(model_name(one)) == LONGEST
    assert model_name(one).startswith("github_xxx")
    assert re.search(r"_[0-9a-f]{8}$", model_name(one))
    assert model_name(one) != model_name(other)


def test_names_that_differ_in_replaced_characters_only_stay_apart() -> None:
    found = model_names(["a_b", "a.b", "a/b"])
    assert found["a_b"] == "a_b"
    assert set(found.values()) == {"a_b", "a.b", "a/b"}


@pytest.mark.parametrize("name", TOOLS)
def test_the_tools_of_the_table_have_the_same_names_for_models_and_over_mcp(name: str) -> None:
    assert model_name(name) == name
