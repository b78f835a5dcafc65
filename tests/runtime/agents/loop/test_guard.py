"""The same call with the same outcome three times is a repetition."""

from __future__ import annotations

import pytest

from runtime.agents.loop.guard import RepeatGuard


@pytest.mark.parametrize(
    ("outcomes", "repeated"),
    [
        (("no", "no", "no"), True),
        (('{"hits":[1]}', '{"hits":[1]}', '{"hits":[1]}'), True),
        (('{"hits":[1]}', '{"hits":[1]}', '{"hits":[1,2]}'), False),
        # A search in an index that grows meanwhile.
        (('{"hits":[],"notes":[]}', '{"hits":[],"notes":["1 of 4"]}', '{"hits":[],"notes":["1 of 5"]}'), True),
        (("1", "2", "3"), False),
    ],
)
def test_the_outcome_of_a_call_counts_without_its_notes(outcomes: tuple[str, ...], repeated: bool) -> None:
    guard = RepeatGuard()
    found = [guard.count_call("search", {"query": "tea", "limit": 5}, each) for each in outcomes]
    assert found == [False, False, repeated]
