"""Syntax of other languages and tools: comments, lists, multi-line text and merge conflict markers."""

from __future__ import annotations

from lark import Token

from dslc.diagnostics.collector import Place
from dslc.recovery.state import RecoveryState
from dslc.syntax.tree import start


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
