"""Marks for the two lanes: `make test` runs all tests except those marked `long`, `make test-long` runs the others.

`SYMBIONT_EFFORT` multiplies the number of generated examples. `make test` leaves it at 0.3; `make test-long` sets it
to 10, and tries generated examples again. With 1, the repetitions of `make test-long` are few.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import pytest

EFFORT = float(os.environ.get("SYMBIONT_EFFORT", "0.3"))

LONG = pytest.mark.long


def examples(number: int) -> int:
    """Return the number of generated examples to try: `number` with an effort of 1."""
    return max(1, round(number * EFFORT))


def repeated(name: str, few: int, many: int) -> pytest.MarkDecorator:
    """Call the test with `name=few` in `make test`, and again with `many`, or twice `few`, in `make test-long`."""
    more = many if EFFORT > 1 else min(many, 2 * few)
    return pytest.mark.parametrize(name, [pytest.param(few, id="few"), pytest.param(more, id="many", marks=LONG)])


def first_of(names: str, cases: Sequence[Any], count: int = 1, *, every: int = 1) -> pytest.MarkDecorator:
    """Call the test with each of `cases`: the first `count` in `make test`, the others in `make test-long`, with an
    effort of 1 only each `every`-th of them."""
    rest = [pytest.param(*(case if "," in names else (case,)), marks=LONG) for case in sampled(cases[count:], every)]
    return pytest.mark.parametrize(names, [*cases[:count], *rest])


def sampled(cases: Sequence[Any], every: int) -> Sequence[Any]:
    """Return all cases; with an effort of 1 each `every`-th."""
    return cases if EFFORT > 1 else cases[every - 1 :: every]
