"""Braces that are missing or too many, and levels that are too deep."""

from __future__ import annotations

import re

from lark import Token

from dslc.diagnostics.collector import Place
from dslc.recovery.state import Mender
from dslc.syntax.delimiters import matching
from dslc.syntax.parser_state import Frame
from dslc.syntax.segment import DEEPEST
from dslc.syntax.tokens import COMMENT
from dslc.syntax.tree import start

_FIRST_LINE = re.compile(rf"[ \t]*+(?:{COMMENT}|\r)?\n(?>(?:[ \t\r]*+\n)*)(?P<blank>[ \t]*+)(?=[^\s#/])")
_INSTEAD = {"end", ")", "]", ");"}  # what some languages write for `}`


def too_deep(mender: Mender, token: Token) -> bool:
    """More levels than a program may have."""
    scene = mender.scene
    if token.type != "LBRACE" or len(scene.frames) < DEEPEST:
        return False
    mender.findings.add("S108", "nested deeper than 64 levels", token, hint="use fewer levels")
    if scene.awaits_value:
        mender.value_is_lost()
    mender.damage(everything=True)
    behind = matching(mender.text, token.start_pos or 0)
    if behind == len(mender.text):  # none of them closes: that is the same mistake
        mender.missing = 0
    mender.seek(behind)
    return True


def brace_on_next_line(mender: Mender, token: Token) -> bool:
    """`{` below its head."""
    scene = mender.scene
    if token.type != "_NL" or mender.peek(1).type != "LBRACE" or not scene.head or scene.lists:
        return False
    setting = scene.setting()
    if len(scene.head) > 2 or (setting is not None and setting.type != ("group", "variant")[len(scene.head) - 1]):
        return False
    head = mender.shown_head(scene.head)
    shown = f"{head} … {{" if scene.frames and len(scene.head) > 1 else f"{head} {{"
    last, brace = scene.head[-1].end_pos or 0, start(mender.peek(1))
    if scene.last is not None and scene.last.type == "RSQB":
        last = scene.last.end_pos or 0
    blank = not mender.text[last:brace].strip()  # no comment
    fix = mender.findings.fix("write `{` behind its head", (last, brace, " "), safe=True) if blank else None
    message = "`{` is not on the line of its head"
    mender.findings.add("S111", message, mender.peek(1), hint=f"write `{shown}`", fix=fix)
    mender.drop()
    return True


def body_ends_by_indentation(mender: Mender, token: Token) -> bool:
    """A setting that stands no further right than the head of its body, while a `}` is missing."""
    scene = mender.scene
    if not (mender.missing and scene.frames and scene.awaits_entry and token.type in {"WORD", "RBRACE"}):
        return False
    frame, column = scene.frames[-1], scene.column(token)
    further_left = column is not None and frame.column is not None
    if token.type == "RBRACE":
        if not (further_left and column < frame.column):  # type: ignore[operator]
            return False
        _unclosed(mender, frame, token, "this closes an outer block")
    else:
        known = len(scene.frames) > 1 and token not in scene.legal() and token in scene.legal(1)
        outside = len(scene.frames) == 1 and _is_head(mender, token)
        left = further_left and column < frame.column  # type: ignore[operator]
        if further_left and column == frame.column:
            left = token not in scene.legal() or (token in scene.legal(1) and not _is_flat(mender, frame))
            left = left and not (token not in scene.legal(1) and mender.peek(1).type == "LBRACE")
        if not (left or known) or (len(scene.frames) == 1 and not outside):
            return False
        _unclosed(mender, frame, token, "this is outside of it")
    return True


def _is_flat(mender: Mender, frame: Frame) -> bool:
    """Whether a body is not indented: then only the names of settings tell what stands in it."""
    inside = _FIRST_LINE.match(mender.text, frame.brace.end_pos or 0)
    return inside is not None and frame.column is not None and len(inside["blank"]) <= frame.column


def _is_head(mender: Mender, word: Token) -> bool:
    """Whether a block of ours begins at this word."""
    named = mender.peek(1).type in {"WORD", "STRING"}
    return word in mender.vocabulary.kinds and named and mender.peek(2).type == "LBRACE"


def closes_too_early(mender: Mender, token: Token) -> bool:
    """A `}` that is too much and after which the body goes on."""
    scene = mender.scene
    if token.type != "RBRACE" or not mender.excess or not scene.frames or not scene.awaits_entry:
        return False
    after, frame, column = mender.after_break(1), scene.frames[-1], scene.column(token)
    closes = after.type == "RBRACE" and frame.column is not None and scene.column(after) == frame.column
    if closes and column is None:  # that is the right one
        _stray(mender, token)
        return True
    if len(scene.frames) > 1:
        if after.type != "WORD" or after not in scene.legal() or after in scene.legal(1):
            return False
        _stray(mender, token)
        return True
    if after.type == "$END" or (after.type == "WORD" and after not in scene.legal()):
        return False
    deeper = column is not None and frame.column is not None and column > frame.column
    if after.type != "WORD" and not deeper:
        return False
    _stray(mender, token)
    return True


