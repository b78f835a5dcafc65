"""State of the recovery: tokens of a section, lark's state, the parser state, and the result so far."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any

from lark import Token

from dslc.blocks.values.names import possible_names
from dslc.diagnostics.collector import DiagnosticCollector
from dslc.syntax.delimiters import balance, bracket_balance, entry_end, list_end
from dslc.syntax.lark_parser import parser, tokens
from dslc.syntax.parser_state import ParserState
from dslc.syntax.tree import MissingToken, Node
from dslc.value_reading.check_state import CheckState, InvalidValue
from dslc.value_reading.value import read_value
from dslc.vocabulary import Vocabulary

VALUES = frozenset({"STRING", "LONG_STRING", "NUMBER", "LSQB"})
"""Types of tokens that can only be a value."""
ENDS = frozenset({"_NL", "RBRACE", "_COMMA", "$END"})
"""Types of tokens that end an entry."""

MAX_SHOWN = 60  # characters of a value in a hint


@dataclass
class RecoveryResult:
    """Result of the recovery; for the fields see `ParsedSection`."""

    blocks: list[Node]
    damaged: set[int] = field(default_factory=set)
    mentions: set[str] = field(default_factory=set)
    nameless: set[str] = field(default_factory=set)


class RecoveryState:
    """A section during recovery.

    `missing`, `excess`: number of missing or extra `}`. `brackets`: number of `[` minus number of `]`, without those in
    strings and comments.
    """

    def __init__(
        self, collector: DiagnosticCollector, text: str, vocabulary: Vocabulary, line: int, following: str
    ) -> None:
        self.collector = collector
        self.text = text
        self.vocabulary = vocabulary
        self.first_line = line
        self.following = following
        self.parser_state = ParserState(self.text, vocabulary)
        self.lark: Any = parser().parse_interactive(start="file")
        self.recovered = RecoveryResult([])
        self.discarded_heads: set[int] = set()  # positions of heads that are not blocks
        self.by_closing_word: set[int] = set()  # inserted `{` of bodies delimited by words such as `do` and `end`
        self.closing_words: set[int] = set()  # positions of these closing words
        self.closing_signs: set[int] = set()  # positions of the second sign of reported pairs
        self._not_found: set[str] = set()
        self.brackets = bracket_balance(self.text)
        self._budget = 20 * len(self.text)  # characters that may be scanned again for braces
        self.rescan(0)

    def seek(self, at: int) -> None:
        """Continue at the character `at`."""
        self._stream = tokens(self.text, at)
        self._ahead: list[Token] = []
        self._consumed = 0  # tokens of `_ahead` that were consumed

    def rescan(self, at: int) -> None:
        """Continue at `at`, inside a former token. The strings after it change, so the braces are counted again."""
        self.seek(at)
        if self._budget >= 0:
            self._budget -= len(self.text) - at
            without = self.by_closing_word
            depth = sum(frame.brace.start_pos not in without for frame in self.parser_state.frames)
            surplus = balance(self.text, at, depth)
            self.missing, self.excess = max(surplus, 0), max(-surplus, 0)

    def peek(self, number: int = 0) -> Token:
        """The unread token at `number` (0: the next one); `$END` after the last token."""
        number += self._consumed
        while len(self._ahead) <= number:
            end = len(self.text)
            self._ahead.append(next(self._stream, None) or Token("$END", "", start_pos=end, end_pos=end))
        return self._ahead[number]

    def advance(self) -> Token:
        """Consume the next token."""
        token = self.peek()
        self._consumed += 1
        if self._consumed > 1000:
            del self._ahead[: self._consumed]
            self._consumed = 0
        return token

    def insert(self, token: Token) -> None:
        """Insert a token before the next one."""
        self._ahead.insert(self._consumed, token)

    def replace(self, token: Token) -> None:
        """Replace the next token."""
        self.peek()
        self._ahead[self._consumed] = token

    def find(self, what: str, at: int) -> int:
        """Next position of `what` from `at` on, or -1. A text that was not found is not searched for again."""
        if what in self._not_found:
            return -1
        found = self.text.find(what, at)
        if found < 0:
            self._not_found.add(what)
        return found

    def after_line_end(self, number: int = 0) -> Token:
        """The unread token at `number`, or the one after it if that is a line end."""
        token = self.peek(number)
        return self.peek(number + 1) if token.type == "_NL" else token

    def drop(self) -> Token:
        """Skip the next token and remember its word."""
        token = self.advance()
        if token.type in {"WORD", "STRING"}:
            self.recovered.mentions.add(token.strip('"'))
        return token

    def mention(self, start: int = 0, end: int = sys.maxsize) -> None:
        """Remember the words between two positions, which are skipped and could be names."""
        self.recovered.mentions |= possible_names(self.text, start, end)

    def feed(self, type_: str, at: int, text: str = "") -> None:
        """Feed lark a token that the text lacks."""
        make = MissingToken if type_ == "WORD" and not text else Token
        token = make(type_, text, start_pos=at, end_pos=at)
        self.lark.feed_token(token)
        self.parser_state.consume(token)

    def feed_missing_value(self) -> None:
        """Feed a placeholder for the expected value, whose error has been reported."""
        self.feed("WORD", self.peek().start_pos or 0)

    def give_up(self) -> None:
        """Skip the rest of the section and close everything that is open, without a diagnostic."""
        at = len(self.text)
        self.seek(at)
        parser_state = self.parser_state
        while parser_state.lists:
            self.feed("RSQB", at)
        if parser_state.head and not parser_state.frames:
            self.abandon_head()
        if parser_state.expects_value:
            self.feed_missing_value()
        self.damage(everything=True)
        while parser_state.frames:
            self.feed("RBRACE", at)

    def abandon_head(self) -> None:
        """End a block without a body. A block of this language with a name still counts as declared."""
        head = self.parser_state.head
        at = head[-1].end_pos or 0
        if head[0] not in self.vocabulary.kinds or len(head) == 1:
            self.discarded_heads.add(head[0].start_pos or 0)
            self.recovered.nameless.add(str(head[0]))
            self.recovered.mentions |= {word.strip('"') for word in head}
        self.recovered.damaged.add(at)
        self.feed("LBRACE", at)
        self.feed("RBRACE", at)

    def skip_entry(self) -> None:
        """Continue at the end of the line or at the `}` of this level."""
        token = self.peek()
        if self.parser_state.expects_value:
            self.feed_missing_value()
        self.damage()
        start = token.start_pos or 0
        end = start if token.type == "_NL" else token.end_pos or 0
        if token.type == "LSQB":
            end = list_end(self.text, start, start)
        end = max(entry_end(self.text, end if token.type == "LSQB" else start), end)
        if end == start:  # otherwise the position would not change
            self.advance()
            return
        self.mention(start, end)
        self.seek(end)

    def damage(self, *, everything: bool = False) -> None:
        """Mark the innermost body, or all open bodies, as having lost a part."""
        for frame in self.parser_state.frames if everything else self.parser_state.frames[-1:]:
            self.recovered.damaged.add(frame.brace.start_pos or 0)

    def shown_head(self, head: list[Token], *, nested: bool | None = None) -> str:
        """A head as shown in messages. Only a block's name is included: the value of a setting may be a secret."""
        if not head:
            return "block"
        inside = bool(self.parser_state.frames) if nested is None else nested
        named = not inside and head[0] in self.vocabulary.kinds
        return " ".join(token[:80] for token in head) if named else str(head[0][:80])

    def shown_entry(self) -> str | None:
        """The current entry or head, completed by the next token, as it should be written. None if that token is not a
        valid value for it, or if the value may be a secret."""
        parser_state, token, setting = self.parser_state, self.peek(), self.parser_state.setting()
        head = " ".join(word[:80] for word in parser_state.head)
        if not parser_state.frames:
            opened = token.type == "LBRACE" and len(parser_state.head) == 2
            named = token.type in {"WORD", "STRING"} and len(parser_state.head) == 1
            known = parser_state.head[0] in self.vocabulary.kinds
            return f"{head} {token[:80]}{'' if opened else ' {'}" if known and (opened or named) else None
        if setting is None or setting.type == "secret":
            return None
        if token.type == "LBRACE":
            return f"{head} {{" if setting.takes_body(len(parser_state.head)) else None
        if token.type == "LSQB" and setting.many:
            return f"{head} […]"
        if token.type not in {"WORD", "STRING", "NUMBER"} or len(token) > MAX_SHOWN:
            return None
        context = CheckState(DiagnosticCollector(self.text), self.vocabulary)
        is_wrong = isinstance(read_value(context, setting, token), InvalidValue) or context.collector.found
        return None if is_wrong else f"{head} {token}"


def describe_token(token: Token) -> str:
    """Description of a token without its value, which may be a secret."""
    match token.type:
        case "STRING" | "LONG_STRING" | "UNCLOSED_STRING" | "UNCLOSED_LONG_STRING" | "SINGLE_QUOTED":
            return "string"
        case "NUMBER":
            return "number"
        case "WORD":
            return "word"
        case "_NL":
            return "end of the line"
        case "$END":
            return "end of the file"
        case "JUNK" if token[0].isprintable():
            return f"`{token[0]}`"
        case _ if token.isprintable():
            return f"`{token[:8]}`"
    return f"character U+{ord(token[0]):04X}"
