"""Durations and sizes: their meaning, what is refused, and that writing is the inverse of reading."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dslc.blocks.values.invalid import Invalid
from dslc.blocks.values.quantity import (
    LARGEST_SIZE,
    SIZE_UNITS,
    format_duration,
    format_size,
    read_duration,
    read_size,
    write_duration,
    write_size,
)

_SECONDS: dict[str, float] = {
    unit: seconds
    for seconds, units in [
        (31_557_600, "y yr yrs year years"), (2_630_016, "month months"), (604_800, "w wk wks week weeks"),
        (86_400, "d day days"), (3_600, "h hr hrs hour hours"), (60, "m min mins minute minutes"),
        (1, "s sec secs second seconds"), (0.001, "ms millisecond milliseconds"),
    ]
    for unit in units.split()
}  # fmt: skip
_SHORT = ("y", "months", "w", "d", "h", "m", "s", "ms")


def test_a_unit_is_as_long_as_the_page_says() -> None:
    for unit, seconds in _SECONDS.items():
        assert read_duration(f"3{unit}") == timedelta(seconds=3 * seconds), unit


@given(st.dictionaries(st.sampled_from(_SHORT), st.integers(0, 999), min_size=1), st.sampled_from(["", " "]))
def test_descending_parts_add_up(parts: dict[str, int], space: str) -> None:
    text = space.join(f"{parts[unit]}{unit}" for unit in _SHORT if unit in parts)
    assert read_duration(text) == sum((timedelta(seconds=n * _SECONDS[unit]) for unit, n in parts.items()), timedelta())


@pytest.mark.parametrize("text", ["90 days", "90  d", "1h 30m", "1 h 30 m", "1y 2 months"])
def test_blanks_before_a_unit_are_as_in_humantime(text: str) -> None:
    assert read_duration(text) == read_duration(text.replace(" ", ""))


@pytest.mark.parametrize("text", [" 90d", "90d ", "90 ", "9 0d", "90 days ", "90\tdays", "90\ndays"])
def test_blanks_elsewhere_are_refused(text: str) -> None:
    with pytest.raises(Invalid):
        read_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text", "spoken"),
    [
        (0, "0s", "0 seconds"),
        (0.25, "250ms", "0.25 seconds"),
        (90_061, "1d1h1m1s", "1 day, 1 hour, 1 minute and 1 second"),
        (90 * 86_400, "90d", "12 weeks and 6 days"),
    ],
)
def test_a_duration_is_printed_without_loss(seconds: float, text: str, spoken: str) -> None:
    assert (write_duration(timedelta(seconds=seconds)), format_duration(seconds)) == (text, spoken)


@given(st.lists(st.sampled_from(_SHORT), min_size=2, max_size=4))
def test_units_that_rise_or_repeat_are_refused(units: list[str]) -> None:
    text = "".join(f"1{unit}" for unit in units)
    ranks = [_SHORT.index(unit) for unit in units]
    if ranks == sorted(set(ranks)):
        read_duration(text)
        return
    with pytest.raises(Invalid):
        read_duration(text)


@given(st.integers(0, timedelta.max // timedelta(milliseconds=1)))
def test_what_is_written_reads_back(milliseconds: int) -> None:
    duration = timedelta(milliseconds=milliseconds)
    assert read_duration(write_duration(duration)) == duration


@given(st.integers(0, 10**30))
def test_a_number_without_a_unit_is_refused(number: int) -> None:
    with pytest.raises(Invalid) as refused:
        read_duration(str(number))
    assert refused.value.fault == "type"


@pytest.mark.parametrize(
    "text",
    ["-5d", "-1", "1M", "1mo", "1Y", "90dd", "1.5h", "1e5", "", " ", "d", "1h-30m", "1d ", " 1d", "1h,2m", "٣d", "１d"],
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(Invalid) as refused:
        read_duration(text)
    assert refused.value.fault == "type"


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("100_000_000_000_000ms", 10**14), ("0_000_000_000_000_000_005ms", 5), ("00000000000000000005ms", 5)],
)
def test_neither_zeros_in_front_nor_what_parts_digits_makes_a_number_longer(text: str, milliseconds: int) -> None:
    assert read_duration(text) == timedelta(milliseconds=milliseconds)


_UNITS = "units are ms, s, m, h, d, w, months, y"
_SUCH_AS = "such as `90d`, `1h30m` or `250ms`"


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("-5d", "a duration cannot be negative", _SUCH_AS),
        ("90", "a duration needs a unit", "`90d` for days, or ms, s, m, h, d, w, months, y"),
        ("7" * 20, "a duration needs a unit", "`90d` for days, or ms, s, m, h, d, w, months, y"),
        ("1.5h", "not a duration", _SUCH_AS),
        ("1h30m ", "not a duration", _SUCH_AS),
        ("1m1m", "the unit `m` is repeated", "write units in descending order, as in `1h30m`"),
        ("1m2h", "the unit `h` is after a shorter unit", "write units in descending order, as in `1h30m`"),
        ("1M", "unknown unit of time `M`", "`m` is minutes, `months` is months"),
        ("1mo", "unknown unit of time `mo`", "`m` is minutes, `months` is months"),
        ("1H", "unknown unit of time `H`", "units are case-sensitive: `h`"),
        ("1" + "d" * 30, f"unknown unit of time `{'d' * 20}`", _UNITS),
        ("300000000y", "the duration is too long", "at most 999999999d23h59m59s999ms"),
    ],
)
def test_a_refusal_says_why_and_how_a_duration_is_written(text: str, message: str, hint: str) -> None:
    with pytest.raises(Invalid) as refused:
        read_duration(text)
    assert (str(refused.value), refused.value.hint) == (message, hint)


def test_the_longest_duration_can_be_written_in_any_unit() -> None:
    longest = timedelta.max // timedelta(milliseconds=1)
    assert read_duration(f"{longest}ms") == timedelta(milliseconds=longest)
    with pytest.raises(Invalid, match="the duration is too long"):
        read_duration(f"{longest + 1}ms")


@pytest.mark.parametrize("text", ["9" * 5000 + "d", "999999999999y", f"{10**18}ms" + "", "300000000y"])
def test_what_no_timedelta_can_hold_is_outside_the_bounds(text: str) -> None:
    with pytest.raises(Invalid) as refused:
        read_duration(text)
    assert refused.value.fault == "bounds"


@given(st.text(alphabet="0123456789._-smhdwy MKB", max_size=30))
def test_any_text_is_a_duration_or_is_refused(text: str) -> None:
    try:
        assert read_duration(text) >= timedelta(0)
    except Invalid as refused:
        assert refused.fault in {"type", "bounds"}  # noqa: PT017 - either outcome is right


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("256KB", 256_000),
        ("25MB", 25_000_000),
        ("5GiB", 5 * 1024**3),
        ("1.5KB", 1500),
        ("0.5KiB", 512),
        ("10_000B", 10_000),
    ],
)
def test_a_size_is_as_large_as_the_page_says(text: str, size: int) -> None:
    assert read_size(text) == size


@given(st.integers(0, LARGEST_SIZE))
def test_a_size_that_is_written_reads_back(size: int) -> None:
    assert read_size(write_size(size)) == size


@pytest.mark.parametrize(
    ("size", "text", "spoken"),
    [
        (0, "0B", "0 bytes"),
        (1500, "1.5KB", "1.5 KB"),
        (1536, "1.5KiB", "1.5 KiB"),
        (25 * 1024**2, "25MiB", "25 MiB"),
        (24_912_345, "24912345B", "24.91 MB"),
    ],
)
def test_a_size_is_printed_exactly_for_programs_and_short_for_people(size: int, text: str, spoken: str) -> None:
    assert (write_size(size), format_size(size)) == (text, spoken)


@pytest.mark.parametrize(
    "text", ["256", "1kb", "1Kib", "1KBx", "1KB ", "-1KB", "KB", "", "0.3B", "1e3KB", "1K", "1.KB", "1..5KB"]
)
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(Invalid) as refused:
        read_size(text)
    assert refused.value.fault == "type"


@given(st.integers(1, 5000), st.sampled_from(SIZE_UNITS))
def test_huge_numbers_are_outside_the_bounds(digits: int, unit: str) -> None:
    try:
        assert read_size("9" * digits + unit) <= LARGEST_SIZE
    except Invalid as refused:
        assert refused.fault == "bounds"  # noqa: PT017 - either outcome is right


@given(st.text(alphabet="0123456789._-KMGTiB ", max_size=30))
def test_any_text_is_a_size_or_is_refused(text: str) -> None:
    try:
        assert 0 <= read_size(text) <= LARGEST_SIZE
    except Invalid as refused:
        assert refused.fault in {"type", "bounds"}  # noqa: PT017
