"""The pieces a text is cut into."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

MAX_DEPTH = 64
"""Levels of braces and brackets that the language allows."""


class Fault(Enum):
    """What is wrong with the frame of a piece, as far as cutting can tell."""

    UNCLOSED = "its braces do not close"
    JOINED = "it was put together around a `}` that closes nothing"
    OUTSIDE = "it is no block"
    HEADLESS = "it is the body of a block that has no head"
    UNREAD = "too much before it is no block"


class Section(NamedTuple):
    """`text[start:end]`, for the parser; when `foreign`, a block of the wider language whose head ends at `head_end`.

    `deepest`: how many levels of braces and brackets it has. `text_after_string`: something stands right behind one of its strings.
    """

    start: int
    end: int
    fault: Fault | None = None
    foreign: bool = False
    head_end: int = 0
    deepest: int = 0
    text_after_string: bool = False
