"""Blocks of the wider Symbiont language: skipped as a whole, by their braces, because they have a different syntax.

Their keywords and shapes: `metadata`, `policy`, `schedule`, `channel` and `function` with any head up to its `{`;
`type` likewise, or `type A = B` without a body; and `agent NAME(…) … { … }`. Parentheses in a head may span lines.
`agent NAME { … }` is one if its body has a `policy NAME {`, a `function NAME(…) … {`, a `with … {`, or `capabilities`
with `:` or `=`, of its own, and no setting of an agent of this language.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from dslc.syntax.block_heads import FOREIGN_KINDS, BlockHeads
from dslc.syntax.delimiters import FOREIGN_DELIMITER, WHITESPACE, LazyPattern
from dslc.syntax.section import Fault, Section
from dslc.syntax.tokens import COMMENT, NAME, STRING, WORD, WORD_END

_OPENING = re.compile(rf"(?:{'|'.join(FOREIGN_KINDS)}){WORD_END}|agent{WORD_END}[ \t]*+{NAME}[ \t]*+(?=[({{])")
_HEAD = LazyPattern(rf'(?>(?:{STRING}|[^\n{{}}("/#]++|/(?!/)|")*)')
_PARENTHESIS = LazyPattern(rf"{STRING}|{COMMENT}|\(++|\)++|[{{}}]")
_NEXT_LINE = LazyPattern(rf"[ \t\r]*+(?:{COMMENT})?(?:\n(?:[ \t]++(?![\s}}])|(?=\{{)))")
_MEMBER = LazyPattern(
    rf"(?:^|[\n;{{}}])[ \t\r]*+(?:(?:policy|function|with)[ \t]++{WORD}[^\n;{{}}]*+\{{|capabilities[ \t]*+[:=])"
)
_ENTRY = LazyPattern(rf"(?:^|[\n;{{}}])[ \t\r]*+(?P<key>{WORD})")
_EQUALS = LazyPattern(rf"{STRING}|{COMMENT}|[()=]")


class ForeignBlocks:
    """The blocks of the wider language in one text. `settings`: names of the settings of an agent of this language."""

    def __init__(self, text: str, heads: BlockHeads, settings: Collection[str]) -> None:
        self._text = text
        self._heads = heads
        self._settings = settings
        self._budget = 4 * len(text)  # characters that unsuccessful searches for `)` may read

    def section(self, at: int) -> Section | None:
        """The block that begins at `at`, or None."""
        word = _OPENING.match(self._text, at)
        if word is None:
            return None
        if word[0].startswith("agent") and self._text[word.end()] == "{":
            return self._agent(at, word.end())
        end = self._head_end(word.end())
        if end < 0:
            return None
        if self._text[end : end + 1] == "{":
            return self._body(at, end)
        if self._text[end : end + 1] not in {"", "\n", "#", "/"}:
            return None
        head = self._text[at:end].rstrip(WHITESPACE)
        if word[0] == "type" and _equates(head):
            return Section(at, at + len(head), foreign=True, head_end=at + len(head))
        return self._multiline_head(at, end)

    def _agent(self, at: int, brace: int) -> Section | None:
        """The agent without arguments whose body begins at `brace`; None if it is not one of the wider language."""
        limit = self._heads.next_head(brace)
        if _MEMBER.compiled.search(self._text, brace, limit) is None:
            return None
        depth, since, parts = 0, brace, []
        for mark in FOREIGN_DELIMITER.finditer(self._text, brace, limit):
            sign, count = mark[0][0], mark.end() - mark.start()
            if depth == 1:
                parts.append(self._text[since : mark.start()])
            since = mark.end()
            if sign == "}" and count >= depth:
                body = "".join(parts)
                keys = {entry["key"] for entry in _ENTRY.finditer(body)}
                foreign = _MEMBER.compiled.search(body) is not None and keys.isdisjoint(self._settings)
                return self._body(at, brace) if foreign else None
            depth += count * ((sign == "{") - (sign == "}"))
            if depth <= 2 and sign in "{}":
                parts.append(sign)
        return None

    def _multiline_head(self, at: int, line: int) -> Section | None:
        """A block whose head continues below its first line, which is not allowed: the whole block is one error."""
        end = self._lines_end(line)
        if self._text[end : end + 1] == "{":
            return Section(at, self._body(at, end).end, Fault.OUTSIDE)
        self._budget -= end - line
        return None

    def _head_end(self, at: int) -> int:
        """End of a head: before `{`, a comment or the end of the line; -1 if its parentheses are not closed."""
        while True:
            at = _HEAD.match(self._text, at).end()  # type: ignore[union-attr]
            if self._text[at : at + 1] != "(":
                return at
            at = self._parentheses_end(at)
            if at < 0:
                return -1

    def _lines_end(self, at: int) -> int:
        """End of a head that continues on indented lines, or with its `{` on the next line."""
        while self._budget > 0:
            further = _NEXT_LINE.match(self._text, at)
            if further is None or self._heads.is_head_word(further.end()):
                break
            end = self._head_end(further.end())
            if end < 0:
                break
            at = end
        return at

    def _parentheses_end(self, start: int) -> int:
        """Position after the parentheses that begin at `start`, or -1 if they are not closed before a brace."""
        if self._budget <= 0:
            return -1
        depth, at = 0, len(self._text)
        for mark in _PARENTHESIS.finditer(self._text, start):
            sign, count = mark[0][0], mark.end() - mark.start()
            if sign == ")" and count >= depth:
                return mark.start() + depth
            if sign in "{}":
                at = mark.start()
                break
            depth += count * ((sign == "(") - (sign == ")"))
        self._budget -= at - start
        return -1

    def _body(self, at: int, brace: int) -> Section:
        head_end = at + len(self._text[at:brace].rstrip(WHITESPACE))
        depth = 0
        for mark in FOREIGN_DELIMITER.finditer(self._text, brace, self._heads.body_limit(brace)):
            sign, count = mark[0][0], mark.end() - mark.start()
            if sign == "}" and count >= depth:
                return Section(at, mark.start() + depth, foreign=True, head_end=head_end)
            depth += count * ((sign == "{") - (sign == "}"))
        self._heads.strict = True
        return Section(at, self._heads.next_head(brace), Fault.UNCLOSED, foreign=True, head_end=head_end)


def _equates(head: str) -> bool:
    """True if the head has a `=` outside strings and parentheses."""
    depth = 0
    for mark in _EQUALS.finditer(head):
        if mark[0] == "=" and depth == 0:
            return True
        depth = max(depth + (mark[0] == "(") - (mark[0] == ")"), 0)
    return False
