from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.webhooks.request.refusal import RefusedRequest
from runtime.webhooks.schemes.timestamp import check_fresh, read_time, read_timestamp, write_time


@given(st.integers(0, 10**15 - 1))
def test_a_canonical_integer_is_read(number: int) -> None:
    assert read_timestamp(str(number)) == number


@given(st.text())
def test_any_other_text_is_refused(text: str) -> None:
    try:
        number = read_timestamp(text)
    except RefusedRequest as refused:
        assert refused.reason == "malformed_timestamp"  # noqa: PT017 - either outcome is right
    else:
        assert str(number) == text


@pytest.mark.parametrize("text", ["1" * 16, "٣", "²", "1\n", "-0", "00"])
def test_texts_that_look_like_numbers_are_refused(text: str) -> None:
    with pytest.raises(RefusedRequest, match="malformed_timestamp"):
        read_timestamp(text)


def test_both_bounds_of_the_tolerance_are_inside() -> None:
    check_fresh(1000, 1300, 300)
    check_fresh(1300, 1000, 300)
    with pytest.raises(RefusedRequest, match="stale"):
        check_fresh(1000, 1300.5, 300)
    with pytest.raises(RefusedRequest, match="future"):
        check_fresh(1300.5, 1000, 300)


@given(st.integers(0, 4 * 10**9))
def test_a_time_is_read_as_it_was_written(now: int) -> None:
    assert read_time(write_time(now, "s"), "s") == now
    assert read_time(write_time(now + 0.25, "ms"), "ms") == now + 0.25
    assert read_time(write_time(now, "rfc3339"), "rfc3339") == now


def test_times_as_text_are_read_in_any_zone_and_to_the_fraction() -> None:
    for text in ("2023-11-14T22:13:20Z", "2023-11-14T15:13:20-07:00", "2023-11-15T03:43:20+05:30"):
        assert read_time(text, "rfc3339") == 1_700_000_000
    assert read_time("2023-11-14T22:13:20.500Z", "rfc3339") == 1_700_000_000.5
    assert read_time("2023-11-14T22:13:20.500000000+00:00", "rfc3339") == 1_700_000_000.5


@given(st.text())
def test_any_other_text_is_no_time(text: str) -> None:
    with pytest.raises(RefusedRequest, match="malformed_timestamp"):
        read_time(text, "rfc3339")


@pytest.mark.parametrize(
    "text",
    ["2023-02-30T00:00:00Z", "2023-11-14T22:13:20+25:00", "0000-01-01T00:00:00Z", "0001-01-01T00:00:00+23:59",
     "2023-11-14T22:13:20,5Z", "2023-11-14T22:13:20.Z", "２０２３-11-14T22:13:20Z", "12023-11-14T22:13:20Z"],
)  # fmt: skip
def test_texts_that_name_no_moment_are_refused(text: str) -> None:
    try:
        moment = read_time(text, "rfc3339")
    except RefusedRequest as refused:
        assert refused.reason == "malformed_timestamp"  # noqa: PT017 - a time long ago is valid, too
    else:
        assert moment < 0