def closed_and_opened(mender: Mender, token: Token) -> bool:
    """`limits }{ …`, or `}{` between two settings."""
    scene, opened = mender.scene, mender.peek(1)
    if token.type != "RBRACE" or opened.type != "LBRACE" or scene.lists:
        return False
    if scene.head and (not scene.frames or scene.awaits_value or scene.inside(scene.head)):
        excess = mender.excess
        _stray(mender, token)
        mender.excess = excess  # it is one of a pair
    elif scene.frames and not mender.missing:
        place = Place(start(token), opened.end_pos or 0)
        mender.findings.add("S112", "unexpected `}` and `{` inside a body", place, hint="remove both")
        mender.advance()
        mender.advance()
    else:
        return False
    return True


def opens_nothing(mender: Mender, token: Token) -> bool:
    """A second `{`, or one on a line of its own or behind a value without options, while a `}` is missing."""
    scene, setting = mender.scene, mender.scene.setting()
    if token.type != "LBRACE" or not mender.missing or not scene.frames or not scene.awaits_entry:
        return False
    if scene.head and (setting is None or setting.type == "group"):
        return False
    if setting is not None and setting.type in {"variant", "reference"}:
        after = mender.after_break(1)
        if after not in scene.legal() or after in scene.inside(scene.head):
            return False
    mender.findings.add("S112", "this `{` opens nothing", token, hint="remove it")
    while mender.missing and mender.after_break().type == "LBRACE":
        mender.advance()
        mender.missing -= token.type == "LBRACE"
        token = mender.peek()
    return True


def other_brace(mender: Mender, token: Token) -> bool:
    """`)` or `end` where a `}` is missing."""
    scene = mender.scene
    if not mender.missing or not scene.frames or not scene.awaits_entry or token in scene.legal():
        return False
    if token not in _INSTEAD:
        return False
    column, frame, after = scene.column(token), scene.frames[-1], mender.peek(1)
    ends = after.type in {"_NL", "$END", "RBRACE"} or (column is None and after in scene.legal(1))
    if not ends or (column is not None and column > (frame.column or 0)):
        return False
    mender.findings.add("S114", f"unexpected `{token}` where a body ends", token, hint="write `}`")
    mender.advance()
    mender.missing -= 1
    mender.feed("RBRACE", start(token))
    return True


def end_of_text(mender: Mender, token: Token) -> bool:
    """The end of the text in an open body."""
    scene = mender.scene
    if token.type != "$END" or not scene.frames:
        return False
    frame = scene.frames[-1]
    if mender.missing == 1 and _is_repeated(mender, frame):
        mender.findings.add("S109", "this head is written twice", frame.head[0], hint="remove one of them")
        mender.void.add(start(frame.head[0]))
        mender.missing = 0
        mender.feed("RBRACE", start(token))
    elif mender.missing:
        _unclosed(mender, frame, None, "the next block begins here")
    else:  # closed by what another mistake swallowed
        mender.damage()
        mender.feed("RBRACE", token.start_pos or 0)
    return True


def _is_repeated(mender: Mender, frame: Frame) -> bool:
    """Whether nothing stands in a block, and its head stands behind it once more."""
    if not frame.head or mender.text[frame.brace.end_pos :].strip():
        return False
    return mender.text[start(frame.head[0]) : frame.brace.start_pos].split() == mender.following.split()


def _unclosed(mender: Mender, frame: Frame, shown_by: Token | None, what: str) -> None:
    """A body that was never closed ends here. `shown_by`: the token that tells; the next piece when None."""
    nested = frame is not mender.scene.frames[0]
    message = f"`{mender.shown_head(list(frame.head), nested=nested)}` is not closed"
    labels, hint = [], "add `}` at the end of the file"
    if shown_by is not None:
        line = mender.first_line + mender.text.count("\n", 0, shown_by.start_pos or 0)
        labels, hint = [mender.findings.label(what, shown_by)], f"add `}}` before line {line}"
    elif mender.following:
        labels = mender.findings.behind(what, mender.following)
        hint = f"add `}}` before line {mender.first_line + mender.text.count(chr(10))}"
    mender.findings.add("S103", message, frame.brace, hint=hint, labels=labels)
    mender.done.damaged.add(frame.brace.start_pos or 0)  # what it lacks may be what was not written yet
    mender.missing -= 1
    mender.feed("RBRACE", mender.peek().start_pos or 0)


def stray_brace(mender: Mender, token: Token) -> bool:
    """A `}` at the top level."""
    if token.type != "RBRACE" or mender.scene.frames:
        return False
    if mender.scene.head:
        return False
    _stray(mender, token)
    return True


def _stray(mender: Mender, token: Token) -> None:
    labels, scene = [], mender.scene
    if scene.closed and scene.closing:
        name = mender.shown_head(list(scene.closed.head), nested=bool(scene.frames))
        labels = [mender.findings.label(f"`{name}` is already closed here", scene.closing)]
    mender.findings.add("S104", "this `}` closes nothing", token, hint="remove it", labels=labels)
    mender.advance()
    mender.excess -= mender.excess > 0
