from __future__ import annotations

import json
from typing import Any

import jsonpath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dslc.blocks.values.json_path import valid_json_path
from runtime.webhooks.request import json_path_limit
from runtime.webhooks.request.json_path import compile_path, plain_steps
from runtime.webhooks.request.json_path_library import compile_with_library
from runtime.webhooks.request.json_path_limit import MOST_NODES, node_limit
from runtime.webhooks.request.refusal import RefusedRequest
from tests.lanes import LONG, examples

KEYS = st.sampled_from(["*", "[*]", "a", "b", "c1", "_x", "", "a b", "a.b", "0", "[0]", "$", "é"])
SCALARS = st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["", "a", "{}", "[1]", '{"a": 1}'])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=20
)
STEPS = st.one_of(
    st.sampled_from([".a", ".b", ".c1", "._x", ".é", "[*]", ".*"]),
    st.integers(-3, 3).map(lambda index: f"[{index}]"),
    KEYS.map(lambda key: f"['{key}']"),
    KEYS.map(lambda key: f'["{key}"]'),
)
PATHS = st.lists(STEPS, max_size=4).map(lambda steps: "$" + "".join(steps))


@given(path=PATHS, value=VALUES)
def test_a_plain_path_finds_what_the_library_finds(path: str, value: Any) -> None:
    library = jsonpath.JSONPathEnvironment(strict=True).compile(path)
    expected = library.findall(value) if isinstance(value, dict | list) else [value] if path == "$" else []
    # As text, so that 1, 1.0 and true stay three things.
    assert json.dumps(compile_path(path)(value)) == json.dumps(expected)


DEEP: Any = [[]]
for _ in range(80):
    DEEP = [DEEP, *([[]] * 40)]


@LONG
@pytest.mark.parametrize(
    ("path", "value"),
    [("$..a", [[]] * (MOST_NODES + 1)), ("$..*..*", DEEP), ("$[?count(@..*) > 1000000]", [DEEP] * 100)],
)
def test_no_path_looks_at_more_than_it_may(path: str, value: Any) -> None:
    with pytest.raises(RefusedRequest, match="too_complex"):
        compile_path(path)(value)


def test_what_all_filters_look_at_is_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_path_limit, "MOST_NODES", 300)
    find = compile_path("$..a")
    half: list[Any] = [[]] * 200
    assert find(half) == find(half) == []
    with node_limit():
        find(half)
        with pytest.raises(RefusedRequest, match="too_complex"):
            find(half)


TEXTS = ["'a'", '"a"', "''", "'b c'", "'1'", "'&&'", "']'"]
LITERALS = st.sampled_from(["1", "-1", "0", "-0", "1.0", "1e0", "2.5", "true", "false", "null", *TEXTS])
OPERATORS = st.sampled_from(["==", "!=", "<", ">", "<=", ">="])
INNER = st.lists(STEPS.filter(lambda step: "*" not in step), max_size=2).map(lambda steps: "@" + "".join(steps))
SPACES = st.sampled_from(["", " ", "\t", "\r\n "])
BASICS = st.one_of(
    st.builds("{}{}{}{}{}".format, INNER, SPACES, OPERATORS, SPACES, LITERALS),
    st.builds("{}{}{}{}{}".format, LITERALS, SPACES, OPERATORS, SPACES, INNER),
    st.builds("{}{}".format, st.sampled_from(["", "!", "! "]), INNER),
)
SELECTIONS = st.lists(st.tuples(BASICS, st.sampled_from(["&&", "||", " && ", " || "])), min_size=1, max_size=3).map(
    lambda parts: "".join(f"{joint if number else ''}{basic}" for number, (basic, joint) in enumerate(parts))
)
NUMBERS = SCALARS | st.sampled_from([1.0, 2.5, -0.0, 10**20, True, False, "1", "b c", "]"])
ITEMS = st.recursive(
    NUMBERS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=20
)


@settings(max_examples=examples(400))
@given(before=PATHS, selection=SELECTIONS, after=PATHS, value=ITEMS)
def test_a_filter_selects_what_the_library_selects(before: str, selection: str, after: str, value: Any) -> None:
    path = f"{before}[?{selection}]{after[1:]}"
    assert json.dumps(compile_path(path)(value)) == json.dumps(compile_with_library(path)(value))


