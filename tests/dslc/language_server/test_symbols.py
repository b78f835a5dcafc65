"""The symbols of a file, and its folds."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from dslc.language_server.symbols import Symbol, folds, symbols
from tests.dslc.language_server.programs import HERE, project

_SECRET = "hunter2Zq"
_TEXT = f'''# one
# two

webhook "w" {{
    path   "/a"
    secret "{_SECRET}"
    filter {{
        json_path "$.a"
        equals 1
    }}
}}
policy p {{
    allow: {{ x }}
}}
agent a {{
    tools [
        search
    ]
    instruction """
        # no comment
        # at all
        """ # three
}}
memory open {{
    pa
'''


def _symbols(text: str) -> list[Symbol]:
    file = project(here=text).file(HERE)
    assert file is not None
    return list(symbols(file.sections))


def _folds(text: str) -> list[tuple[str, str]]:
    """Return the first and last line of each fold over several lines."""
    file = project(here=text).file(HERE)
    assert file is not None
    stretches = [text[fold.start : fold.end].split("\n") for fold in folds(file.sections, text)]
    return [(lines[0].strip(), lines[-1].strip()) for lines in stretches if len(lines) > 1]


def _names(found: Sequence[Symbol]) -> list[object]:
    return [[symbol.name, *([_names(symbol.inner)] if symbol.inner else [])] for symbol in found]


def test_blocks_hold_groups_and_settings() -> None:
    assert _names(_symbols(_TEXT)) == [
        ["w", [["path"], ["secret"], ["filter", [["json_path"], ["equals"]]]]],
        ["p"],
        ["a", [["tools"], ["instruction"]]],
        ["open", [["pa"]]],
    ]


def test_a_symbol_lies_around_its_name_and_its_inner_symbols() -> None:
    waiting = _symbols(_TEXT)
    for symbol in waiting:
        assert symbol.start <= symbol.name_start <= symbol.name_end <= symbol.end
        assert all(symbol.start <= inner.start <= inner.end <= symbol.end for inner in symbol.inner)
        waiting += symbol.inner


def test_values_are_shown_and_secrets_are_not() -> None:
    shown = repr(_symbols(_TEXT))
    assert '"/a"' in shown
    assert _SECRET not in shown


def test_a_key_in_quotes_is_a_name_unless_it_may_be_a_secret() -> None:
    text = f'model m {{ service x {{ headers {{ "X.A" "b" "" "c" " " "d" }} }} secret "a" "{_SECRET}" }}'
    assert _names(_symbols(text)) == [["m", [["service", [["headers", [["X.A"]]]]], ["secret"], ["*" * len(_SECRET)]]]]


def test_bodies_lists_long_strings_and_comments_can_be_folded() -> None:
    assert _folds(_TEXT) == [
        ('webhook "w" {', "}"),
        ("filter {", "}"),
        ("policy p {", "}"),
        ("agent a {", "}"),
        ("[", "]"),
        ('"""', '"""'),
        ("memory open {", ""),
        ("# one", "# two"),
    ]


def test_a_very_long_file_shows_its_blocks() -> None:
    found = _symbols("agent a { enabled true }\n" * 1001)
    assert len(found) == 1001
    assert not any(symbol.inner for symbol in found)


@given(st.text(alphabet=st.sampled_from('{}[]"#\n a'), max_size=60))
def test_any_text_has_symbols_and_folds(text: str) -> None:
    _symbols(text)
    _folds(text)
