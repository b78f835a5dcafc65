"""The text that a signature covers, as a template, and the time in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.webhooks.request.refusal import RefusedRequest
from runtime.webhooks.schemes.template import Template, TemplateValues
from runtime.webhooks.schemes.timestamp import check_fresh, read_time, read_timestamp, write_time


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("{body}", b"B%s\xff"),
        ("{timestamp}.{body}", b"17.B%s\xff"),
        ("v0:{timestamp}:{body}", b"v0:17:B%s\xff"),
        ("{id}.{timestamp}.{body}", b"a.17.B%s\xff"),
        ("{method}{url}{body}{timestamp}", b"POSThttps://h/B%s\xff17"),
        ("100%(x)s%{body}%d", b"100%(x)s%B%s\xff%d"),
        ("{body}.{id}", b"B%s\xff.a"),
    ],
)
def test_a_template_is_filled_with_what_was_sent(text: str, filled: bytes) -> None:
    values = TemplateValues(b"B%s\xff", timestamp="17", id="a", url="https://h/", method="POST")
    assert Template(text).compile()(values) == filled


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "{body} is missing"),
        ("{timestamp}", "{body} is missing"),
        ("{body}{body}", "more than once"),
        ("{Body}", "{Body} is not allowed here"),
        ("{body.__class__}", "{body.__class__} is not allowed here"),
        ("{}{body}", "{} is not allowed here"),
        ("{body}}", "unmatched brace"),
        ("{{body}}", "unmatched brace"),
        ("{{body}", "unmatched brace"),
        ("{id}{body}", "{id} needs a separator after it"),
        ("{id}{timestamp}.{body}", "{id} needs a separator after it"),
        ("{body}{id}", "{id} needs a separator before it"),
        ("{body}.{timestamp}{id}.", "{id} needs a separator before it"),
    ],
)
def test_a_template_that_means_nothing_says_why(text: str, wrong: str) -> None:
    with pytest.raises(ValueError, match=re.escape(wrong)):
        Template(text)


def test_the_border_behind_an_id_cannot_be_moved() -> None:
    fill = Template("{id}.{body}").compile()
    assert fill(TemplateValues(b"b.c", id="a")) == b"a.b.c"
    with pytest.raises(RefusedRequest, match="malformed_id"):
        fill(TemplateValues(b"c", id="a.b"))


def test_the_border_before_an_id_cannot_be_moved() -> None:
    fill = Template("{body}.{id}").compile()
    assert fill(TemplateValues(b"limit=1.5&to=bob", id="evt_12")) == b"limit=1.5&to=bob.evt_12"
    with pytest.raises(RefusedRequest, match="malformed_id"):
        fill(TemplateValues(b"limit=1", id="5&to=bob.evt_12"))


_TIMES = ("1700000000", "1700000001")
_TEXTS = ["".join(parts) for n in range(3) for parts in product((".", "-", "a", _TIMES[0]), repeat=n)]
_TEXTS += ["".join(parts) for parts in product((".", "a"), repeat=3)]
_SHAPES = [
    "".join(parts)
    for n in range(1, 6)
    for parts in product(("{id}", "{timestamp}", "{body}", ".", "-"), repeat=n)
    if parts.count("{body}") == 1 and parts.count("{id}") <= 1 and parts.count("{timestamp}") <= 1
]


def _readings(text: str) -> Iterator[tuple[bytes, tuple[str, str, str]]]:
    """Return the results of a template for such values, each with the values, without the refused ones."""
    template = Template(text)
    fill = template.compile()
    for body in _TEXTS:
        for identity in _TEXTS if "id" in template.fields else [""]:
            for time in _TIMES if "timestamp" in template.fields else [""]:
                with suppress(RefusedRequest):
                    yield fill(TemplateValues(body.encode(), time, identity)), (body, identity, time)


def test_no_signed_text_of_any_template_can_be_cut_into_other_parts() -> None:
    for text in _SHAPES:
        try:
            Template(text)
        except ValueError:
            continue
        seen: dict[bytes, tuple[str, str, str]] = {}
        for filled, values in _readings(text):
            assert seen.setdefault(filled, values) == values, text


def test_an_id_without_a_separator_ends_where_its_time_begins() -> None:
    template = Template("{id}{timestamp}{body}", ":")
    fill, time = template.compile(), "2023-11-14T22:13:20Z"
    assert fill(TemplateValues(b"{}", time, "a-1")) == b"a-12023-11-14T22:13:20Z{}"
    with pytest.raises(RefusedRequest, match="malformed_id"):
        fill(TemplateValues(b"{}", time, f"a-1{time}{{"))


def test_an_id_that_is_not_text_is_refused() -> None:
    with pytest.raises(RefusedRequest, match="malformed_id"):
        Template("{id}.{body}").compile()(TemplateValues(b"", id="\udcff"))


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
