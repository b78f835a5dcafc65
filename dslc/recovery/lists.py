"""Lists: looked through before they go in, for lark could not take them back."""

from __future__ import annotations

import re

from lark import Token

from dslc.diagnostics.collector import Place
from dslc.recovery.state import ENDS, VALUES, Mender, shown, words
from dslc.recovery.strings import add_single_quotes, add_unclosed, swallowed
from dslc.syntax.delimiters import entry_end, list_end, matching
from dslc.syntax.segment import DEEPEST
from dslc.syntax.tokens import COMMENT, WORD

_BAD = {"UNCLOSED_STRING", "UNCLOSED_LONG_STRING", "SINGLE_QUOTED", "SIGN", "JUNK", "LBRACE", "RBRACE", "$END"}

# Further items of a list up to its `]`, on lines below.
_REST = re.compile(rf"(?=\r?\n)(?P<words>(?>(?:[\s,]|\"[^\"\n]*(?:\"|(?=\n))|[\w.-]|{COMMENT})*))\]")
_FIRST = re.compile(rf"^[ \t]*({WORD})", re.MULTILINE)


def bracket_is_missing(mender: Mender, token: Token) -> bool:
    """`tools search remember]`: a list that lacks its `[`."""
    setting = mender.scene.setting() if mender.scene.awaits_value else None
    items = {"WORD", "STRING", "NUMBER", "_COMMA", "_NL"}
    if setting is None or not setting.many or setting.type == "group" or token.type not in items:
        return False
    if mender.brackets >= 0:
        return False
    number = 0
    while mender.peek(number).type in items and not _begins_setting(mender, number):
        number += 1
    if mender.peek(number).type != "RSQB":
        return False
    breaks = any(mender.peek(each).type == "_NL" for each in range(number))
    if breaks and mender.peek(number + 1).type not in ENDS:
        return False
    end = mender.scene.head[0].end_pos or 0
    place = token if token.type != "_NL" else Place(end, end + 1)
    mender.findings.add("S113", "`[` is missing before this list", place, hint="add `[`")
    mender.feed("LSQB", token.start_pos or 0)
    return True


def bad_list_ahead(mender: Mender, token: Token) -> bool:
    """A list is looked through before it goes in, for it could not be taken back."""
    scene = mender.scene
    if token.type != "LSQB" or scene.lists or not (scene.awaits_value or not scene.frames):
        return False
    depth = number = 0
    while True:
        item = mender.peek(number)
        number += 1
        depth += (item.type == "LSQB") - (item.type == "RSQB")
        if depth == 0:
            return False
        if depth + len(scene.frames) > DEEPEST:
            _too_deep(mender, token, item)
            return True
        if item.type in _BAD:
            break
        if item.type == "_COMMA" and mender.peek(number - 2).type in {"LSQB", "_COMMA"}:
            break
        if _next_setting(mender, number, item):
            break
    _bad_list(mender, token, number - 1)
    return True


def _too_deep(mender: Mender, opened: Token, bad: Token) -> None:
    """Leave out a list with more levels than a program may have: up to its `]`, or the end of its line."""
    mender.findings.add("S108", "nested deeper than 64 levels", bad, hint="use fewer levels")
    at = bad.end_pos or 0
    behind = entry_end(mender.text, at) if mender.brackets > 0 else list_end(mender.text, opened.start_pos or 0, at)
    if mender.scene.awaits_value:
        mender.value_is_lost()
    mender.damage(everything=True)
    mender.seek(behind)


def _next_setting(mender: Mender, number: int, item: Token) -> bool:
    """Whether the line after this line's end begins with a setting of the body: then the list was not closed."""
    return item.type == "_NL" and mender.brackets > 0 and _begins_setting(mender, number)


def _begins_setting(mender: Mender, number: int) -> bool:
    """Whether that token is a key of the body, and a value or a group follows."""
    return mender.peek(number) in mender.scene.legal() and mender.peek(number + 1).type in {*VALUES, "WORD", "LBRACE"}


def _bad_list(mender: Mender, opened: Token, number: int) -> None:
    bad = mender.peek(number)
    label = [mender.findings.label("the list begins here", opened)]
    if bad.type == "LBRACE" and _holds_groups(mender, opened):
        return
    if bad.type == "RBRACE" and mender.excess > 0 and mender.brackets > 0:
        mender.findings.add("S113", "unexpected `}` where a list ends", bad, hint="write `]`", labels=label)
        mender.excess -= 1
        _leave_out(mender, opened, bad, bad.end_pos or 0)
        return
    if bad.type in {"LBRACE", "RBRACE", "$END", "_NL"}:
        mender.findings.add("S113", "the list is not closed", opened, hint="add `]`")
    elif bad.type in {"UNCLOSED_STRING", "UNCLOSED_LONG_STRING"}:
        add_unclosed(mender, bad)
    elif bad.type == "SINGLE_QUOTED":
        add_single_quotes(mender, bad)
    elif bad.type == "_COMMA":
        mender.findings.add("S113", "unexpected second comma", bad, hint="remove one", labels=label)
    else:
        hint = 'a list holds words, numbers and strings; other text needs `"`'
        mender.findings.add("S113", f"unexpected {shown(bad)} in a list", bad, hint=hint, labels=label)
    if bad.type == "UNCLOSED_STRING":
        _leave_out(mender, opened, bad, bad.end_pos or 0)
        rest = _REST.match(mender.text, bad.end_pos or 0, (bad.end_pos or 0) + 10_000)
        if rest is not None and not mender.scene.legal().keys() & set(_FIRST.findall(rest["words"])):
            mender.done.mentions |= words(rest[0])
            mender.seek(rest.end())
        else:
            swallowed(mender, bad)
    elif bad.type in {"LBRACE", "RBRACE", "$END", "_NL"}:
        _leave_out(mender, opened, bad, bad.start_pos or 0)
    else:
        _leave_out(mender, opened, bad, list_end(mender.text, opened.start_pos or 0, bad.end_pos or 0))


def _leave_out(mender: Mender, opened: Token, bad: Token, behind: int) -> None:
    """Go on behind a list of which nothing is taken."""
    if mender.scene.awaits_value:
        mender.value_is_lost()
    mender.damage()
    start = opened.start_pos or 0
    mender.done.mentions |= words(mender.text[start : min(bad.start_pos or 0, start + 100_000)])
    mender.seek(behind)


def _holds_groups(mender: Mender, opened: Token) -> bool:
    """`filter [{ … }, { … }]`: groups in a list, which is closed behind them."""
    if mender.brackets > 0:
        return False
    behind = matching(mender.text, opened.start_pos or 0)
    if mender.text[behind - 1 : behind] != "]":
        return False
    setting = mender.scene.setting()
    many = setting is not None and setting.many and setting.type == "group"
    hint = f"give `{setting.name}` once for each: `{setting.name} {{ … }}`" if setting and many else None
    mender.findings.add("S113", "unexpected groups in a list", opened, hint=hint or "remove the brackets")
    mender.done.mentions |= words(mender.text[opened.start_pos or 0 : min(behind, (opened.start_pos or 0) + 100_000)])
    mender.damage()
    if mender.scene.awaits_value:
        mender.value_is_lost()
    mender.seek(behind)
    return True
