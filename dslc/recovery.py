"""Reads on after a syntax error: one diagnostic for each mistake, and everything else as it was meant.

lark is fed token by token. Before a token goes in, what the structure says about it is asked (`_foresee`: a brace that
is missing shows in the indentation and in which settings are legal where); a token that lark does not take is explained
by the first rule that fits, and the rule mends: it feeds what is missing, or leaves out what is too much.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from lark import Token, UnexpectedToken

from dslc.check.kind import unknown_kind
from dslc.diagnostic import Label
from dslc.example import example
from dslc.findings import Findings, Place
from dslc.nearest import listing, nearest
from dslc.parser import parser, tokens
from dslc.scene import Frame, Scene
from dslc.segment import ELSEWHERE, balance, closers, entry_end, list_end, matching
from dslc.source import Span
from dslc.tree import Absent, BlockNode, Node
from dslc.vocabulary import Vocabulary

_DEEPEST = 64
_MOST = 1000  # errors after which the rest of a piece is not read
_VALUES = {"STRING", "LONG_STRING", "NUMBER", "LSQB"}
_BAD = {"UNCLOSED_STRING", "UNCLOSED_LONG_STRING", "SINGLE_QUOTED", "SIGN", "JUNK", "LBRACE", "RBRACE", "$END"}
_NAMES = {"word", "name", "reference", "variant", "boolean"}  # types of settings whose value may be a bare word
_BARE = re.compile(r"[^\s{}\[\],\"']{1,200}")


@dataclass
class Mended:
    """What could be read: see `Reading` for the fields."""

    blocks: list[Node]
    damaged: set[int] = field(default_factory=set)
    mentions: set[str] = field(default_factory=set)
    nameless: set[str] = field(default_factory=set)


def mend(findings: Findings, vocabulary: Vocabulary, line: int, following: str, *, headless: bool = False) -> Mended:
    """Read a piece that has a syntax error; what is wrong goes into `findings`.

    `line`: the number of its first line. `following`: the first word of the next piece, when that begins where a body
    of this one was still open. `headless`: it is a body without the head of its block.
    """
    return _Mender(findings, vocabulary, line, following, headless=headless).read()


class _Mender:
    def __init__(
        self, findings: Findings, vocabulary: Vocabulary, line: int, following: str, *, headless: bool
    ) -> None:
        self.headless = headless
        self.findings = findings
        self.text = findings.text
        self.vocabulary = vocabulary
        self.first_line = line
        self.following = following
        self.scene = Scene(self.text, vocabulary)
        self.state: Any = parser().parse_interactive(start="file")
        self.done = Mended([])
        self.void: set[int] = set()  # heads that were no blocks
        surplus = balance(self.text)
        self.missing, self.excess = max(surplus, 0), max(-surplus, 0)
        self.seek(0)

    # -- tokens ------------------------------------------------------------------------------------------------------

    def seek(self, at: int) -> None:
        """Go on at the character `at`."""
        self._stream = tokens(self.text, at)
        self._ahead: list[Token] = []
        self._read = 0  # of those ahead

    def peek(self, number: int = 0) -> Token:
        """A token that was not read yet; `$END` after the last."""
        number += self._read
        while len(self._ahead) <= number:
            end = len(self.text)
            self._ahead.append(next(self._stream, None) or Token("$END", "", start_pos=end, end_pos=end))
        return self._ahead[number]

    def advance(self) -> Token:
        """Take the next token off."""
        token = self.peek()
        self._read += 1
        if self._read > 1000:
            del self._ahead[: self._read]
            self._read = 0
        return token

    def after_break(self, number: int = 0) -> Token:
        """The next token, or the one behind a line's end."""
        token = self.peek(number)
        return self.peek(number + 1) if token.type == "_NL" else token

    def drop(self) -> Token:
        """Leave out the next token, and remember its word."""
        token = self.advance()
        if token.type in {"WORD", "STRING"}:
            self.done.mentions.add(token.strip('"'))
        return token

    def feed(self, type_: str, at: int, text: str = "") -> None:
        """Feed a token that the text lacks."""
        make = Absent if type_ == "WORD" and not text else Token
        token = make(type_, text, start_pos=at, end_pos=at)
        self.state.feed_token(token)
        self.scene.take(token)

    def value_is_lost(self) -> None:
        """Give the awaited value as one that was reported."""
        self.feed("WORD", self.peek().start_pos or 0)

    # -- the loop ----------------------------------------------------------------------------------------------------

    def read(self) -> Mended:
        if self.headless:
            self._no_head()
            return self.done
        if self._is_foreign():
            return self.done
        while True:
            token = self.peek()
            if len(self.findings.found) >= _MOST:
                self._give_up()
                break
            if token.type == "_NL" and self.scene.breaks:  # what stood between two line ends was left out
                self.advance()
                continue
            if self._foresee(token):
                continue
            if token.type == "$END" and not self.scene.frames and not self.scene.head and not self.scene.lists:
                break
            try:
                self.state.feed_token(token)
            except UnexpectedToken:
                self._explain(token)
            else:
                self.scene.take(token)
                self.advance()
        blocks: tuple[BlockNode, ...] = self.state.feed_token(Token("$END", ""))
        self.done.blocks += [block for block in blocks if block.start_pos not in self.void]
        return self.done

    def _give_up(self) -> None:
        """Close what is open without another word."""
        at = len(self.text)
        self.seek(at)
        scene = self.scene
        while scene.lists:
            self.feed("RSQB", at)
        if scene.head and not scene.frames:
            self._abandon_head()
        if scene.awaits_value:
            self.value_is_lost()
        self._damage(everything=True)
        while scene.frames:
            self.feed("RBRACE", at)

    def _no_head(self) -> None:
        """Settings and a `}`, and no head of a block before them."""
        message = "these settings stand in no block: its head is missing"
        hint = f"a block is `kind name {{ … }}`; kinds are {listing(self.vocabulary.kinds)}"
        self.findings.add("S109", message, self.peek(), hint=hint)
        self.done.mentions |= _words(self.text[:100_000])
        self.done.nameless |= set(self.vocabulary.kinds)

    def _is_foreign(self) -> bool:
        """A block of a kind that nobody knows, with a syntax of its own: its kind is the one mistake."""
        word = self.peek()
        if word in ELSEWHERE:
            message = f"the head of this `{word}` does not end in `{{` on its line"
            hint = "only parentheses that close may go over lines"
            self.findings.add("S109", message, word, hint=hint)
            self.done.mentions |= _words(self.text[:100_000])
            return True
        if word.type != "WORD" or word in self.vocabulary.kinds or "{" not in self.text:
            return False
        named = self.peek(1).type in {"WORD", "STRING"}
        if nearest(word, self.vocabulary.kinds) is not None or self.peek(1 + named).type == "SIGN":
            return False
        if self.peek(1 + named).type == "LBRACE" or self.peek(1).type == "JUNK" or self.peek(2).type == "JUNK":
            unknown_kind(self.findings, word, self.vocabulary, named=named)
            self.done.mentions |= _words(self.text[:100_000])
            return True
        return False

    # -- what the structure says before a token goes in ----------------------------------------------------------------

    def _foresee(self, token: Token) -> bool:
        return any(look(self, token) for look in _FORESIGHT)

    def _too_deep(self, token: Token) -> bool:
        scene = self.scene
        if token.type not in {"LBRACE", "LSQB"} or len(scene.frames) + len(scene.lists) < _DEEPEST:
            return False
        self.findings.add("S108", "nested deeper than 64 levels", token, hint="use fewer levels")
        if scene.awaits_value or scene.lists:
            self.value_is_lost()
        self._damage()
        self.seek(matching(self.text, token.start_pos or 0))
        return True

    def _brace_on_next_line(self, token: Token) -> bool:
        scene = self.scene
        if token.type != "_NL" or self.peek(1).type != "LBRACE" or not scene.head or scene.lists:
            return False
        setting = scene.setting()
        if len(scene.head) > 2 or (setting is not None and setting.type != ("group", "variant")[len(scene.head) - 1]):
            return False
        head = self._head(scene.head)
        shown = f"{head} … {{" if scene.frames and len(scene.head) > 1 else f"{head} {{"
        message = "`{` does not stand on the line of its head"
        self.findings.add("S109", message, self.peek(1), hint=f"write `{shown}`")
        self.drop()
        return True

    def _body_ends_by_indentation(self, token: Token) -> bool:
        """A setting that stands no further right than the head of its body, while a `}` is missing."""
        scene = self.scene
        if not (self.missing and scene.frames and scene.awaits_entry and token.type in {"WORD", "RBRACE"}):
            return False
        frame, column = scene.frames[-1], scene.column(token)
        further_left = column is not None and frame.column is not None
        if token.type == "RBRACE":
            if not (further_left and column < frame.column):  # type: ignore[operator]
                return False
            self._unclosed(frame, token, "this closes an outer block")
        else:
            known = len(scene.frames) > 1 and token not in scene.legal() and token in scene.legal(1)
            outside = len(scene.frames) == 1 and self._is_head(token)
            left = further_left and column <= frame.column  # type: ignore[operator]
            if not (left or known) or (len(scene.frames) == 1 and not outside):
                return False
            self._unclosed(frame, token, "this is outside of it")
        return True

    def _is_head(self, word: Token) -> bool:
        """Whether a block of ours begins at this word."""
        named = self.peek(1).type in {"WORD", "STRING"}
        return word in self.vocabulary.kinds and named and self.peek(2).type == "LBRACE"

    def _closes_too_early(self, token: Token) -> bool:
        """A `}` that is too much and after which the block goes on."""
        scene = self.scene
        if token.type != "RBRACE" or not self.excess or len(scene.frames) != 1 or not scene.awaits_entry:
            return False
        after = self.after_break(1)
        if after.type == "$END" or (after.type == "WORD" and after not in scene.legal()):
            return False
        column, frame = scene.column(token), scene.frames[0]
        deeper = column is not None and frame.column is not None and column > frame.column
        if after.type != "WORD" and not deeper:
            return False
        self._stray(token)
        return True

    def _brace_is_missing(self, token: Token) -> bool:
        """A head whose body follows without `{`."""
        scene = self.scene
        if not self.excess or not self._could_open() or token.type not in {"_NL", "WORD", "RBRACE"}:
            return False
        follows = self.after_break() if token.type == "_NL" else token
        inside, setting = scene.inside(scene.head), scene.setting()
        if follows.type == "WORD":
            if follows not in inside or (setting and setting.type == "variant" and follows in scene.legal()):
                return False
        elif follows.type != "RBRACE" or token.type == "_NL" or (setting and setting.type == "variant"):
            return False
        last = scene.head[-1].end_pos or 0
        head, code = self._head(scene.head), "S101" if len(scene.head) == 1 and scene.frames else "S109"
        what = f"`{head}` has no value" if code == "S101" else f"`{{` is missing after `{head}`"
        self.findings.add(code, what, Place(last, last + 1), hint=f"write `{head} {{`")
        self.feed("LBRACE", last)
        self.excess -= 1
        return True

    def _could_open(self) -> bool:
        """Whether what stands here so far is a head that a body may follow."""
        scene = self.scene
        if not scene.head or scene.lists:
            return False
        if not scene.frames:
            return scene.head[0] in self.vocabulary.kinds and len(scene.head) == 2
        setting = scene.setting()
        return setting is not None and setting.type == {1: "group", 2: "variant"}.get(len(scene.head))

    def _bracket_is_missing(self, token: Token) -> bool:
        """`tools search remember]`: a list that lacks its `[`."""
        setting = self.scene.setting() if self.scene.awaits_value else None
        items = {"WORD", "STRING", "NUMBER", "_COMMA", "_NL"}
        if setting is None or not setting.many or setting.type == "group" or token.type not in items:
            return False
        if self.text.count("]") <= self.text.count("["):
            return False
        number = 0
        while self.peek(number).type in items:
            number += 1
        if self.peek(number).type != "RSQB":
            return False
        end = self.scene.head[0].end_pos or 0
        place = token if token.type != "_NL" else Place(end, end + 1)
        self.findings.add("S109", "`[` is missing before this list", place, hint="add `[`")
        self.feed("LSQB", token.start_pos or 0)
        return True

    def _key_as_value(self, token: Token) -> bool:
        """`json_path equals "opened"`: the word taken for a value is a key, and what stands before it has none."""
        scene, after = self.scene, self.peek(1)
        legal = scene.legal()
        if token.type != "WORD" or not scene.awaits_value or token not in legal:
            return False
        setting = legal.get(scene.head[0])
        names = setting is None or setting.type in _NAMES
        if after.type == "WORD":
            known = after in legal and after not in {"true", "false"}
            mistaken = not names and not known
        elif after.type == "LBRACE":
            mistaken = legal[token].type == "group" and not (setting and setting.type == "variant")
        else:
            mistaken = after.type in {*_VALUES, "UNCLOSED_STRING"}
        if mistaken:
            self._no_value()
        return mistaken

    def _list(self, token: Token) -> bool:
        """A list is looked through before it goes in, for it could not be taken back."""
        scene = self.scene
        if token.type != "LSQB" or scene.lists or not (scene.awaits_value or not scene.frames):
            return False
        depth = number = 0
        while True:
            item = self.peek(number)
            number += 1
            depth += (item.type == "LSQB") - (item.type == "RSQB")
            if depth == 0 or depth + len(scene.frames) > _DEEPEST:
                return False
            if item.type in _BAD:
                break
            if item.type == "_COMMA" and self.peek(number - 2).type in {"LSQB", "_COMMA"}:
                break
            if self._next_setting(number, item):
                break
        self._bad_list(token, number - 1)
        return True

    def _next_setting(self, number: int, item: Token) -> bool:
        """Whether the line after this line's end begins with a setting of the body: then the list was not closed."""
        if item.type != "_NL" or not self.missing_bracket():
            return False
        return self.peek(number) in self.scene.legal() and self.peek(number + 1).type in {*_VALUES, "WORD", "LBRACE"}

    def missing_bracket(self) -> bool:
        """Whether the piece opens more lists than it closes."""
        return self.text.count("[") > self.text.count("]")

    def _bad_list(self, opened: Token, number: int) -> None:
        bad = self.peek(number)
        label = [self.findings.label("the list begins here", opened)]
        if bad.type in {"LBRACE", "RBRACE", "$END", "_NL"}:
            self.findings.add("S109", "the list is not closed", opened, hint="add `]`")
        elif bad.type in {"UNCLOSED_STRING", "UNCLOSED_LONG_STRING"}:
            self._unclosed_string(bad)
        elif bad.type == "SINGLE_QUOTED":
            self._add_single_quotes(bad)
        elif bad.type == "_COMMA":
            self.findings.add("S109", "two commas in a row", bad, hint="remove one", labels=label)
        else:
            hint = 'words, numbers and strings can; other text stands in `"`'
            self.findings.add("S109", f"{_shown(bad)} cannot stand in a list", bad, hint=hint, labels=label)
        if self.scene.awaits_value:
            self.value_is_lost()
        self._damage()
        start, end = opened.start_pos or 0, bad.start_pos or 0
        self.done.mentions |= _words(self.text[start : min(end, start + 100_000)])
        if bad.type in {"LBRACE", "RBRACE", "$END", "_NL"}:
            self.seek(end)
        elif bad.type == "UNCLOSED_STRING":
            self.seek(bad.end_pos or 0)
            self._swallowed(bad)
        else:
            self.seek(list_end(self.text, start, bad.end_pos or 0))

    # -- what is wrong with a token that was not taken -----------------------------------------------------------------

    def _explain(self, token: Token) -> None:
        for rule in _RULES:
            if rule(self, token):
                return

    def _in_list(self, token: Token) -> bool:
        """A list that could not be looked through, for it is nested too deep: that is reported."""
        if not self.scene.lists:
            return False
        if token.type in {"LBRACE", "RBRACE", "$END"}:
            while self.scene.lists:
                self.feed("RSQB", token.start_pos or 0)
        else:
            self.drop()
        return True

    def _no_value_here(self, token: Token) -> bool:
        if not self.scene.awaits_value or token.type not in {"_NL", "RBRACE", "_COMMA", "$END"}:
            return False
        follows = token.type == "_NL" and self.peek(1).type in _VALUES
        self._no_value(lost=not follows)
        if follows:
            self.advance()
        return True

    def _no_value(self, *, lost: bool = True) -> None:
        key = self.scene.head[0]
        setting = self.scene.setting()
        # A word that is no setting is not shown: it may be the lost value of one.
        what = f"`{setting.name}`" if setting else "this word"
        hint = f"such as `{example(setting)}`" if setting else "a setting's value stands on its line: `key value`"
        end = key.end_pos or 0
        self.findings.add("S101", f"{what} has no value", Place(end, end + 1), hint=hint)
        if setting is None:
            self._damage()
            self.done.mentions.add(str(key))
        if lost:
            self.value_is_lost()

    def _string(self, token: Token) -> bool:
        if token.type not in {"UNCLOSED_STRING", "UNCLOSED_LONG_STRING"}:
            return False
        self._unclosed_string(token)
        self.drop()
        if self.scene.awaits_value:
            self.value_is_lost()
        self._damage(everything=token.type == "UNCLOSED_LONG_STRING")
        self._swallowed(token)
        return True

    def _unclosed_string(self, token: Token) -> None:
        start = token.start_pos or 0
        end = self.text.find("\n", start)
        end = len(self.text) if end < 0 else end
        place = Place(start, end - 1 if self.text[end - 1 : end] == "\r" else end)
        if token.type == "UNCLOSED_LONG_STRING":
            self.findings.add("S102", 'the long string is not closed by `"""`', place, hint='add `"""`')
        else:
            hint = 'add `"` at its end; a text over several lines stands in `"""`'
            self.findings.add("S102", "the string is not closed", place, hint=hint)

    def _swallowed(self, token: Token) -> None:
        """Close what the text of an unclosed string was meant to close."""
        if token.type == "UNCLOSED_LONG_STRING":
            self.done.mentions |= _words(token[:100_000])
            while self.scene.frames:
                self.feed("RBRACE", token.end_pos or 0)
            self.missing = 0
            return
        self.done.mentions |= _words(token)
        for _ in range(min(closers(token), len(self.scene.frames))):
            self.feed("RBRACE", token.end_pos or 0)

    def _single_quotes(self, token: Token) -> bool:
        if token.type != "SINGLE_QUOTED":
            return False
        plain = self._add_single_quotes(token)
        self.advance()
        if self.scene.awaits_value or self.scene.lists or (not self.scene.frames and len(self.scene.head) == 1):
            if plain:
                quoted = Token("STRING", f'"{token[1:-1]}"', start_pos=token.start_pos, end_pos=token.end_pos)
                self._ahead.insert(self._read, quoted)
            else:
                self.value_is_lost()
        else:
            self._skip()
        return True

    def _add_single_quotes(self, token: Token) -> bool:
        """Note the quotes; whether double ones can simply take their place."""
        start, end = token.start_pos or 0, token.end_pos or 0
        plain = len(token) > 1 and token.endswith("'") and not set('"\\') & set(token)
        fix = self.findings.fix("use double quotes", (start, start + 1, '"'), (end - 1, end, '"')) if plain else None
        self.findings.add("S106", "a string stands in double quotes", token, hint='use `"`', fix=fix)
        return plain

    def _sign(self, token: Token) -> bool:
        scene, start, end = self.scene, token.start_pos or 0, token.end_pos or 0
        if token.type != "SIGN" or scene.breaks or scene.lists or not scene.head:
            return False
        if (scene.frames and len(scene.head) != 1) or self.text.startswith("://", start):
            return False
        key = self._head(scene.head)
        after = end + len(self.text[end:]) - len(self.text[end:].lstrip(" \t")) if end - start < 9 else end
        spaced = self.text[start - 1 : start].isspace()
        fix = self.findings.fix(f"remove `{token}`", (start, after, "" if spaced else " "))
        self.findings.add("S105", f"no `{token}` stands after `{key}`", token, hint="remove it", fix=fix)
        self.advance()
        if scene.awaits_value and self.peek().type in {"_NL", "RBRACE", "_COMMA", "$END"}:
            self.value_is_lost()
        return True

    def _end(self, token: Token) -> bool:
        scene = self.scene
        if token.type != "$END" or not scene.frames:
            return False
        frame = scene.frames[-1]
        if self.missing:
            self._unclosed(frame, None, "the next block begins here")
        else:  # closed by what another mistake swallowed
            self._damage()
            self.feed("RBRACE", token.start_pos or 0)
        return True

    def _unclosed(self, frame: Frame, shown_by: Token | None, what: str) -> None:
        """A body that was never closed ends here. `shown_by`: the token that tells; the next piece when None."""
        nested = frame is not self.scene.frames[0]
        message = f"`{self._head(list(frame.head), nested=nested)}` is not closed"
        labels, hint = [], "add `}` at the end of the file"
        if shown_by is not None:
            line = self.first_line + self.text.count("\n", 0, shown_by.start_pos or 0)
            labels, hint = [self.findings.label(what, shown_by)], f"add `}}` before line {line}"
        elif self.following:
            end = len(self.text.encode())
            labels = [Label(what, "", Span(end, end + len(self.following)))]
            hint = f"add `}}` before line {self.first_line + self.text.count(chr(10))}"
        self.findings.add("S103", message, frame.brace, hint=hint, labels=labels)
        self.missing -= 1
        self.feed("RBRACE", self.peek().start_pos or 0)

    def _stray_brace(self, token: Token) -> bool:
        if token.type != "RBRACE" or self.scene.frames:
            return False
        if self.scene.head:
            return False
        self._stray(token)
        return True

    def _stray(self, token: Token) -> None:
        labels, scene = [], self.scene
        if scene.closed and scene.closing:
            name = self._head(list(scene.closed.head), nested=bool(scene.frames))
            labels = [self.findings.label(f"`{name}` is already closed here", scene.closing)]
        self.findings.add("S104", "this `}` closes nothing", token, hint="remove it", labels=labels)
        self.advance()
        self.excess -= self.excess > 0

    def _comma(self, token: Token) -> bool:
        if token.type != "_COMMA":
            return False
        after = self.scene.last.type if self.scene.last else ""
        where = {"RBRACE": "after `}`", "_COMMA": "after another comma", "_NL": "at the beginning of a line"}
        hint = "remove it; one comma may follow a value, on its line"
        self.findings.add("S109", f"no comma stands {where.get(after, 'here')}", token, hint=hint)
        self.advance()
        return True

    def _bare_text(self, token: Token) -> bool:
        """`path /hooks/github`: a text that needs quotes."""
        if token.type not in {"JUNK", "SIGN"} or not self.scene.awaits_value:
            return False
        self._add_bare_text(token)
        return True

    def _bare_word(self, token: Token) -> bool:
        """The same where the text begins like a word: `agent team/reviewer`."""
        after = self.peek(1)
        if token.type not in {"WORD", "NUMBER"} or not self.scene.awaits_value or after.start_pos != token.end_pos:
            return False
        if after.type not in {"JUNK", "SIGN", "NUMBER", "WORD"}:
            return False
        self._add_bare_text(token)
        return True

    def _add_bare_text(self, first: Token) -> None:
        start = first.start_pos or 0
        bare = _BARE.match(self.text, start)
        end = max(bare.end() if bare else 0, first.end_pos or 0)
        message = "a text with such characters stands in quotes"
        self.findings.add("S109", message, Place(start, end), hint='write it as `"…"`')
        self.done.mentions |= _words(self.text[start:end])
        self.value_is_lost()
        self.seek(end)

    def _quoted_key(self, token: Token) -> bool:
        """`"path": "/hooks"`: a key in quotes, as in JSON."""
        word = token[1:-1]
        if token.type != "STRING" or not self.scene.awaits_entry or word not in self.scene.legal():
            return False
        if self.peek(1).type not in {"SIGN", *_VALUES, "WORD"}:
            return False
        fix = self.findings.fix(f"write `{word}`", (token.start_pos or 0, token.end_pos or 0, word))
        self.findings.add("S109", "a setting's name stands without quotes", token, hint=f"write `{word}`", fix=fix)
        self._ahead[self._read] = Token("WORD", word, start_pos=token.start_pos, end_pos=token.end_pos)
        if self.peek(1).type == "SIGN":
            self._ahead.pop(self._read + 1)
        return True

    def _incomplete_head(self, token: Token) -> bool:
        scene = self.scene
        if scene.frames or not scene.head:
            return False
        self._add_incomplete_head(token)
        if len(scene.head) == 1 and token.type in {"NUMBER", "JUNK", "LONG_STRING", "LSQB"}:
            self.value_is_lost()  # a name that is none
        while self.peek().type not in {"LBRACE", "RBRACE", "_NL", "$END"}:
            self.drop()
        if self.peek().type == "LBRACE":
            return True
        last = scene.head[-1].end_pos or 0
        if self.after_break() in scene.inside(scene.head) and self.after_break(1).type != "LBRACE":
            self.feed("LBRACE", last)
            self.excess -= self.excess > 0
        else:
            self._abandon_head()
        return True

    def _add_incomplete_head(self, token: Token) -> None:
        scene = self.scene
        word, end = scene.head[0][:64], scene.head[-1].end_pos or 0
        place = token if token.type not in {"_NL", "$END"} else Place(end, end + 1)
        what = f"`{self._head(scene.head)}`"
        hint = f"a block is {what[:-1]} {{ … }}`" if len(scene.head) > 1 else f"a block is {what[:-1]} name {{ … }}`"
        owner = next((kind for kind, settings in self.vocabulary.kinds.items() if word in settings), None)
        if word not in self.vocabulary.kinds:
            hint = f"blocks are {listing(self.vocabulary.kinds)}"
            if owner:
                hint = f"`{word}` is a setting of `{owner}` and stands in its braces"
            else:  # it may be the lost value of a secret
                what = "this word"
        self.findings.add("S109", f"`{{` is missing after {what}", place, hint=hint)

    def _abandon_head(self) -> None:
        """End a block that has no body. One of ours is known by its name all the same."""
        head = self.scene.head
        at = head[-1].end_pos or 0
        if head[0] not in self.vocabulary.kinds or len(head) == 1:
            self.void.add(head[0].start_pos or 0)
            self.done.nameless.add(str(head[0]))
            self.done.mentions |= {word.strip('"') for word in head}
        self.done.damaged.add(at)
        self.feed("LBRACE", at)
        self.feed("RBRACE", at)

    def _anything_else(self, token: Token) -> bool:
        if self.scene.frames:
            settings = self.scene.legal()
            hint = "a setting's name or `}` could stand here"
            if settings:
                hint = f"a setting's name could stand here, or `}}`: {listing(settings)}"
        else:
            hint = f"a block could stand here: {listing(self.vocabulary.kinds)}"
        self.findings.add("S109", f"{_shown(token)} cannot stand here", token, hint=hint)
        self._skip()
        return True

    # -- mending -----------------------------------------------------------------------------------------------------

    def _skip(self) -> None:
        """Go on at the end of the line or at the `}` of this depth."""
        token = self.peek()
        if self.scene.awaits_value:
            self.value_is_lost()
        self._damage()
        start = token.start_pos or 0
        end = start if token.type == "_NL" else token.end_pos or 0
        if token.type == "LSQB":
            end = list_end(self.text, start, start)
        end = max(entry_end(self.text, end if token.type == "LSQB" else start), end)
        if end == start:  # nothing else would get any further
            self.advance()
            return
        self.done.mentions |= _words(self.text[start : min(end, start + 100_000)])
        self.seek(end)

    def _damage(self, *, everything: bool = False) -> None:
        """Something of the innermost body was lost, or of all that are open."""
        for frame in self.scene.frames if everything else self.scene.frames[-1:]:
            self.done.damaged.add(frame.brace.start_pos or 0)

    def _head(self, head: list[Token], *, nested: bool | None = None) -> str:
        """A head as a message may show it. Only a block's name is shown: the value of a setting may be a secret."""
        if not head:
            return "block"
        inside = bool(self.scene.frames) if nested is None else nested
        named = not inside and head[0] in self.vocabulary.kinds
        return " ".join(token[:80] for token in head) if named else str(head[0][:80])


