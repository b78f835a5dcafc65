"""Bodies that have no braces, or others than `{` and `}`."""

from __future__ import annotations

import re

from lark import Token

from dslc.diagnostics.collector import Place
from dslc.recovery.state import Mender
from dslc.syntax.delimiters import matching
from dslc.syntax.tree import end, start

_PAIRS = {
    "do": "end|done", "begin": "end", "then": "end|fi", "(": r"\)", "[": r"\]", "<": ">",
}  # fmt: skip


def stands_for_brace(mender: Mender, token: Token) -> bool:
    """`end` of a body that began with `do`: that is reported."""
    if token.start_pos not in mender.closers or not mender.scene.awaits_entry:
        return False
    while mender.peek().type not in {"_NL", "$END"}:
        mender.advance()
    mender.feed("RBRACE", start(token))
    return True


def other_half(mender: Mender, token: Token) -> bool:
    """The second one of a pair that was reported."""
    if token.start_pos not in mender.halves:
        return False
    mender.seek(start(token) + 1 if token.startswith(")") else end(token))
    return True


def with_signs(mender: Mender, token: Token) -> bool:
    """`{% … %}`, `({ … })`: signs that go with the braces of a body."""
    if token.type != "JUNK" or mender.missing:
        return False
    text, last, after = mender.text, mender.scene.last, mender.peek(1)
    if last is not None and last.type == "LBRACE" and last.end_pos == start(token):
        half = matching(text, start(last)) - 1 - len(token)
        if half < end(token) or text[half : half + len(token)] != token[::-1]:
            return False
        place = Place(start(last), end(token))
    elif str(token) == "(" and after.type == "LBRACE" and _could_open(mender):
        half = matching(text, start(after))
        if text[half : half + 1] != ")":
            return False
        place = Place(start(token), end(after))
    else:
        return False
    hint = f"remove `{token[:8]}` on both sides"
    mender.findings.add("S112", f"unexpected `{token[:8]}` at a brace", place, hint=hint)
    mender.halves.add(half)
    mender.advance()
    return True


def brace_is_missing(mender: Mender, token: Token) -> bool:
    """A head whose body follows without `{`."""
    scene = mender.scene
    if not _could_open(mender):
        return False
    beside = _beside_missing_brace(mender, token)
    closer = _closer(mender, token)
    indented = closer >= 0 or _is_indented(mender, beside)
    if not indented and not (mender.excess and _goes_on(mender, beside)):
        return False
    beside = 1 if closer >= 0 else beside
    last = scene.head[-1].end_pos or 0
    head, code = mender.shown_head(scene.head), "S101" if len(scene.head) == 1 and scene.frames else "S111"
    what = f"`{head}` has no value" if code == "S101" else f"`{{` is missing after `{head}`"
    place = Place(start(token), end(mender.peek(beside - 1))) if beside else Place(last, last + 1)
    if not mender.is_indented:
        mender.findings.add(code, what, place, hint=f"write `{head} {{`")
    for _ in range(beside):
        mender.advance()
    mender.feed("LBRACE", last)
    if closer >= 0:
        mender.closers.add(closer)
        mender.instead.add(last)
    elif mender.excess:
        mender.excess -= 1
    else:
        mender.by_indentation.add(last)
    return True


def _beside_missing_brace(mender: Mender, token: Token) -> int:
    """How many tokens stand at the end of a head's line where `{` should."""
    count = 0
    while count < 3 and mender.peek(count).type in {"SIGN", "JUNK", "_COMMA"}:
        count += 1
    if count and _body_follows(mender, count):
        return count
    if token.type == "LSQB" and mender.excess and mender.brackets > 0:
        return int(_body_follows(mender, 1))
    instead = token in {"do", "begin", "then"} or (token.type == "UNCLOSED_STRING" and not token.strip('" \r'))
    return int(instead and mender.peek(1).type == "_NL")


def _body_follows(mender: Mender, number: int) -> bool:
    """Whether that token ends the line, or is a setting of the body that the head would open, whose `}` is there."""
    after = mender.peek(number)
    return after.type == "_NL" or (mender.excess > 0 and after in mender.scene.inside(mender.scene.head))


def _closer(mender: Mender, token: Token) -> int:
    """Where the line stands that closes a body which this token at a line's end opens; -1 when none does."""
    closing = _PAIRS.get(token[:1] if token.type in {"JUNK", "LSQB"} else str(token))
    head = mender.scene.head[0]
    column = mender.scene.column(head)
    if closing is None or mender.peek(1).type != "_NL" or column is None or column > 100:
        return -1
    if mender.peek(2).type != "WORD":  # `filter [` and lines of `{ … }`
        return -1
    line = re.compile(rf"\n[ \t]{{0,{column}}}(?P<closer>{closing})[;,]?[ \t\r]*(?=\n|\Z)")
    found = line.search(mender.text, end(token), end(token) + 20_000)
    return found.start("closer") if found else -1


def _goes_on(mender: Mender, number: int) -> bool:
    """Whether what follows the head, from that token on, stands in its body."""
    scene, token = mender.scene, mender.peek(number)
    if token.type not in {"_NL", "WORD", "RBRACE"}:
        return False
    follows = mender.after_break(number)
    inside, setting = scene.inside(scene.head), scene.setting()
    variant = setting is not None and setting.type == "variant"
    if follows.type == "WORD":
        return follows in inside and not (variant and follows in scene.legal())
    return follows.type == "RBRACE" and token.type != "_NL" and not variant


def _is_indented(mender: Mender, number: int) -> bool:
    """Whether that token is a line's end, and the line below stands deeper than the head and can only be its body."""
    scene = mender.scene
    if mender.peek(number).type != "_NL":
        return False
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
