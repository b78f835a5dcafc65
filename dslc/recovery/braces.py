"""Missing or extra braces, and nesting that is too deep."""

from __future__ import annotations

import re

from lark import Token

from dslc.diagnostics.collector import Place
from dslc.recovery.state import RecoveryState
from dslc.syntax.delimiters import matching_end
from dslc.syntax.parser_state import Frame
from dslc.syntax.section import MAX_DEPTH
from dslc.syntax.tokens import COMMENT
from dslc.syntax.tree import start

_FIRST_LINE = re.compile(rf"[ \t]*+(?:{COMMENT}|\r)?\n(?>(?:[ \t\r]*+\n)*)(?P<blank>[ \t]*+)(?=[^\s#/])")
_CLOSING_SIGNS = {"end", ")", "]", ");"}  # signs of other languages for `}`


def too_deep(state: RecoveryState, token: Token) -> bool:
    """More nesting than a program may have."""
    parser_state = state.parser_state
    if token.type != "LBRACE" or len(parser_state.frames) < MAX_DEPTH:
        return False
    state.collector.add("S108", "nested deeper than 64 levels", token, hint="reduce the nesting")
    if parser_state.expects_value:
        state.feed_missing_value()
    state.damage(everything=True)
    end_pos = matching_end(state.text, token.start_pos or 0)
    if end_pos == len(state.text):  # none of them is closed: this is the same mistake
        state.missing = 0
    state.seek(end_pos)
    return True


def brace_on_next_line(state: RecoveryState, token: Token) -> bool:
    """A `{` on the line after its head."""
    parser_state = state.parser_state
    if token.type != "_NL" or state.peek(1).type != "LBRACE" or not parser_state.head or parser_state.lists:
        return False
    setting = parser_state.setting()
    if len(parser_state.head) > 2 or (setting is not None and not setting.takes_body(len(parser_state.head))):
        return False
    head = state.shown_head(parser_state.head)
    shown = f"{head} … {{" if parser_state.frames and len(parser_state.head) > 1 else f"{head} {{"
    last, brace = parser_state.head[-1].end_pos or 0, start(state.peek(1))
    if parser_state.last is not None and parser_state.last.type == "RSQB":
        last = parser_state.last.end_pos or 0
    blank = not state.text[last:brace].strip()  # no comment between
    fix = state.collector.fix("move `{` to the line of its head", (last, brace, " "), safe=True) if blank else None
    message = "`{` must be on the line of its head"
    state.collector.add("S111", message, state.peek(1), hint=f"write `{shown}`", fix=fix)
    state.drop()
    return True


def body_ends_by_indentation(state: RecoveryState, token: Token) -> bool:
    """A setting that is not indented further than the head of its body, while a `}` is missing."""
    parser_state = state.parser_state
    if not (state.missing and parser_state.frames and parser_state.expects_entry and token.type in {"WORD", "RBRACE"}):
        return False
    frame, column = parser_state.frames[-1], parser_state.column(token)
    further_left = column is not None and frame.column is not None
    if token.type == "RBRACE":
        if not (further_left and column < frame.column):  # type: ignore[operator]
            return False
        _close_unclosed(state, frame, token, "this closes an outer block")
    else:
        known = len(parser_state.frames) > 1 and token not in parser_state.legal() and token in parser_state.legal(1)
        outside = len(parser_state.frames) == 1 and _is_head(state, token)
        left = further_left and column < frame.column  # type: ignore[operator]
        if further_left and column == frame.column:
            left = token not in parser_state.legal() or (token in parser_state.legal(1) and not _is_flat(state, frame))
            left = left and not (token not in parser_state.legal(1) and state.peek(1).type == "LBRACE")
        if not (left or known) or (len(parser_state.frames) == 1 and not outside):
            return False
        _close_unclosed(state, frame, token, "this is outside the block")
    return True


def _is_flat(state: RecoveryState, frame: Frame) -> bool:
    """True if a body is not indented, so that only the names of settings show which body they belong to."""
    inside = _FIRST_LINE.match(state.text, frame.brace.end_pos or 0)
    return inside is not None and frame.column is not None and len(inside["blank"]) <= frame.column


def _is_head(state: RecoveryState, word: Token) -> bool:
    """True if a block of this language begins at this word."""
    named = state.peek(1).type in {"WORD", "STRING"}
    return word in state.vocabulary.kinds and named and state.peek(2).type == "LBRACE"


def early_closing_brace(state: RecoveryState, token: Token) -> bool:
    """An extra `}` after which the body continues."""
    parser_state = state.parser_state
    if token.type != "RBRACE" or not state.excess or not parser_state.frames or not parser_state.expects_entry:
        return False
    after, frame, column = state.after_line_end(1), parser_state.frames[-1], parser_state.column(token)
    closes = after.type == "RBRACE" and frame.column is not None and parser_state.column(after) == frame.column
    if closes and column is None:  # the later one is the right one
        _skip_stray(state, token)
        return True
    if len(parser_state.frames) > 1:
        if after.type != "WORD" or after not in parser_state.legal() or after in parser_state.legal(1):
            return False
        _skip_stray(state, token)
        return True
    if after.type == "$END" or (after.type == "WORD" and after not in parser_state.legal()):
        return False
    deeper = column is not None and frame.column is not None and column > frame.column
    if after.type != "WORD" and not deeper:
        return False
    _skip_stray(state, token)
    return True


