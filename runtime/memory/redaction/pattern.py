"""A row of the table of secrets, and the match that its condition gets."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

REDACTED = re.compile(rb"\[REDACTED:[a-z0-9_]+\]")
"""The replacement of a secret."""

_NEAR = 200  # bytes of a line that a condition may read


class FoundSecret(NamedTuple):
    """A match in `data`: it begins at `start`; the value that would be replaced is `begin` to `end`."""

    data: bytes
    start: int
    begin: int
    end: int

    @property
    def value(self) -> bytes:
        """Return the value that would be replaced."""
        return self.data[self.begin : self.end]

    @property
    def before_value(self) -> bytes:
        """Return the match up to its value: for a setting its name, the sign and an opening quote."""
        return self.data[self.start : self.begin]

    @property
    def before(self) -> bytes:
        """Return the text before the match in the same line."""
        return self.data[max(0, self.start - _NEAR) : self.start].rpartition(b"\n")[2]

    @property
    def after(self) -> bytes:
        """Return the text after the value in the same line."""
        return self.data[self.end : self.end + _NEAR].partition(b"\n")[0]


class Pattern(NamedTuple):
    """One row: the `type` to show instead, the expression (RE2, over UTF-8 bytes), and a further condition.

    The value is the first group that matched, or without groups the whole match; only the value is replaced.
    """

    type: str
    regex: bytes
    holds: Callable[[FoundSecret], bool] = lambda _found: True
