"""A row of the table of secrets, and what its judgement is given."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

DONE = re.compile(rb"\[REDACTED:[a-z0-9_]+\]")
"""What stands in place of a secret."""

_NEAR = 200  # bytes of a line that a judgement may look at


class Found(NamedTuple):
    """A match in `data`: it begins at `start`, and the value that would be replaced is `begin` to `end`."""

    data: bytes
    start: int
    begin: int
    end: int

    @property
    def value(self) -> bytes:
        """What would be replaced."""
        return self.data[self.begin : self.end]

    @property
    def before_value(self) -> bytes:
        """The match up to its value: for a setting its name, the sign and an opening quote."""
        return self.data[self.start : self.begin]

    @property
    def before(self) -> bytes:
        """What stands in the same line before the match."""
        return self.data[max(0, self.start - _NEAR) : self.start].rpartition(b"\n")[2]

    @property
    def after(self) -> bytes:
        """What stands in the same line behind the value."""
        return self.data[self.end : self.end + _NEAR].partition(b"\n")[0]


class Pattern(NamedTuple):
    """One row: the `type` that is shown instead; what is searched for (RE2, over UTF-8 bytes); what must also hold.

    The value is the first group that matched, or without groups the whole match, and is all that is replaced.
    """

    type: str
    regex: bytes
    holds: Callable[[Found], bool] = lambda _found: True
