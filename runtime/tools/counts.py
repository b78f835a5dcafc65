"""How often each tool was called since the process began."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Final


@dataclass(slots=True)
class Counts:
    """`calls`, and how many of them failed."""

    calls: int = 0
    failures: int = 0


COUNTS: Final[defaultdict[str, Counts]] = defaultdict(Counts)
"""By the name of the tool; one that was never called may not be among them."""