def _words(text: str) -> set[str]:
    return set(re.findall(r"[A-Za-z0-9_.-]+", text))


def _shown(token: Token) -> str:
    """What a token is, without showing a value: it may be a secret."""
    match token.type:
        case "STRING" | "LONG_STRING":
            return "a string"
        case "NUMBER":
            return "a number"
        case "WORD":
            return "a word"
        case "_NL":
            return "the end of the line"
        case "$END":
            return "the end of the file"
        case "JUNK" if token[0].isprintable():
            return f"`{token[0]}`"
        case _ if token.isprintable():
            return f"`{token[:8]}`"
    return f"the character U+{ord(token[0]):04X}"


_Rule = Callable[[_Mender, Token], bool]
_FORESIGHT: tuple[_Rule, ...] = (
    _Mender._too_deep, _Mender._brace_on_next_line, _Mender._body_ends_by_indentation, _Mender._closes_too_early,
    _Mender._brace_is_missing, _Mender._bracket_is_missing, _Mender._key_as_value, _Mender._bare_word, _Mender._list,
)  # fmt: skip
_RULES: tuple[_Rule, ...] = (
    _Mender._in_list, _Mender._string, _Mender._single_quotes, _Mender._sign, _Mender._no_value_here, _Mender._end,
    _Mender._stray_brace, _Mender._comma, _Mender._bare_text, _Mender._quoted_key, _Mender._incomplete_head,
    _Mender._anything_else,
)  # fmt: skip