@pytest.mark.parametrize(
    ("selection", "found"),
    [
        ("@", [1, 1.0, True, "1", None, 2]),
        ("!@", []),
        ("@ == 1", [1, 1.0]),
        ("@ > 0", [1, 1.0, 2]),
        ("@ >= true", [True]),
        ("@ <= null", [None]),
        ("@ != 1", [True, "1", None, 2]),
        ("@ < 'a'", ["1"]),
        ("'1' == @", ["1"]),
        ("2 > @", [1, 1.0]),
        ("@ == 1 && @ != 1 || @ == 2", [2]),
        ("$[0] == 1 && @ > 1", [2]),
        ("(@ == 1 || @ == 2) && @ < 2", [1, 1.0]),
    ],
)
def test_truth_values_are_no_numbers_and_have_no_order(selection: str, found: list[object]) -> None:
    assert json.dumps(compile_path(f"$[?{selection}]")([1, 1.0, True, "1", None, 2])) == json.dumps(found)


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ("$", ()),
        ("$.a.b[0]", ("a", "b", 0)),
        ("$['a']", ("a",)),
        ('$["a b"].c', ("a b", "c")),
        ("$['a.b[0]'][-1]", ("a.b[0]", -1)),
        ("$['']", ("",)),
    ],
)
def test_names_and_indexes_make_a_plain_path(path: str, steps: tuple[str | int, ...]) -> None:
    assert plain_steps(path) == steps


@pytest.mark.parametrize(
    "path", ["$..a", "$.*", "$[*]", "$[0,1]", "$[0:1]", "$[?@.a]", r"$['\u0061']", "$ .a", "a", ""]
)
def test_anything_else_is_not_plain(path: str) -> None:
    assert plain_steps(path) is None


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("$.list[*].n", [1, 2, 3]),
        ("$..n", [1, 2, 3]),
        ("$.list[?@.n > 1].n", [2, 3]),
        ("$.list[-1:].n", [3]),
        ("$.list[?@.s == 'x y'].n", [2]),
        ("$.list[?match(@.s, 'x.y')].n", [2]),
        ("$.list[?search(@.s, 'y$')].n", [2]),
        ("$.list[?match(@.s, 'a.b')].n", []),
        ("$.list[?match(@.s, 'a[.\\\\n]b')].n", [3]),
        ("$.list[?match(@.s, '(')].n", []),
        ("$.list[?match(@.n, '1')].n", []),
        (r"$['l\u0069st'][0].n", [1]),
        ("$.nothing.*", []),
    ],
)
def test_other_paths_are_found_as_the_standard_says(path: str, found: list[object]) -> None:
    value = {"list": [{"n": 1}, {"n": 2, "s": "x y"}, {"n": 3, "s": "a\nb"}]}
    assert compile_path(path)(value) == found


@pytest.mark.parametrize(
    "path",
    ["", "a", "a.b", "$.", "$[", "$..", "$.a b", " $.a", "$.a ", "$[01]", "$['a", "$.a | $.b", "$[?", "$.~", "^.a"],
)
def test_what_is_no_jsonpath_is_an_error_in_one_line(path: str) -> None:
    with pytest.raises(ValueError, match="not a JSONPath") as caught:
        compile_path(path)
    assert "\n" not in str(caught.value)


@given(st.text("$.[]()*?@'\"\\ab01:,&|!=<>~^ud8\x00é", max_size=24).map(lambda text: f"${text}"), VALUES)
def test_no_path_and_no_value_make_it_fail_otherwise(path: str, value: Any) -> None:
    try:
        find = compile_path(path)
    except ValueError as error:
        assert "\n" not in str(error)  # noqa: PT017 - either outcome is right
    else:
        assert isinstance(find(value), list)


@pytest.mark.parametrize("value", ['{"a": 1}', "[1]", "x", 1, 1.5, True, None])
def test_text_that_looks_like_json_is_not_looked_into(value: object) -> None:
    assert compile_path("$.*")(value) == []
    assert compile_path("$..a")(value) == []


def test_a_body_too_deep_for_a_descent_is_refused() -> None:
    value: Any = 1
    for _ in range(800):
        value = [value]
    with pytest.raises(RefusedRequest, match="too_deep"):
        compile_path("$..a")(value)


def test_a_pattern_made_to_explode_does_not() -> None:
    assert compile_path("$[?match(@.s, '(a*)*b')]")([{"s": "a" * 5000}]) == []


@pytest.mark.parametrize("path", ["$.😀", "$.größe😀", "$..😀", "$[?@.😀 == 1]"])
def test_a_name_may_begin_with_any_character_beyond_ascii(path: str) -> None:
    assert valid_json_path(path) == path
    assert compile_path(path)({"😀": 1, "größe😀": 1, "a": {"😀": 1}})
