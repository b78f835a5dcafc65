"""Splits a text into its top-level sections by strings, comments and braces, before parsing.

Each section is parsed on its own: an error affects only its section, and after an edit only the changed sections are
parsed again. A block whose braces match is a section. Otherwise, the next head (`kind name {`) begins the next section,
because a body never contains one. Text that was cut off by an unmatched `}` is joined to its block again.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from types import MappingProxyType

from dslc.syntax.block_heads import BlockHeads
from dslc.syntax.delimiters import DELIMITER, GAP, LazyPattern, closing_braces
from dslc.syntax.foreign_blocks import ForeignBlocks
from dslc.syntax.section import Fault, Section
from dslc.syntax.tokens import COMMENT, LONG, NAME, STRING, UNCLOSED_STRING, WORD

MAX_BROKEN = 1000
"""Maximum number of faulty sections. After more, the rest of the file is not read, because it is not a program."""

_MAX_LOOKBACK = 1000  # sections searched backwards for the block of an unmatched `}`

_ADJACENT_TEXT = re.compile(r"[\w\"]")  # directly after a string: the quote may be inside a text
_REOPENED = re.compile(r"[ \t]*+\{")  # after a `}`: it does not end the block

_HEAD = re.compile(rf"{WORD}(?:[ \t]*+{NAME})?[ \t]*+(?:\}}[ \t]*+)?\{{")
_ENTRY = LazyPattern(rf"(?P<word>{WORD})(?P<group>[ \t]*+\{{)?")
_OPEN_HEAD = LazyPattern(rf"{WORD}(?:[ \t]*+{NAME})?[ \t]*+(?:{COMMENT})?[\r\n]")
_LINE = LazyPattern(rf'(?>(?:{LONG}|(?!""")(?:{STRING}|{UNCLOSED_STRING})|[^\n{{}}"/#]++|/(?!/))*)')

# A head without `{` and the lines below it that are indented.
_INDENTED_LINE = r"[ \t]++\S[^\n]*+"
_INDENTED = LazyPattern(
    rf'[^\n{{}}"]*+(?:"[^\n{{}}"]*+")?[^\n{{}}"]*+\n{_INDENTED_LINE}(?>(?:(?>(?:[ \t\r]*+\n)+){_INDENTED_LINE})*)'
)
# A head that ends with another language's sign for `{`, and the signs for `}`.
_OPENER = LazyPattern(r"[^\n{}]*?(?:[ \t](?:do|begin|then)|[(\[<])[ \t\r]*+\n")
_CLOSER = re.compile(r"\n(?:end|done|fi|[)\]>])[;,]?[ \t\r]*+(?=\n|\Z)")
# A head with invalid content, and a head on two lines (split before or within its name).
_MALFORMED_HEAD = LazyPattern(r"[^\n{}]*+\{[ \t\r]*+(?=\n|#|//)")
_SPLIT_HEAD = LazyPattern(rf"{WORD}[ \t\r]*+\n[ \t\r\n]*+(?P<name>{NAME})[ \t\r\n]*+\{{")
_SPLIT_NAME = LazyPattern(rf"{WORD}[ \t]++\"[^\"\n{{}}]{{0,64}}\n[^\"\n{{}}]{{0,64}}\"[ \t]*+\{{")
_FIRST_LINE = LazyPattern(r"[^\n]*+\n(?>(?:[ \t\r]*+\n)*)(?P<blank>[ \t]*+)")  # first line of a body
_REST_OF_LINE = LazyPattern(r"[^\r\n]*+")


def split(
    text: str, kinds: Mapping[str, Collection[str]], services: Mapping[str, Collection[str]] = MappingProxyType({})
) -> list[Section]:
    """The sections of a text, in order; only white space and comments are between them.

    `kinds`: block kinds of this language, with the names of their settings. `services`: by kind, the names that a block
    of it cannot have.
    """
    return _Splitter(text, kinds, services).sections()


class _Splitter:
    """State of `split`: the sections found so far, and what is needed to join or abandon them."""

    def __init__(
        self, text: str, kinds: Mapping[str, Collection[str]], services: Mapping[str, Collection[str]]
    ) -> None:
        self.text = text
        self._kinds = kinds
        self._heads = BlockHeads(text, kinds, services)
        self._foreign = ForeignBlocks(text, self._heads, kinds.get("agent", ()))
        self._broken = 0
        self._not_found: set[str] = set()  # texts that do not occur after the current position
        self._closer = (-1, -1)  # start and end of the next `end` or similar closing word
        self.found: list[Section] = []

    def sections(self) -> list[Section]:
        """Return all sections of the text."""
        text, found = self.text, self.found
        at = self._skip_gap(0)
        while at < len(text):
            section = self._foreign.section(at) or self._block_or_line(at)
            if section.fault is not None:
                self._broken += 1
                if self._broken > MAX_BROKEN:
                    section = Section(at, len(text), Fault.UNREAD)
                elif text[at] == "}":
                    section = self._join_stray_brace(section)
            found.append(section)
            at = self._skip_gap(section.end)
        return found

    def _skip_gap(self, at: int) -> int:
        return GAP.match(self.text, at).end()  # type: ignore[union-attr]

    def _block_or_line(self, at: int) -> Section:
        """The block that begins at `at`, or its line if none does."""
        text = self.text
        head = _HEAD.match(text, at)
        if head is not None:
            return self._cut_at_nested_head(self._braced_section(at, head.end() - 1))
        head = _OPEN_HEAD.match(text, at)
        if head is not None:
            brace = self._skip_gap(head.end())
            if text[brace : brace + 1] == "{":
                return self._braced_section(at, brace)
        brace = self._irregular_head(at) if self._heads.is_head_word(at) else -1
        if brace >= 0:
            return self._cut_at_nested_head(self._braced_section(at, brace))
        beyond = self._comment_or_conflict_end(at)
        if beyond > at:
            return Section(at, beyond, Fault.OUTSIDE)
        end = _LINE.match(text, at).end()  # type: ignore[union-attr]
        if text[end : end + 1] == "{":
            return self._before_brace(at, end)
        return self._headless_lines(at, end) or self._rest_of_line(at, end)

    def _irregular_head(self, at: int) -> int:
        """Position of the `{` of a malformed head or a head on two lines; -1 if there is none."""
        torn = _MALFORMED_HEAD.match(self.text, at)
        if torn is not None:
            return self.text.rindex("{", at, torn.end())
        split = _SPLIT_NAME.match(self.text, at)
        if split is None:
            split = _SPLIT_HEAD.match(self.text, at)
            split = None if split is None or self._heads.is_head_word(split.start("name")) else split
        return -1 if split is None else split.end() - 1

    def _before_brace(self, at: int, brace: int) -> Section:
        """The text before a `{` on its line that is not a valid head, with the body that the brace opens."""
        braces = self._braced_section(at, brace)
        if brace > at:
            return braces
        return Section(at, braces.end, braces.fault or Fault.OUTSIDE, deepest=braces.deepest)

    def _rest_of_line(self, at: int, end: int) -> Section:
        """The rest of a line, up to the first part that cannot be read."""
        if self.text.startswith('"""', end):
            return Section(at, self._heads.next_head(at), Fault.OUTSIDE)
        if end == at:
            end += 1
        return Section(at, end - (self.text[end - 1] == "\r"), Fault.OUTSIDE)

    def _headless_lines(self, at: int, end: int) -> Section | None:
        """A body after a head without `{`, or lines without a head, beginning with this line, or None."""
        beyond = max(self._word_body_end(at), self._indented_body_end(at))
        if beyond > end:
            return Section(at, beyond, Fault.OUTSIDE)
        beyond = self._heads.end_of_lines(at)
        return Section(at, beyond, Fault.HEADLESS) if beyond > at else None

    def _word_body_end(self, at: int) -> int:
        """End of a body delimited by words such as `do` and `end`, if it ends before the next head; else `at`."""
        head = _OPENER.match(self.text, at) if self._column(at) == 0 and self._heads.is_named_head(at) else None
        if head is None:
            return at
        if self._closer[0] < head.end() - 1:
            closer = _CLOSER.search(self.text, head.end() - 1)
            self._closer = closer.span() if closer else (len(self.text), len(self.text))
        start, end = self._closer
        return end if start < min(self._heads.next_head(at), len(self.text)) else at

    def _indented_body_end(self, at: int) -> int:
        """End of the lines indented below a head without `{`, up to the next head; `at` if there are none."""
        if self._column(at) != 0 or not self._heads.is_named_head(at):
            return at
        lines = _INDENTED.match(self.text, at)
        return at if lines is None else min(lines.end(), self._heads.next_head(at))

    def _comment_or_conflict_end(self, at: int) -> int:
        """End of a `/* … */` comment or an unresolved merge conflict that begins at `at`; `at` if there is none."""
        for opened, closed in (("/*", "*/"), ("<<<<<<<", "\n>>>>>>>")):
            if self.text.startswith(opened, at) and closed not in self._not_found:
                end = self.text.find(closed, at)
                if end >= 0:
                    return _REST_OF_LINE.match(self.text, end + len(closed)).end() if closed[0] == "\n" else end + 2  # type: ignore[union-attr]
                self._not_found.add(closed)
        return at

    def _cut_at_nested_head(self, block: Section) -> Section:
        """The block, or only its part before a nested head in column one: in that case a `}` is missing before the
        head."""
        at = self._heads.nested_head(block.start, block.end)
        if at < 0 or block.fault is not None:
            return block
        for mark in DELIMITER.finditer(self.text, block.start, block.end):
            if at <= mark.start():
                break
            if at < mark.end():  # a line of a text or comment
                at = self._heads.nested_head(mark.end() - 1, block.end)
                if at < 0:
                    return block
        self._heads.strict = True
        return Section(block.start, at, Fault.UNCLOSED, deepest=block.deepest)

    def _braced_section(self, at: int, brace: int) -> Section:
        """The section from `at` to the `}` that matches the brace (or the `)` of `({ … })`), or to the next head if
        none does."""
        depth = lists = deepest = 0
        text_after_string = False
        for mark in DELIMITER.finditer(self.text, brace, self._heads.body_limit(brace)):
            sign, count = mark[0][0], mark.end() - mark.start()
            if sign == "{":
                depth += count
                deepest = max(deepest, depth + lists)
            elif sign == "}":
                if count >= depth and not _REOPENED.match(self.text, mark.end()):
                    end = mark.start() + depth
                    end += self.text[end : end + 1] == ")" and self.text[brace - 1 : brace] == "("
                    return Section(at, end, deepest=deepest, text_after_string=text_after_string)
                depth, lists = max(depth - count, 0), 0
            elif sign == "[":
                lists += count
                deepest = max(deepest, depth + lists)
            elif sign == "]":
                lists -= min(count, lists)
            elif sign == '"':
                text_after_string = text_after_string or _ADJACENT_TEXT.match(self.text, mark.end()) is not None
                depth -= min(closing_braces(mark[0]), depth) if mark.lastgroup == "unclosed" else 0
                if depth == 0:
                    return Section(at, mark.end(), deepest=deepest)
        self._heads.strict = True
        return Section(at, self._heads.next_head(brace), Fault.UNCLOSED, deepest=deepest)

    def _join_stray_brace(self, stray: Section) -> Section:
        """Join an unmatched top-level `}` with its block and with all sections after that block.

        Its block is the last one that is not indented further than the `}`: either it was closed too early, or its head
        has no `{`.
        """
        found = self.found
        first = self._owner_index(self._column(stray.start))
        if len(found) - first >= _MAX_LOOKBACK:
            return stray
        if first < 0 or (first + 1 < len(found) and self._closes_properly(found[first])):
            return self._merge(first + 1, stray, Fault.HEADLESS) if first + 1 < len(found) else stray
        if found[first].foreign or found[first].fault is Fault.UNCLOSED:
            return stray
        return self._merge(first, stray, Fault.JOINED)

    def _owner_index(self, column: int | None) -> int:
        """Index of the section that a stray `}` in this column may belong to, or -1."""
        first = len(self.found) - 1
        while first >= 0 and len(self.found) - first < _MAX_LOOKBACK:
            section = self.found[first]
            further_right = column is not None and (self._column(section.start) or 0) > column
            if not further_right and not self._is_body_part(first):
                break
            first -= 1
        return first

    def _is_body_part(self, number: int) -> bool:
        """True if a section can only be part of a body."""
        section = self.found[number]
        if self._heads.is_named_head(section.start):  # `memory m`, a head without `{` or a setting of that name
            return section.fault is Fault.OUTSIDE and number > 0 and self._continues(self.found[number - 1], section)
        return section.fault in {Fault.OUTSIDE, Fault.HEADLESS} or self._is_entry(section)

    def _is_entry(self, section: Section) -> bool:
        """True if a section begins with a group (blocks never do) or with the name of a setting."""
        entry = _ENTRY.match(self.text, section.start)
        if entry is None or self._heads.is_head_word(section.start):
            return entry is not None and entry["group"] is not None
        return entry["group"] is not None or any(entry["word"] in settings for settings in self._kinds.values())

    def _continues(self, above: Section, section: Section) -> bool:
        """True if a section directly follows, on the next line, a section that is not a block."""
        return above.fault in {Fault.OUTSIDE, Fault.HEADLESS} and self.text.count("\n", above.end, section.start) < 2

    def _merge(self, first: int, last: Section, fault: Fault) -> Section:
        """Replace the sections from index `first` on, and `last`, by one section."""
        sections = [*self.found[first:], last]
        del self.found[first:]
        return Section(sections[0].start, last.end, fault, deepest=max(section.deepest for section in sections) + 1)

    def _closes_properly(self, block: Section) -> bool:
        """True if the `}` of a block is on its own line, not indented further than the head, after an indented body."""
        head, brace = self._column(block.start), self._column(block.end - 1)
        inside = _FIRST_LINE.match(self.text, block.start)
        if block.fault is not None or head is None or brace is None or inside is None:
            return False
        return brace <= head < len(inside["blank"])

    def _column(self, at: int) -> int | None:
        """Number of characters before `at` if they are all white space, else None."""
        before = self.text[self.text.rfind("\n", 0, at) + 1 : at]
        return None if before.strip(" \t") else len(before)
