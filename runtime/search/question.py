"""What somebody asks of a memory."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from runtime.errors import UsageError
from runtime.search.entry import Filter

EVERYTHING = Filter()
VECTOR_WEIGHT = 0.7
KEYWORD_WEIGHT = 0.3
"""The weights of the first design, section 2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A search: its words, how many hits are wanted, of which entries, and how meaning weighs against words.

    `now` is aware: what "last week" in the text is measured from. Raises UsageError for a text without words, for
    weights that are negative or both zero, and for a limit below one.
    """

    text: str
    now: datetime
    limit: int = 10
    wanted: Filter = EVERYTHING
    vector_weight: float = VECTOR_WEIGHT
    keyword_weight: float = KEYWORD_WEIGHT

    def __post_init__(self) -> None:
        """Refuse what can have no answer."""
        if not self.text.strip():
            raise UsageError("there is nothing to search for", hint="give one or more words")
        if self.limit < 1:
            raise UsageError(f"a search for {self.limit} hits finds nothing", hint="ask for one or more")
        if min(self.vector_weight, self.keyword_weight) < 0 or not self.vector_weight + self.keyword_weight > 0:
            raise UsageError(
                f"vectors weigh {self.vector_weight:g} and keywords {self.keyword_weight:g}: nothing can be found",
                hint="give one or both of them a weight above zero",
            )
