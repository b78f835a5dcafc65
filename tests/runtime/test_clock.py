"""Times, and identifiers that contain them."""

from __future__ import annotations

from uuid import RFC_4122, UUID

from hypothesis import given
from hypothesis import strategies as st

from runtime.clock import SYSTEM, rfc3339, uuid7
from tests.clocks import ManualClock


def test_identifiers_are_of_version_7_and_differ() -> None:
    made = [UUID(uuid7(SYSTEM)) for _ in range(1000)]
    assert {(each.version, each.variant) for each in made} == {(7, RFC_4122)}
    assert len(set(made)) == 1000


def test_identifiers_begin_with_their_time_and_sort_by_it() -> None:
    clock = ManualClock()
    made = []
    for _ in range(5):
        made.append(uuid7(clock))
        assert int(made[-1].replace("-", "")[:12], 16) == int(clock.now() * 1000)
        clock.advance(1)
    assert made == sorted(made)


def test_identifiers_of_one_millisecond_are_in_the_order_in_which_they_were_made() -> None:
    clock = ManualClock()
    made = [uuid7(clock) for _ in range(2000)]
    assert made == sorted(made)
    assert len(set(made)) == 2000


@given(st.integers(0, 253402300799))
def test_a_time_is_written_in_utc_to_the_second(seconds: int) -> None:
    text = rfc3339(seconds)
    assert len(text) == 20
    assert text.endswith("Z")
