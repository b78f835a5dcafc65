"""Where the heads of blocks stand in a text: `kind name {`, known by their words and their column."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cached_property

from dslc.syntax.tokens import NAME, WORD

FOREIGN_KINDS = ("metadata", "policy", "schedule", "channel", "type", "function")
"""The words that open a block of the wider language, whatever its shape."""


class BlockHeads:
    """The heads of one text.

    `strict`: some block's braces do not pair up; from there on, the next head ends the block before it.
    """

    def __init__(self, text: str, kinds: Collection[str]) -> None:
        self._text = text
        self._kinds = "|".join(map(re.escape, sorted(kinds)))
        self._inner = re.compile(rf"\n(?:{self._kinds})[ \t]++{NAME}[ \t]*+\{{")
        self._upcoming = -1
        self.strict = False

    @cached_property
    def _any(self) -> re.Pattern[str]:
        """Heads of blocks in column one, and one of ours with its name in any, for no reference takes a body.

        `=` and `:` are for fields of other languages, such as `type: {`.
        """
        return re.compile(
            rf"\n(?P<any>(?:{self._kinds}|{'|'.join(FOREIGN_KINDS)})(?![A-Za-z0-9_-])[^\n{{}}=:]*+\{{)"
            rf"|\n[ \t]*+(?P<ours>(?:{self._kinds})[ \t]++{NAME}[ \t]*+\{{)"
        )

    @cached_property
    def _named(self) -> re.Pattern[str]:
        words = f"{self._kinds}|{'|'.join(FOREIGN_KINDS)}"
        return re.compile(rf"^(?:{words})(?![A-Za-z0-9_-])[ \t]++{NAME}", re.MULTILINE)

    @cached_property
    def _words(self) -> re.Pattern[str]:
        return re.compile(rf"(?:{self._kinds}|agent|{'|'.join(FOREIGN_KINDS)})(?![A-Za-z0-9_-])")

    @cached_property
    def _lines(self) -> re.Pattern[str]:
        """Two lines or more that hold no brace and no head, one below the other, as of settings without a head or of
        another language. A line is more than one word; empty lines come only before a `[`, as in TOML."""
        head = rf"(?:{self._kinds}|{'|'.join(FOREIGN_KINDS)})[ \t]++{NAME}"
        line = rf'(?!{head}|{WORD}[ \t\r]*+(?:\n|\Z))(?=[ \t]*+[^\s{{}}])(?>(?:(?!""")[^\n{{}}])*)(?=\n|\Z)'
        return re.compile(rf"{line}(?>(?:\n(?:(?>(?:[ \t\r]*+\n)*)(?=\[))?{line})+)")

    def end_of_lines(self, at: int) -> int:
        """Where such lines end that begin at `at`; `at` when there are none."""
        lines = self._lines.match(self._text, at)
        return lines.end() if lines else at

    def next_head(self, at: int) -> int:
        """Where the next head begins after `at`, or the end of the text. What is asked for goes up through the text."""
        if self._upcoming <= at:
            head = self._any.search(self._text, at)
            self._upcoming = head.start(head.lastgroup or 0) if head else len(self._text)
        return self._upcoming

    def body_limit(self, brace: int) -> int:
        """Where a block whose brace is at `brace` has ended at the latest."""
        return self.next_head(brace) if self.strict else len(self._text)

    def nested_head(self, start: int, end: int) -> int:
        """Where the first head of ours in column one begins that stands between two places, or -1."""
        found = self._inner.search(self._text, start, end)
        return found.start() + 1 if found else -1

    def is_named_head(self, at: int) -> bool:
        """Whether a kind and a name stand at `at`, in column one, with a `{` or without."""
        return self._named.match(self._text, at) is not None

    def is_head_word(self, at: int) -> bool:
        """Whether a word that opens a block stands at `at`."""
        return self._words.match(self._text, at) is not None
