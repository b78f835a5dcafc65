"""The guard against an agent that repeats itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

import msgspec

REPEATS: Final = 3
"""The same call with the same outcome in this many steps ends the turn."""


class RepeatGuard:
    """Counts the calls of one run by name, arguments and outcome."""

    def __init__(self) -> None:
        self._seen: Counter[bytes] = Counter()

    def count_call(self, name: str, arguments: Mapping[str, Any], outcome: str) -> bool:
        """Count a call of a step; True if it happened in the third one with the same outcome. Its notes do not count:
        they say how far an index is, which changes with each message."""
        key = msgspec.json.encode([name, arguments, _without_notes(outcome)], order="deterministic")
        digest = sha256(key).digest()
        self._seen[digest] += 1
        return self._seen[digest] >= REPEATS


def _without_notes(outcome: str) -> Any:
    try:
        value = msgspec.json.decode(outcome)
    except msgspec.DecodeError:
        return outcome
    return {key: each for key, each in value.items() if key != "notes"} if isinstance(value, dict) else outcome
