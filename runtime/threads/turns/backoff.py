"""The backoff before a failed turn is tried again."""

from __future__ import annotations

import random

TRIES = 5
"""Number of tries before a turn becomes a dead letter."""

FIRST_SECONDS = 2.0
FACTOR = 5.0
LONGEST_SECONDS = 3600.0


def delay(tries: int, *, spread: float | None = None) -> float:
    """Seconds to wait after try number `tries`, from 1: up to 2, 10, 50 and 250.

    `spread`: 0 to 1, random by default; half of the wait depends on it, so that turns that failed together are not
    retried together.
    """
    if spread is None:
        spread = random.random()  # noqa: S311 - nothing secret
    longest: float = min(LONGEST_SECONDS, FIRST_SECONDS * FACTOR ** min(tries - 1, 20))
    return longest * (0.5 + spread / 2)
