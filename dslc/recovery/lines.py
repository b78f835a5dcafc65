"""Lines whose first word is no setting."""

from __future__ import annotations

from lark import Token

from dslc.diagnostics.collector import Place
from dslc.diagnostics.suggestion import listing, nearest
from dslc.recovery.state import ENDS, VALUES, Mender, words
from dslc.syntax.tree import end, start

_LONGEST = 60  # tokens of a line that are looked at


def word_before_key(mender: Mender, token: Token) -> bool:
    """`let path "/x"`, `keep body true`: a word before a key, or a key in two words."""
    legal, after = mender.scene.legal(), mender.peek(1)
    if not _is_unknown(mender, token) or after.type != "WORD" or not _has_value(mender, 2):
        return False
    joined = next((key for key in (f"{token}_{after}", f"{token}{after}") if key in legal), None)
    if joined is not None:
        fix = mender.findings.fix(f"write `{joined}`", (start(token), end(after), joined))
        place = Place(start(token), end(after))
        mender.findings.add("S109", f"`{joined}` is written in two words", place, hint=f"write `{joined}`", fix=fix)
        mender.advance()
        mender.replace(Token("WORD", joined, start_pos=start(token), end_pos=end(after)))
        return True
    if after not in legal:
        return False
    fix = mender.findings.fix("remove it", (start(token), start(after), ""))
    message = f"unexpected word before `{after}`"
    mender.findings.add("S109", message, token, hint="remove it: a setting is `key value`", fix=fix)
    mender.done.mentions.add(str(mender.advance()))
    return True


def no_setting(mender: Mender, token: Token) -> bool:
    """`TODO write this`: a line that begins with no setting's name, and has not the shape of a setting."""
    if not _is_unknown(mender, token) or mender.scene.column(token) is None:
        return False
    number = 1
    while mender.peek(number).type not in {"_NL", "LBRACE", "RBRACE", "$END"} and number < _LONGEST:
        number += 1
    last = mender.peek(number)
    if number < 3 or last.type not in {"_NL", "RBRACE", "$END"} or _is_known(mender, number):
        return False
    behind = end(mender.peek(number - 1))
    hint = f"a setting is `key value`; settings here: {listing(mender.scene.legal())}"
    mender.findings.add("S109", "this line is no setting", Place(start(token), behind), hint=hint)
    mender.done.mentions |= words(mender.text[start(token) : behind])
    mender.damage()
    mender.seek(behind)
    return True


def _is_known(mender: Mender, number: int) -> bool:
    """Whether the tokens before that one are a setting, or hold one of the body's or what another rule explains."""
    second = mender.peek(1)
    if second.type == "SIGN" and (number <= 3 or nearest(mender.peek(), mender.scene.legal()) is not None):
        return True
    if second.type in {"UNCLOSED_STRING", "UNCLOSED_LONG_STRING", "LSQB"}:
        return True
    if number == 3 and mender.peek(2).type in {"_COMMA", "UNCLOSED_STRING", "UNCLOSED_LONG_STRING"}:
        return True
    return any(mender.peek(each) in mender.scene.legal() for each in range(1, number))


def _is_unknown(mender: Mender, token: Token) -> bool:
    """Whether a setting could begin here, and this word is none."""
    scene = mender.scene
    return token.type == "WORD" and scene.awaits_entry and bool(scene.legal()) and token not in scene.legal()


def _has_value(mender: Mender, number: int) -> bool:
    """Whether the token is one value, or the beginning of a list or a group, after which the entry ends."""
    token = mender.peek(number)
    if token.type in {"LSQB", "LBRACE"}:
        return True
    return token.type in {*VALUES, "WORD"} and mender.peek(number + 1).type in {*ENDS, "WORD", "LBRACE"}
