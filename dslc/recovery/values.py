"""Keys and values, and what stands between them."""

from __future__ import annotations

import re

from lark import Token

from dslc.example import example
from dslc.findings import Place
from dslc.nearest import listing
from dslc.recovery.mender import VALUES, Mender, shown, words

_NAMES = {"word", "name", "reference", "variant", "boolean"}  # types of settings whose value may be a bare word
_BARE = re.compile(r"[^\s{}\[\],\"']{1,200}")


def key_as_value(mender: Mender, token: Token) -> bool:
    """`json_path equals "opened"`: the word taken for a value is a key, and what stands before it has none."""
    scene, after = mender.scene, mender.peek(1)
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
        mistaken = after.type in {*VALUES, "UNCLOSED_STRING"}
    if mistaken:
        no_value(mender)
    return mistaken


def no_value_here(mender: Mender, token: Token) -> bool:
    if not mender.scene.awaits_value or token.type not in {"_NL", "RBRACE", "_COMMA", "$END"}:
        return False
    follows = token.type == "_NL" and mender.peek(1).type in VALUES
    no_value(mender, lost=not follows)
    if follows:
        mender.advance()
    return True


def no_value(mender: Mender, *, lost: bool = True) -> None:
    key = mender.scene.head[0]
    setting = mender.scene.setting()
    # A word that is no setting is not shown: it may be the lost value of one.
    what = f"`{setting.name}`" if setting else "this word"
    hint = f"such as `{example(setting)}`" if setting else "a setting's value stands on its line: `key value`"
    end = key.end_pos or 0
    mender.findings.add("S101", f"{what} has no value", Place(end, end + 1), hint=hint)
    if setting is None:
        mender.damage()
        mender.done.mentions.add(str(key))
    if lost:
        mender.value_is_lost()


def sign(mender: Mender, token: Token) -> bool:
    scene, start, end = mender.scene, token.start_pos or 0, token.end_pos or 0
    if token.type != "SIGN" or scene.breaks or scene.lists or not scene.head:
        return False
    if (scene.frames and len(scene.head) != 1) or mender.text.startswith("://", start):
        return False
    key = mender.shown_head(scene.head)
    after = end + len(mender.text[end:]) - len(mender.text[end:].lstrip(" \t")) if end - start < 9 else end
    spaced = mender.text[start - 1 : start].isspace()
    fix = mender.findings.fix(f"remove `{token}`", (start, after, "" if spaced else " "))
    mender.findings.add("S105", f"no `{token}` stands after `{key}`", token, hint="remove it", fix=fix)
    mender.advance()
    if scene.awaits_value and mender.peek().type in {"_NL", "RBRACE", "_COMMA", "$END"}:
        mender.value_is_lost()
    return True


def comma(mender: Mender, token: Token) -> bool:
    if token.type != "_COMMA":
        return False
    after = mender.scene.last.type if mender.scene.last else ""
    where = {"RBRACE": "after `}`", "_COMMA": "after another comma", "_NL": "at the beginning of a line"}
    hint = "remove it; one comma may follow a value, on its line"
    mender.findings.add("S109", f"no comma stands {where.get(after, 'here')}", token, hint=hint)
    mender.advance()
    return True


def bare_text(mender: Mender, token: Token) -> bool:
    """`path /hooks/github`: a text that needs quotes."""
    if token.type not in {"JUNK", "SIGN"} or not mender.scene.awaits_value:
        return False
    _add_bare_text(mender, token)
    return True


def bare_word(mender: Mender, token: Token) -> bool:
    """The same where the text begins like a word: `agent team/reviewer`."""
    after = mender.peek(1)
    if token.type not in {"WORD", "NUMBER"} or not mender.scene.awaits_value or after.start_pos != token.end_pos:
        return False
    if after.type not in {"JUNK", "SIGN", "NUMBER", "WORD"}:
        return False
    _add_bare_text(mender, token)
    return True


def _add_bare_text(mender: Mender, first: Token) -> None:
    start = first.start_pos or 0
    bare = _BARE.match(mender.text, start)
    end = max(bare.end() if bare else 0, first.end_pos or 0)
    message = "a text with such characters stands in quotes"
    mender.findings.add("S109", message, Place(start, end), hint='write it as `"…"`')
    mender.done.mentions |= words(mender.text[start:end])
    mender.value_is_lost()
    mender.seek(end)


def quoted_key(mender: Mender, token: Token) -> bool:
    """`"path": "/hooks"`: a key in quotes, as in JSON."""
    word = token[1:-1]
    if token.type != "STRING" or not mender.scene.awaits_entry or word not in mender.scene.legal():
        return False
    if mender.peek(1).type not in {"SIGN", *VALUES, "WORD"}:
        return False
    fix = mender.findings.fix(f"write `{word}`", (token.start_pos or 0, token.end_pos or 0, word))
    mender.findings.add("S109", "a setting's name stands without quotes", token, hint=f"write `{word}`", fix=fix)
    mender._ahead[mender._read] = Token("WORD", word, start_pos=token.start_pos, end_pos=token.end_pos)
    if mender.peek(1).type == "SIGN":
        mender._ahead.pop(mender._read + 1)
    return True


def anything_else(mender: Mender, token: Token) -> bool:
    if mender.scene.frames:
        settings = mender.scene.legal()
        hint = "a setting's name or `}` could stand here"
        if settings:
            hint = f"a setting's name could stand here, or `}}`: {listing(settings)}"
    else:
        hint = f"a block could stand here: {listing(mender.vocabulary.kinds)}"
    mender.findings.add("S109", f"{shown(token)} cannot stand here", token, hint=hint)
    mender.skip()
    return True
