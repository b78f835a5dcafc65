"""Sizes: what they mean, what is refused, and that writing is the inverse of reading."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dslc.blocks.values.invalid import Invalid
from dslc.blocks.values.size import LARGEST, UNITS, read_size, write_size


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


@given(st.integers(0, LARGEST))
def test_what_is_written_reads_back(size: int) -> None:
    assert read_size(write_size(size)) == size


@pytest.mark.parametrize(
    "text", ["256", "1kb", "1Kib", "1KBx", "1KB ", "-1KB", "KB", "", "0.3B", "1e3KB", "1K", "1.KB", "1..5KB"]
)
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(Invalid) as refused:
        read_size(text)
    assert refused.value.fault == "type"


@given(st.integers(1, 5000), st.sampled_from(sorted(UNITS)))
def test_huge_numbers_are_outside_the_bounds(digits: int, unit: str) -> None:
    try:
        assert read_size("9" * digits + unit) <= LARGEST
    except Invalid as refused:
        assert refused.fault == "bounds"  # noqa: PT017 - either outcome is right


@given(st.text(alphabet="0123456789._-KMGTiB ", max_size=30))
def test_any_text_is_a_size_or_is_refused(text: str) -> None:
    try:
        assert 0 <= read_size(text) <= LARGEST
    except Invalid as refused:
        assert refused.fault in {"type", "bounds"}  # noqa: PT017
