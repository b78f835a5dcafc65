"""Braces that are missing or too many, and levels that are too deep."""

from __future__ import annotations

from lark import Token

from dslc.diagnostic import Label
from dslc.findings import Place
from dslc.recovery.mender import DEEPEST, Mender
from dslc.scene import Frame
from dslc.segment import matching
from dslc.source import Span


def too_deep(mender: Mender, token: Token) -> bool:
    scene = mender.scene
    if token.type not in {"LBRACE", "LSQB"} or len(scene.frames) + len(scene.lists) < DEEPEST:
        return False
    mender.findings.add("S108", "nested deeper than 64 levels", token, hint="use fewer levels")
    if scene.awaits_value or scene.lists:
        mender.value_is_lost()
    mender.damage()
    mender.seek(matching(mender.text, token.start_pos or 0))
    return True


def brace_on_next_line(mender: Mender, token: Token) -> bool:
    scene = mender.scene
    if token.type != "_NL" or mender.peek(1).type != "LBRACE" or not scene.head or scene.lists:
        return False
    setting = scene.setting()
    if len(scene.head) > 2 or (setting is not None and setting.type != ("group", "variant")[len(scene.head) - 1]):
        return False
    head = mender.shown_head(scene.head)
    shown = f"{head} … {{" if scene.frames and len(scene.head) > 1 else f"{head} {{"
    message = "`{` does not stand on the line of its head"
    mender.findings.add("S109", message, mender.peek(1), hint=f"write `{shown}`")
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
        left = further_left and column <= frame.column  # type: ignore[operator]
        if not (left or known) or (len(scene.frames) == 1 and not outside):
            return False
        _unclosed(mender, frame, token, "this is outside of it")
    return True


def _is_head(mender: Mender, word: Token) -> bool:
    """Whether a block of ours begins at this word."""
    named = mender.peek(1).type in {"WORD", "STRING"}
    return word in mender.vocabulary.kinds and named and mender.peek(2).type == "LBRACE"


def closes_too_early(mender: Mender, token: Token) -> bool:
    """A `}` that is too much and after which the block goes on."""
    scene = mender.scene
    if token.type != "RBRACE" or not mender.excess or len(scene.frames) != 1 or not scene.awaits_entry:
        return False
    after = mender.after_break(1)
    if after.type == "$END" or (after.type == "WORD" and after not in scene.legal()):
        return False
    column, frame = scene.column(token), scene.frames[0]
    deeper = column is not None and frame.column is not None and column > frame.column
    if after.type != "WORD" and not deeper:
        return False
    _stray(mender, token)
    return True


def brace_is_missing(mender: Mender, token: Token) -> bool:
    """A head whose body follows without `{`."""
    scene = mender.scene
    if not mender.excess or not _could_open(mender) or token.type not in {"_NL", "WORD", "RBRACE"}:
        return False
    follows = mender.after_break() if token.type == "_NL" else token
    inside, setting = scene.inside(scene.head), scene.setting()
    if follows.type == "WORD":
        if follows not in inside or (setting and setting.type == "variant" and follows in scene.legal()):
            return False
    elif follows.type != "RBRACE" or token.type == "_NL" or (setting and setting.type == "variant"):
        return False
    last = scene.head[-1].end_pos or 0
    head, code = mender.shown_head(scene.head), "S101" if len(scene.head) == 1 and scene.frames else "S109"
    what = f"`{head}` has no value" if code == "S101" else f"`{{` is missing after `{head}`"
    mender.findings.add(code, what, Place(last, last + 1), hint=f"write `{head} {{`")
    mender.feed("LBRACE", last)
    mender.excess -= 1
    return True


def _could_open(mender: Mender) -> bool:
    """Whether what stands here so far is a head that a body may follow."""
    scene = mender.scene
    if not scene.head or scene.lists:
        return False
    if not scene.frames:
        return scene.head[0] in mender.vocabulary.kinds and len(scene.head) == 2
    setting = scene.setting()
    return setting is not None and setting.type == {1: "group", 2: "variant"}.get(len(scene.head))


def end_of_text(mender: Mender, token: Token) -> bool:
    scene = mender.scene
    if token.type != "$END" or not scene.frames:
        return False
    frame = scene.frames[-1]
    if mender.missing:
        _unclosed(mender, frame, None, "the next block begins here")
    else:  # closed by what another mistake swallowed
        mender.damage()
        mender.feed("RBRACE", token.start_pos or 0)
    return True


def _unclosed(mender: Mender, frame: Frame, shown_by: Token | None, what: str) -> None:
    """A body that was never closed ends here. `shown_by`: the token that tells; the next piece when None."""
    nested = frame is not mender.scene.frames[0]
    message = f"`{mender.shown_head(list(frame.head), nested=nested)}` is not closed"
    labels, hint = [], "add `}` at the end of the file"
    if shown_by is not None:
        line = mender.first_line + mender.text.count("\n", 0, shown_by.start_pos or 0)
        labels, hint = [mender.findings.label(what, shown_by)], f"add `}}` before line {line}"
    elif mender.following:
        end = len(mender.text.encode())
        labels = [Label(what, "", Span(end, end + len(mender.following)))]
        hint = f"add `}}` before line {mender.first_line + mender.text.count(chr(10))}"
    mender.findings.add("S103", message, frame.brace, hint=hint, labels=labels)
    mender.done.damaged.add(frame.brace.start_pos or 0)  # what it lacks may be what was not written yet
    mender.missing -= 1
    mender.feed("RBRACE", mender.peek().start_pos or 0)


def stray_brace(mender: Mender, token: Token) -> bool:
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
