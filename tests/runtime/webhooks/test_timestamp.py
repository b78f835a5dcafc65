from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.webhooks import Refused
from runtime.webhooks.timestamp import check_fresh, read_timestamp


@given(st.integers(0, 10**15 - 1))
def test_a_canonical_integer_is_read(number: int) -> None:
    assert read_timestamp(str(number)) == number


@given(st.text())
def test_any_other_text_is_refused(text: str) -> None:
    try:
        number = read_timestamp(text)
    except Refused as refused:
        assert refused.reason == "malformed_timestamp"  # noqa: PT017 - either outcome is right
    else:
        assert str(number) == text


@pytest.mark.parametrize("text", ["1" * 16, "٣", "²", "1\n", "-0", "00"])
def test_texts_that_look_like_numbers_are_refused(text: str) -> None:
    with pytest.raises(Refused, match="malformed_timestamp"):
        read_timestamp(text)


def test_both_bounds_of_the_tolerance_are_inside() -> None:
    check_fresh(1000, 1300, 300)
    check_fresh(1300, 1000, 300)
    with pytest.raises(Refused, match="stale"):
        check_fresh(1000, 1300.5, 300)
    with pytest.raises(Refused, match="future"):
        check_fresh(1300.5, 1000, 300)
