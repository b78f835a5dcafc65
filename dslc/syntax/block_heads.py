"""Positions of block heads (`kind name {`) in a text, recognised by their keywords and their column."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import cached_property
from types import MappingProxyType

from dslc.syntax.tokens import NAME, WORD, WORD_END

FOREIGN_KINDS = ("metadata", "policy", "schedule", "channel", "type", "function")
"""Keywords that open a block of the wider language, whatever its shape. `agent` is not one: this language has it too.
"""


def _any_of(names: Collection[str]) -> str:
    return "|".join(map(re.escape, sorted(names)))


class BlockHeads:
    """The block heads of one text.

    `kinds`: the block kinds of this language. `services`: by kind, the names that a block of it cannot have: a setting
    with the same keyword may have such a value with a body, `model ollama { … }`. `strict`: True if the braces of some
    block do not match. From then on, a block ends at the next head at the latest.
    """

    def __init__(
        self, text: str, kinds: Collection[str], services: Mapping[str, Collection[str]] = MappingProxyType({})
    ) -> None:
        self._text = text
        settings = "|".join(rf"{kind}[ \t]++\"?(?:{_any_of(names)})\"?[ \t]*+\{{" for kind, names in services.items())
        self._block = f"(?!{settings})" if settings else ""
        self._kinds = _any_of(kinds)
        self._inner = re.compile(rf"\n{self._block}(?:{self._kinds})[ \t]++{NAME}[ \t]*+\{{")
        self._upcoming = -1
        self.strict = False

    @cached_property
    def _any(self) -> re.Pattern[str]:
        """Pattern of a block head: of any language part in column one, or of this language with a name in any column (a
        reference never has a body).

        `=` and `:` are excluded because they occur in fields of other languages, such as `type: {`.
        """
        return re.compile(
            rf"\n{self._block}(?P<any>(?:{self._kinds}|{'|'.join(FOREIGN_KINDS)}){WORD_END}[^\n{{}}=:]*+\{{)"
            rf"|\n[ \t]*+(?P<ours>{self._block}(?:{self._kinds})[ \t]++{NAME}[ \t]*+\{{)"
        )

    @cached_property
    def _named(self) -> re.Pattern[str]:
        words = f"{self._kinds}|{'|'.join(FOREIGN_KINDS)}"
        return re.compile(rf"^(?:{words}){WORD_END}[ \t]++{NAME}", re.MULTILINE)

    @cached_property
    def _words(self) -> re.Pattern[str]:
        return re.compile(rf"(?:{self._kinds}|agent|{'|'.join(FOREIGN_KINDS)}){WORD_END}")

    @cached_property
    def _lines(self) -> re.Pattern[str]:
        """Pattern of two or more consecutive lines without braces or heads, such as settings without a head, or another
        language. A line has more than one word. Empty lines are allowed only before a `[`, as in TOML."""
        head = rf"(?:{self._kinds}|{'|'.join(FOREIGN_KINDS)})[ \t]++{NAME}"
        line = rf'(?!{head}|{WORD}[ \t\r]*+(?:\n|\Z))(?=[ \t]*+[^\s{{}}])(?>(?:(?!""")[^\n{{}}])*)(?=\n|\Z)'
        return re.compile(rf"{line}(?>(?:\n(?:(?>(?:[ \t\r]*+\n)*)(?=\[))?{line})+)")

    def end_of_lines(self, at: int) -> int:
        """End of such lines that begin at `at`; `at` if there are none."""
        lines = self._lines.match(self._text, at)
        return lines.end() if lines else at

    def next_head(self, at: int) -> int:
        """Position of the next head after `at`, or the end of the text. Successive calls must pass ascending `at`."""
        if self._upcoming <= at:
            head = self._any.search(self._text, at)
            self._upcoming = head.start(head.lastgroup or 0) if head else len(self._text)
        return self._upcoming

    def body_limit(self, brace: int) -> int:
        """Last possible end of the block whose opening brace is at `brace`."""
        return self.next_head(brace) if self.strict else len(self._text)

    def nested_head(self, start: int, end: int) -> int:
        """Position of the first head of this language in column one between `start` and `end`, or -1."""
        found = self._inner.search(self._text, start, end)
        return found.start() + 1 if found else -1

    def is_named_head(self, at: int) -> bool:
        """True if a kind and a name begin at `at` (column one), with or without a `{`."""
        return self._named.match(self._text, at) is not None

    def is_head_word(self, at: int) -> bool:
        """True if a keyword that opens a block begins at `at`."""
        return self._words.match(self._text, at) is not None
