"""Syntax of other languages and tools: comments, lists, multi-line text and merge conflict markers."""

from __future__ import annotations

import re

from lark import Token

from dslc.diagnostics.collector import Place
from dslc.recovery.state import RecoveryState
from dslc.syntax.tokens import WORD
from dslc.syntax.tree import start

_DASHED = re.compile(r"(?>(?:[ \t\r]*\n[ \t]*-[ \t]+[^\n{}]*)+)")
_HEREDOC = re.compile(r"<<[-~]?[\"']?(?P<mark>[A-Za-z_]\w{0,40})[\"']?[ \t\r]*\n")
_WORD = re.compile(WORD)


def comment(state: RecoveryState, token: Token) -> bool:
    """`/* … */` between settings or blocks, or on one line after a key."""
    text, at = state.text, start(token)
    if token.type != "JUNK" or state.parser_state.lists or not text.startswith("/*", at):
        return False
    line, closed = text.find("\n", at), state.find("*/", at + 2)
    line = len(text) if line < 0 else line
    end_pos = closed + 2 if closed >= 0 else line
    if state.parser_state.expects_value and not 0 <= closed < line:
        return False
    state.collector.add(
        "S114", "`/*` does not begin a comment", Place(at, min(end_pos, line)), hint="begin each line with `#`"
    )
    state.mention(at, end_pos)
    state.damage()
    state.seek(end_pos)
    return True


def merge_conflict(state: RecoveryState, token: Token) -> bool:
    """`<<<<<<<`: both sides of a merge conflict; the right one cannot be known."""
    text, at = state.text, start(token)
    if token.type != "JUNK" or not text.startswith("<<<<<<<", at) or state.parser_state.column(token) != 0:
        return False
    last = state.find("\n>>>>>>>", at)
    line = text.find("\n", last + 1 if last >= 0 else at)
    end_pos = len(text) if line < 0 else line
    hint = "keep one side and remove the conflict markers"
    state.collector.add("S114", "unresolved merge conflict", Place(at, at + 7), hint=hint)
    state.mention(at, end_pos)
    if state.parser_state.expects_value:
        state.feed_missing_value()
    state.damage()
    if not state.parser_state.frames:
        state.recovered.nameless |= set(state.vocabulary.kinds)
    state.seek(end_pos)
    return True


def dash_list(state: RecoveryState, token: Token) -> bool:
    """`tools`, with lines of `- search` below it."""
    setting = state.parser_state.setting() if state.parser_state.expects_value else None
    if token.type != "_NL" or setting is None or not setting.many or setting.type == "group":
        return False
    found = _DASHED.match(state.text, start(token), start(token) + 10_000)
    if found is None:
        return False
    items = [item.strip(" \t\r,") for item in re.findall(r"-[ \t]+([^\n]*)", found[0])]
    plain = setting.type != "secret" and all(map(_WORD.fullmatch, items))
    hint = f"`{setting.name} [{', '.join(items[:8]) if plain else '…'}]`"
    first = found.start() + len(found[0]) - len(found[0].lstrip())
    state.collector.add("T401", f"`{setting.name}` takes a list in brackets", Place(first, found.end()), hint=hint)
    state.mention(*found.span())
    state.feed_missing_value()
    state.seek(found.end())
    return True


def multiline_text(state: RecoveryState, token: Token) -> bool:
    """`instruction |` or `instruction <<EOF`, with the text on the lines below."""
    parser_state, text, at = state.parser_state, state.text, start(token)
    setting = parser_state.setting() if parser_state.expects_value else None
    if token.type != "JUNK" or setting is None or setting.type not in {"string", "secret"}:
        return False
    here = _HEREDOC.match(text, at)
    if here is not None:
        last = re.compile(rf"\n[ \t]*{here['mark']}(?=\s|$)").search(text, here.end() - 1, here.end() + 20_000)
        end_pos = last.end() if last else -1
    else:
        outer = parser_state.column(parser_state.head[0])
        deeper = rf"[|>][-+]?[ \t\r]*(?:\n[ \t]*(?=\r?\n)|\n[ \t]{{{(outer or 0) + 1},}}[^\s}}][^\n]*)+"
        below = re.compile(deeper).match(text, at, at + 20_000) if (outer or 0) < 100 else None
        end_pos = below.end() if below else -1
    if end_pos < 0:
        return False
    message = 'a text on several lines needs `"""`'
    state.collector.add("S114", message, Place(at, end_pos), hint=f'write `{setting.name} """…"""`')
    state.mention(at, end_pos)
    state.feed_missing_value()
    state.seek(end_pos)
    return True
