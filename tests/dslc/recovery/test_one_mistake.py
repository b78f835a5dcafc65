"""One mistake, at any position and in any layout, is one diagnostic at that position."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dslc.compiler import Compilation, analyse
from dslc.source import Source
from tests.dslc.catalogs import CATALOG
from tests.dslc.recovery.mistakes import LAYOUTS, PROGRAM, Slip, slips
from tests.lanes import examples

_EVERY = 30
_IN_GENERAL_WORDS = {
    "let before key", "newline in name", "newline before the name's end", "string not closed", "opened again",
}  # fmt: skip
"""Mistakes that may be reported by several diagnostics: no rule of the recovery is about them."""


def _compiled(text: str) -> Compilation:
    return analyse([Source("a", text)], CATALOG, build=False)


def _found(done: Compilation) -> list[tuple[int, str, str]]:
    """Return line, code and message of the diagnostics and notes, except that an agent's model has no effect yet."""
    told = [each for each in done.diagnostics if each.code != "R303"]
    return [(done.sources[0].position(each.span.start).line, each.code, each.message) for each in told]


def _check(slip: Slip) -> None:
    found = _found(_compiled(slip.text))
    if slip.name in _IN_GENERAL_WORDS:
        assert found[0][0] in slip.lines, (str(slip), found)
        return
    assert len(found) == slip.mistakes, (str(slip), found)
    assert {line for line, _, _ in found} <= slip.lines, (str(slip), sorted(slip.lines), found)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_program_that_mistakes_are_made_in_has_none(layout: str) -> None:
    assert _found(_compiled(LAYOUTS[layout](PROGRAM))) == []


@pytest.mark.parametrize("layout", LAYOUTS)
def test_one_mistake_is_one_diagnostic_where_it_stands(layout: str) -> None:
    """Return a sample of all mistakes, the same in every run."""
    for slip in [slip for slip in slips() if slip.layout == layout][:: _EVERY - 1]:
        _check(slip)


@settings(max_examples=examples(100))
@given(st.integers(0, 2**20))
def test_any_one_mistake_is_one_diagnostic_where_it_stands(number: int) -> None:
    _check(slips()[number % len(slips())])
