"""A test over rows reports each row that fails, and takes fixtures besides."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cases import each_case

SEEN: list[int] = []


@each_case("number, text", [(1, "1"), (2, "2")])
def test_a_case_has_its_values_and_the_fixtures(tmp_path: Path, number: int, text: str) -> None:
    assert tmp_path.exists()
    assert str(number) == text


@each_case("number", [1, 2, 3])
async def test_a_case_may_be_awaited(number: int) -> None:
    SEEN.append(number)
    assert SEEN[-1] == number


def test_every_row_that_fails_is_reported() -> None:
    @each_case("number", [1, 2, 3])
    def fails(number: int) -> None:
        assert number == 2

    with pytest.raises(BaseExceptionGroup, match=re.escape("2 of 3 cases")) as found:
        fails()
    assert [error.__notes__[-1] for error in found.value.exceptions] == ["case: 1", "case: 3"]


def test_a_test_without_rows_is_refused() -> None:
    with pytest.raises(AssertionError, match="number"):
        each_case("number", [])
