"""Sections: the ranges into which a text is split before parsing."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

MAX_DEPTH = 64
"""Maximum nesting of braces and brackets that the language allows."""


class Fault(Enum):
    """A structural error of a section that the splitter detected."""

    UNCLOSED = "its braces are not closed"
    JOINED = "it was joined because of an unmatched `}`"
    OUTSIDE = "it is not a block"
    HEADLESS = "it is the body of a block without a head"
    UNREAD = "too many sections before it are not blocks"


class Section(NamedTuple):
    """`text[start:end]`, which is parsed on its own. `foreign`: a block of the wider language; its head ends at
    `head_end`.

    `deepest`: maximum nesting of braces and brackets. `text_after_string`: True if a word or quote directly follows one
    of its strings.
    """

    start: int
    end: int
    fault: Fault | None = None
    foreign: bool = False
    head_end: int = 0
    deepest: int = 0
    text_after_string: bool = False
