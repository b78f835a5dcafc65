"""Heads of blocks."""

from __future__ import annotations

import re

from lark import Token

from dslc.blocks.values.names import is_name
from dslc.diagnostics.collector import Place
from dslc.diagnostics.suggestion import listing, nearest
from dslc.diagnostics.unknown_kind import unknown_kind
from dslc.recovery.state import Mender, shown, words
from dslc.syntax.block_heads import ELSEWHERE
from dslc.syntax.tree import end, start

_TORN_NAME = re.compile(
    r"(?P<key>(?:name|id)[ \t]*[=:][ \t]*)?"
    r"(?P<open>[\"'`]?)(?P<name>[\w.-]{1,64})(?P<close>[\"'`]?)[ \t]*(?=\{)",
    re.ASCII,
)


_SPLIT_NAME = re.compile(r"\"(?P<name>[^\"\n{}]{0,64}\n[^\"\n{}]{0,64})\"[ \t]*(?=\{)")


def no_head(mender: Mender) -> None:
    """Settings and a `}`, and no head of a block before them."""
    code, message = "S111", "these settings are in no block: its head is missing"
    if mender.peek().type != "WORD" or (mender.peek(1).type == "SIGN" and mender.peek(2).type == "_NL"):
        code, message = "S114", "this is another language"
    hint = f"a block is `kind name {{ … }}`; kinds are {listing(mender.vocabulary.kinds)}"
    mender.findings.add(code, message, mender.peek(), hint=hint)
    mender.done.mentions |= words(mender.text[:100_000])
    mender.done.nameless |= set(mender.vocabulary.kinds)


def is_foreign(mender: Mender) -> bool:
    """A block of a kind that nobody knows, with a syntax of its own: its kind is the one mistake."""
    word = mender.peek()
    if word in ELSEWHERE or _takes_arguments(mender):
        message = f"the head of this `{word}` does not end in `{{` on its line"
        hint = "only parentheses that close may go over lines"
        mender.findings.add("S111", message, word, hint=hint)
        mender.done.mentions |= words(mender.text[:100_000])
        return True
    if word.type != "WORD" or word in mender.vocabulary.kinds or "{" not in mender.text:
        return False
    named = mender.peek(1).type in {"WORD", "STRING"}
    if nearest(word, mender.vocabulary.kinds) is not None or mender.peek(1 + named).type == "SIGN":
        return False
    strange = any(mender.peek(number).type == "JUNK" for number in (1, 2, 3))
    if mender.peek(1 + named).type == "LBRACE" or strange:
        unknown_kind(mender.findings, word, mender.vocabulary, named=named)
        mender.done.mentions |= words(mender.text[:100_000])
        return True
    return False


def _takes_arguments(mender: Mender) -> bool:
    """Whether this is `agent x(…) … {` of the wider language, with something in its head that cannot be read."""
    follows = mender.peek(2)
    opens = follows.type == "JUNK" and follows[0] in "(<" and mender.peek(3).type != "LBRACE"
    return mender.peek() == "agent" and opens and "{" in mender.text


def before_kind(mender: Mender, token: Token) -> bool:
    """`[ memory m {`, `resource "memory" m {`: a sign or a word before a head."""
    scene, kind = mender.scene, mender.peek(1)
    word, bare = token.type == "WORD", kind.strip('"')
    if scene.frames or scene.head or not (word or token.type in {"JUNK", "LSQB", "RSQB", "_COMMA", "SIGN"}):
        return False
    named = mender.peek(2).type in {"WORD", "STRING"} or not word
    if bare not in mender.vocabulary.kinds or not named or mender.peek(3).type != "LBRACE":
        return False
    if (word and token in mender.vocabulary.kinds) or (not word and kind.type != "WORD"):
        return False
    fix = mender.findings.fix("remove it", (start(token), start(kind), ""), safe=not word)
    message, hint = f"unexpected {shown(token)} before `{bare}`", f"write `{bare} {mender.peek(2)[:80]} {{`"
    code = "S109" if word else "S112"
    mender.findings.add(code, message, token, hint=hint, fix=fix if kind.type == "WORD" else None)
    mender.drop()
    mender.replace(Token("WORD", bare, start_pos=kind.start_pos, end_pos=kind.end_pos))
    return True


def name_on_two_lines(mender: Mender, token: Token) -> bool:
    """`memory "agent-` and `memory" {` on the next line."""
    scene = mender.scene
    if scene.frames or len(scene.head) != 1 or token.type != "UNCLOSED_STRING":
        return False
    found = _SPLIT_NAME.match(mender.text, start(token))
    if found is None:
        return False
    name = re.sub(r"\s+", "", found["name"])
    place = Place(start(token), end(token) - token.endswith("\r"))
    fix = mender.findings.fix("write it on one line", (found.start(), found.end("name") + 1, f'"{name}"'))
    fix_or_none = fix if is_name(name) else None
    mender.findings.add("S102", "the name is not closed on its line", place, hint=f'write `"{name}"`', fix=fix_or_none)
    mender.reread(found.end("name") + 1)
    mender.put(Token("STRING", f'"{name}"', start_pos=found.start(), end_pos=found.end("name") + 1))
    return True


def name_below(mender: Mender, token: Token) -> bool:
    """A head on two lines."""
    scene, name = mender.scene, mender.peek(1)
    if token.type != "_NL" or scene.frames or len(scene.head) != 1 or name.type not in {"WORD", "STRING"}:
        return False
    if name in mender.vocabulary.kinds or mender.after_break(2).type != "LBRACE":
        return False
    hint = f"write `{scene.head[0][:80]} {name[:80]} {{`"
    mender.findings.add("S111", f"the name of this `{scene.head[0][:80]}` is on another line", name, hint=hint)
    mender.advance()
    mender.state.feed_token(mender.advance())
    scene.take(name)
    if mender.peek().type == "_NL":
        mender.advance()
    return True


def torn_name(mender: Mender, token: Token) -> bool:
    """`memory "m {`, `memory name="m" {`: a name with one quote, or with a key."""
    scene = mender.scene
    types = {"WORD", "NUMBER", "SINGLE_QUOTED", "UNCLOSED_STRING"}
    if scene.frames or len(scene.head) != 1 or (token.type not in types and "{" not in token):
        return False
    found = _TORN_NAME.match(mender.text, token.start_pos or 0)
    if found is None or (found["open"] == found["close"] and not found["key"]):
        return False
    (start, end), (first, last) = found.span("name"), (found.start(), found.end("close"))
    fix = mender.findings.fix("write the name", (first, last, f'"{found["name"]}"'), safe=not found["key"])
    code, message = "S102", 'this name has only one `"`'
    if found["key"]:
        code, message = "S112", f"unexpected `{found['key'].strip()}` before the name"
    hint = f'write `{scene.head[0][:80]} "{found["name"]}" {{`'
    mender.findings.add(code, message, Place(first, last), hint=hint, fix=fix)
    mender.reread(found.end())
    mender.put(Token("STRING", f'"{found["name"]}"', start_pos=start, end_pos=end))
    return True


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
            hint = f"`{word}` is a setting of `{owner}`: write it inside its braces"
        else:  # it may be the lost value of a secret
            what = "this word"
    mender.findings.add("S111", f"`{{` is missing after {what}", place, hint=hint)
