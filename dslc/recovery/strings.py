"""Strings that are not closed, and quotes that are none."""

from __future__ import annotations

from lark import Token

from dslc.findings import Place
from dslc.recovery.mender import Mender, words
from dslc.segment import closers


def unclosed_string(mender: Mender, token: Token) -> bool:
    if token.type not in {"UNCLOSED_STRING", "UNCLOSED_LONG_STRING"}:
        return False
    add_unclosed(mender, token)
    mender.drop()
    if mender.scene.awaits_value:
        mender.value_is_lost()
    mender.damage(everything=token.type == "UNCLOSED_LONG_STRING")
    swallowed(mender, token)
    return True


def add_unclosed(mender: Mender, token: Token) -> None:
    start = token.start_pos or 0
    end = mender.text.find("\n", start)
    end = len(mender.text) if end < 0 else end
    place = Place(start, end - 1 if mender.text[end - 1 : end] == "\r" else end)
    if token.type == "UNCLOSED_LONG_STRING":
        mender.findings.add("S102", 'the long string is not closed by `"""`', place, hint='add `"""`')
    else:
        hint = 'add `"` at its end; a text over several lines stands in `"""`'
        mender.findings.add("S102", "the string is not closed", place, hint=hint)


def swallowed(mender: Mender, token: Token) -> None:
    """Close what the text of an unclosed string was meant to close."""
    if token.type == "UNCLOSED_LONG_STRING":
        mender.done.mentions |= words(token[:100_000])
        while mender.scene.frames:
            mender.feed("RBRACE", token.end_pos or 0)
        mender.missing = 0
        return
    mender.done.mentions |= words(token)
    for _ in range(min(closers(token), len(mender.scene.frames))):
        mender.feed("RBRACE", token.end_pos or 0)


def single_quotes(mender: Mender, token: Token) -> bool:
    if token.type != "SINGLE_QUOTED":
        return False
    plain = add_single_quotes(mender, token)
    mender.advance()
    if mender.scene.awaits_value or mender.scene.lists or (not mender.scene.frames and len(mender.scene.head) == 1):
        if plain:
            quoted = Token("STRING", f'"{token[1:-1]}"', start_pos=token.start_pos, end_pos=token.end_pos)
            mender.put(quoted)
        else:
            mender.value_is_lost()
    else:
        mender.skip()
    return True


def add_single_quotes(mender: Mender, token: Token) -> bool:
    """Note the quotes; whether double ones can simply take their place."""
    start, end = token.start_pos or 0, token.end_pos or 0
    plain = len(token) > 1 and token.endswith("'") and not set('"\\') & set(token)
    fix = mender.findings.fix("use double quotes", (start, start + 1, '"'), (end - 1, end, '"')) if plain else None
    mender.findings.add("S106", "a string stands in double quotes", token, hint='use `"`', fix=fix)
    return plain
