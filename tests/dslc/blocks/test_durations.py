"""Durations: what they mean, what is refused, and that writing is the inverse of reading."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dslc.blocks.values.duration import read_duration, write_duration
from dslc.blocks.values.invalid import Invalid

_SECONDS = {
    "y": 31_557_600, "year": 31_557_600, "years": 31_557_600,
    "month": 2_630_016, "months": 2_630_016,
    "w": 604_800, "week": 604_800, "weeks": 604_800,
    "d": 86_400, "day": 86_400, "days": 86_400,
    "h": 3_600, "hour": 3_600, "hours": 3_600,
    "m": 60, "minute": 60, "minutes": 60,
    "s": 1, "second": 1, "seconds": 1,
    "ms": 0.001, "millisecond": 0.001, "milliseconds": 0.001,
}  # fmt: skip
_SHORT = ("y", "months", "w", "d", "h", "m", "s", "ms")


@pytest.mark.parametrize("unit", _SECONDS)
def test_a_unit_is_as_long_as_the_page_says(unit: str) -> None:
    assert read_duration(f"3{unit}") == timedelta(seconds=3 * _SECONDS[unit])


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
        ("7" * 17, "a duration needs a unit", f"`{'7' * 17}d` for days, or ms, s, m, h, d, w, months, y"),
        ("7" * 18, "a duration needs a unit", "`90d` for days, or ms, s, m, h, d, w, months, y"),
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