def reversed_braces(state: RecoveryState, token: Token) -> bool:
    """`limits }{ …`, or `}{` between two settings."""
    parser_state, opened = state.parser_state, state.peek(1)
    if token.type != "RBRACE" or opened.type != "LBRACE" or parser_state.lists:
        return False
    if parser_state.head and (
        not parser_state.frames or parser_state.expects_value or parser_state.body_settings(parser_state.head)
    ):
        excess = state.excess
        _skip_stray(state, token)
        state.excess = excess  # it belongs to a pair
    elif parser_state.frames and not state.missing:
        place = Place(start(token), opened.end_pos or 0)
        state.collector.add("S112", "unexpected `}` and `{` inside a body", place, hint="remove both")
        state.advance()
        state.advance()
    else:
        return False
    return True


def extra_opening_brace(state: RecoveryState, token: Token) -> bool:
    """A second `{`, or one on its own line or after a value without options, while a `}` is missing."""
    parser_state, setting = state.parser_state, state.parser_state.setting()
    if token.type != "LBRACE" or not state.missing or not parser_state.frames or not parser_state.expects_entry:
        return False
    if parser_state.head and (setting is None or setting.type in {"group", "map"}):
        return False
    if setting is not None and setting.type in {"variant", "reference"}:
        after = state.after_line_end(1)
        if after not in parser_state.legal() or after in parser_state.body_settings(parser_state.head):
            return False
    state.collector.add("S112", "unmatched `{`", token, hint="remove it")
    while state.missing and state.after_line_end().type == "LBRACE":
        state.advance()
        state.missing -= token.type == "LBRACE"
        token = state.peek()
    return True


def wrong_closing_sign(state: RecoveryState, token: Token) -> bool:
    """`)` or `end` in place of a missing `}`."""
    parser_state = state.parser_state
    if not state.missing or not parser_state.frames or not parser_state.expects_entry or token in parser_state.legal():
        return False
    if token not in _CLOSING_SIGNS:
        return False
    column, frame, after = parser_state.column(token), parser_state.frames[-1], state.peek(1)
    ends = after.type in {"_NL", "$END", "RBRACE"} or (column is None and after in parser_state.legal(1))
    if not ends or (column is not None and column > (frame.column or 0)):
        return False
    state.collector.add("S114", f"unexpected `{token}` at the end of a body", token, hint="write `}`")
    state.advance()
    state.missing -= 1
    state.feed("RBRACE", start(token))
    return True


def end_of_text(state: RecoveryState, token: Token) -> bool:
    """The end of the text in an open body."""
    parser_state = state.parser_state
    if token.type != "$END" or not parser_state.frames:
        return False
    frame = parser_state.frames[-1]
    if state.missing == 1 and _is_repeated(state, frame):
        state.collector.add("S109", "this head is written twice", frame.head[0], hint="remove one of them")
        state.discarded_heads.add(start(frame.head[0]))
        state.missing = 0
        state.feed("RBRACE", start(token))
    elif state.missing:
        _close_unclosed(state, frame, None, "the next block begins here")
    else:  # its `}` was skipped with another mistake
        state.damage()
        state.feed("RBRACE", token.start_pos or 0)
    return True


def _is_repeated(state: RecoveryState, frame: Frame) -> bool:
    """True if a block is empty and the next section begins with the same head."""
    if not frame.head or state.text[frame.brace.end_pos :].strip():
        return False
    return state.text[start(frame.head[0]) : frame.brace.start_pos].split() == state.following.split()


def _close_unclosed(state: RecoveryState, frame: Frame, shown_by: Token | None, what: str) -> None:
    """Report and close a body without `}`. `shown_by`: the token that shows this; None if it is the next section."""
    nested = frame is not state.parser_state.frames[0]
    message = f"`{state.shown_head(list(frame.head), nested=nested)}` is not closed"
    labels, hint = [], "add `}` at the end of the file"
    if shown_by is not None:
        line = state.first_line + state.text.count("\n", 0, shown_by.start_pos or 0)
        labels, hint = [state.collector.label(what, shown_by)], f"add `}}` before line {line}"
    elif state.following:
        labels = state.collector.label_after(what, state.following)
        hint = f"add `}}` before line {state.first_line + state.text.count(chr(10))}"
    state.collector.add("S103", message, frame.brace, hint=hint, labels=labels)
    state.recovered.damaged.add(frame.brace.start_pos or 0)  # missing settings may not be written yet
    state.missing -= 1
    state.feed("RBRACE", state.peek().start_pos or 0)


def stray_brace(state: RecoveryState, token: Token) -> bool:
    """A `}` at the top level."""
    if token.type != "RBRACE" or state.parser_state.frames:
        return False
    if state.parser_state.head:
        return False
    _skip_stray(state, token)
    return True


def _skip_stray(state: RecoveryState, token: Token) -> None:
    """Report and skip an extra `}`; a label shows where the last body was closed."""
    labels, parser_state = [], state.parser_state
    if parser_state.closed and parser_state.closing:
        name = state.shown_head(list(parser_state.closed.head), nested=bool(parser_state.frames))
        labels = [state.collector.label(f"`{name}` is already closed here", parser_state.closing)]
    state.collector.add("S104", "unmatched `}`", token, hint="remove it", labels=labels)
    state.advance()
    state.excess -= state.excess > 0
