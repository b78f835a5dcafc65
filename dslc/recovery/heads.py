"""Heads of blocks."""

from __future__ import annotations

from lark import Token

from dslc.check.kind import unknown_kind
from dslc.findings import Place
from dslc.heads import ELSEWHERE
from dslc.nearest import listing, nearest
from dslc.recovery.mender import Mender, words


def no_head(mender: Mender) -> None:
    """Settings and a `}`, and no head of a block before them."""
    message = "these settings stand in no block: its head is missing"
    hint = f"a block is `kind name {{ … }}`; kinds are {listing(mender.vocabulary.kinds)}"
    mender.findings.add("S109", message, mender.peek(), hint=hint)
    mender.done.mentions |= words(mender.text[:100_000])
    mender.done.nameless |= set(mender.vocabulary.kinds)


def is_foreign(mender: Mender) -> bool:
    """A block of a kind that nobody knows, with a syntax of its own: its kind is the one mistake."""
    word = mender.peek()
    if word in ELSEWHERE:
        message = f"the head of this `{word}` does not end in `{{` on its line"
        hint = "only parentheses that close may go over lines"
        mender.findings.add("S109", message, word, hint=hint)
        mender.done.mentions |= words(mender.text[:100_000])
        return True
    if word.type != "WORD" or word in mender.vocabulary.kinds or "{" not in mender.text:
        return False
    named = mender.peek(1).type in {"WORD", "STRING"}
    if nearest(word, mender.vocabulary.kinds) is not None or mender.peek(1 + named).type == "SIGN":
        return False
    if mender.peek(1 + named).type == "LBRACE" or mender.peek(1).type == "JUNK" or mender.peek(2).type == "JUNK":
        unknown_kind(mender.findings, word, mender.vocabulary, named=named)
        mender.done.mentions |= words(mender.text[:100_000])
        return True
    return False


def incomplete_head(mender: Mender, token: Token) -> bool:
    """A head without its `{`."""
    scene = mender.scene
    if scene.frames or not scene.head:
        return False
    _add_incomplete_head(mender, token)
    if len(scene.head) == 1 and token.type in {"NUMBER", "JUNK", "LONG_STRING", "LSQB"}:
        mender.value_is_lost()  # a name that is none
    while mender.peek().type not in {"LBRACE", "RBRACE", "_NL", "$END"}:
        mender.drop()
    if mender.peek().type == "LBRACE":
        return True
    last = scene.head[-1].end_pos or 0
    if mender.after_break() in scene.inside(scene.head) and mender.after_break(1).type != "LBRACE":
        mender.feed("LBRACE", last)
        mender.excess -= mender.excess > 0
    else:
        mender.abandon_head()
    return True


def _add_incomplete_head(mender: Mender, token: Token) -> None:
    scene = mender.scene
    word, end = scene.head[0][:64], scene.head[-1].end_pos or 0
    place = token if token.type not in {"_NL", "$END"} else Place(end, end + 1)
    what = f"`{mender.shown_head(scene.head)}`"
    hint = f"a block is {what[:-1]} {{ … }}`" if len(scene.head) > 1 else f"a block is {what[:-1]} name {{ … }}`"
    owner = next((kind for kind, settings in mender.vocabulary.kinds.items() if word in settings), None)
    if word not in mender.vocabulary.kinds:
        hint = f"blocks are {listing(mender.vocabulary.kinds)}"
        if owner:
            hint = f"`{word}` is a setting of `{owner}` and stands in its braces"
        else:  # it may be the lost value of a secret
            what = "this word"
    mender.findings.add("S109", f"`{{` is missing after {what}", place, hint=hint)
