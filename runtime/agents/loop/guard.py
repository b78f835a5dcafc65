"""The guard against an agent that repeats itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

import msgspec

REPEATS: Final = 3
"""The same call with the same outcome this many times ends the turn."""


class RepeatGuard:
    """Counts the calls of one run by name, arguments and outcome."""

    def __init__(self) -> None:
        self._seen: Counter[bytes] = Counter()

    def repeated(self, name: str, arguments: Mapping[str, Any], outcome: str) -> bool:
        """Count a call; True if it happened for the third time with the same outcome."""
        key = msgspec.json.encode([name, arguments, outcome], order="deterministic")
        digest = sha256(key).digest()
        self._seen[digest] += 1
        return self._seen[digest] >= REPEATS
