"""Braces that are missing or too many, and levels that are too deep."""

from __future__ import annotations

from lark import Token

from dslc.diagnostic import Label
from dslc.findings import Place
from dslc.marks import matching
from dslc.recovery.mender import Mender
from dslc.scene import Frame
from dslc.segment import DEEPEST
from dslc.source import Span
from dslc.tree import start

_INSTEAD = {"end", ")", "]", ");"}  # what some languages write for `}`


def too_deep(mender: Mender, token: Token) -> bool:
    """More levels than a program may have."""
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
    """`{` below its head."""
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
    """A `}` that is too much and after which the body goes on."""
    scene = mender.scene
    if token.type != "RBRACE" or not mender.excess or not scene.frames or not scene.awaits_entry:
        return False
    after = mender.after_break(1)
    if len(scene.frames) > 1:
        if after.type != "WORD" or after not in scene.legal() or after in scene.legal(1):
            return False
        _stray(mender, token)
        return True
    if after.type == "$END" or (after.type == "WORD" and after not in scene.legal()):
        return False
    column, frame = scene.column(token), scene.frames[0]
    deeper = column is not None and frame.column is not None and column > frame.column
    if after.type != "WORD" and not deeper:
        return False
    _stray(mender, token)
    return True


def opens_nothing(mender: Mender, token: Token) -> bool:
    """A second `{`, or one on a line of its own, while a `}` is missing."""
    scene = mender.scene
    if token.type != "LBRACE" or not mender.missing or not scene.frames or not scene.awaits_entry or scene.head:
        return False
    mender.findings.add("S109", "this `{` opens nothing", token, hint="remove it")
    mender.advance()
    mender.missing -= 1
    return True


def other_brace(mender: Mender, token: Token) -> bool:
    """`)` or `end` where a `}` is missing."""
    scene = mender.scene
    if not mender.missing or not scene.frames or not scene.awaits_entry or token in scene.legal():
        return False
    if token not in _INSTEAD:
        return False
    column, frame = scene.column(token), scene.frames[-1]
    if mender.peek(1).type not in {"_NL", "$END", "RBRACE"} or column is None or column > (frame.column or 0):
        return False
    mender.findings.add("S109", f"a body ends with `}}`, not with `{token}`", token, hint="write `}`")
    mender.advance()
    mender.missing -= 1
    mender.feed("RBRACE", start(token))
    return True


def brace_is_missing(mender: Mender, token: Token) -> bool:
    """A head whose body follows without `{`."""
    scene = mender.scene
    if not _could_open(mender):
        return False
    beside = _beside_missing_brace(mender, token)
    indented = _is_indented(mender, mender.peek(beside))
    if not indented and not (mender.excess and _goes_on(mender, token)):
        return False
    last = scene.head[-1].end_pos or 0
    head, code = mender.shown_head(scene.head), "S101" if len(scene.head) == 1 and scene.frames else "S109"
    what = f"`{head}` has no value" if code == "S101" else f"`{{` is missing after `{head}`"
    place = token if indented and beside else Place(last, last + 1)
    if not mender.is_indented:
        mender.findings.add(code, what, place, hint=f"write `{head} {{`")
    if indented and beside:
        mender.advance()
    mender.feed("LBRACE", last)
    if mender.excess:
        mender.excess -= 1
    else:
        mender.by_indentation.add(last)
    return True


def _beside_missing_brace(mender: Mender, token: Token) -> int:
    """1 when the token stands at the end of a head's line where `{` should."""
    instead = token in {"do", "begin", "then"} or (token.type == "UNCLOSED_STRING" and not token.strip('" \r'))
    return int((token.type in {"SIGN", "JUNK"} or instead) and mender.peek(1).type == "_NL")


def _goes_on(mender: Mender, token: Token) -> bool:
    """Whether what follows the head stands in its body."""
    scene = mender.scene
    if token.type not in {"_NL", "WORD", "RBRACE"}:
        return False
    follows = mender.after_break() if token.type == "_NL" else token
    inside, setting = scene.inside(scene.head), scene.setting()
    variant = setting is not None and setting.type == "variant"
    if follows.type == "WORD":
        return follows in inside and not (variant and follows in scene.legal())
    return follows.type == "RBRACE" and token.type != "_NL" and not variant


def _is_indented(mender: Mender, token: Token) -> bool:
    """Whether the line after this line's end stands deeper than the head, and can only stand in its body."""
    scene = mender.scene
    if token.type != "_NL":
        return False
    number = 0 if mender.peek() is token else 1
    word = mender.peek(number + 1)
    if word.type != "WORD" or word not in scene.inside(scene.head) or word in scene.legal():
        return False
    column, outer = scene.column(word), scene.column(scene.head[0])
    return column is not None and outer is not None and column > outer


def indentation_ends(mender: Mender, token: Token) -> bool:
    """The end of a body that is told by its indentation, for it has no braces: that is reported."""
    scene = mender.scene
    if not scene.frames or not scene.awaits_entry or start(scene.frames[-1].brace) not in mender.by_indentation:
        return False
    frame, column = scene.frames[-1], scene.column(token)
    if token.type == "JUNK" and token.startswith(")"):
        mender.advance()
    elif token.type == "WORD":
        if column is None or frame.column is None or column > frame.column:
            return False
    elif token.type not in {"RBRACE", "$END"}:
        return False
    mender.feed("RBRACE", start(token))
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
    """The end of the text in an open body."""
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
