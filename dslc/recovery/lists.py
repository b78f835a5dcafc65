"""Lists: checked as a whole before lark gets their first token, because tokens cannot be taken back from lark."""

from __future__ import annotations

import re

from lark import Token

from dslc.diagnostics.collector import Place
from dslc.recovery.state import ENDS, VALUES, RecoveryState, describe_token
from dslc.recovery.strings import add_single_quotes, add_unclosed, close_swallowed
from dslc.syntax.delimiters import entry_end, list_end, matching_end
from dslc.syntax.section import MAX_DEPTH
from dslc.syntax.tokens import COMMENT, WORD

_INVALID = {"UNCLOSED_STRING", "UNCLOSED_LONG_STRING", "SINGLE_QUOTED", "SIGN", "JUNK", "LBRACE", "RBRACE", "$END"}

# Items on the lines below, up to the `]` of a list.
_REST = re.compile(rf"(?=\r?\n)(?P<words>(?>(?:[\s,]|\"[^\"\n]*(?:\"|(?=\n))|[\w.-]|{COMMENT})*))\]")
_FIRST = re.compile(rf"^[ \t]*({WORD})", re.MULTILINE)


def missing_bracket(state: RecoveryState, token: Token) -> bool:
    """`tools search remember]`: a list without its `[`."""
    setting = state.parser_state.setting() if state.parser_state.expects_value else None
    items = {"WORD", "STRING", "NUMBER", "_COMMA", "_NL"}
    if setting is None or not setting.many or setting.type == "group" or token.type not in items:
        return False
    if state.brackets >= 0:
        return False
    number = 0
    while state.peek(number).type in items and not _begins_setting(state, number):
        number += 1
    if state.peek(number).type != "RSQB":
        return False
    over_lines = any(state.peek(each).type == "_NL" for each in range(number))
    if over_lines and state.peek(number + 1).type not in ENDS:
        return False
    end = state.parser_state.head[0].end_pos or 0
    place = token if token.type != "_NL" else Place(end, end + 1)
    state.collector.add("S113", "`[` is missing before this list", place, hint="add `[`")
    state.feed("LSQB", token.start_pos or 0)
    return True


def invalid_list(state: RecoveryState, token: Token) -> bool:
    """A list that contains an error."""
    parser_state = state.parser_state
    if token.type != "LSQB" or parser_state.lists or not (parser_state.expects_value or not parser_state.frames):
        return False
    depth = number = 0
    while True:
        item = state.peek(number)
        number += 1
        depth += (item.type == "LSQB") - (item.type == "RSQB")
        if depth == 0:
            return False
        if depth + len(parser_state.frames) > MAX_DEPTH:
            _too_deep(state, token, item)
            return True
        if item.type in _INVALID:
            break
        if item.type == "_COMMA" and state.peek(number - 2).type in {"LSQB", "_COMMA"}:
            break
        if _next_setting(state, number, item):
            break
    _add_invalid_list(state, token, number - 1)
    return True


def _too_deep(state: RecoveryState, opened: Token, invalid: Token) -> None:
    """Skip a list with more nesting than a program may have: up to its `]`, or the end of its line."""
    state.collector.add("S108", "nested deeper than 64 levels", invalid, hint="reduce the nesting")
    at = invalid.end_pos or 0
    end_pos = entry_end(state.text, at) if state.brackets > 0 else list_end(state.text, opened.start_pos or 0, at)
    if state.parser_state.expects_value:
        state.feed_missing_value()
    state.damage(everything=True)
    state.seek(end_pos)


def _next_setting(state: RecoveryState, number: int, item: Token) -> bool:
    """True if `item` ends a line and the next line begins with a setting: then the list is not closed."""
    return item.type == "_NL" and state.brackets > 0 and _begins_setting(state, number)


def _begins_setting(state: RecoveryState, number: int) -> bool:
    """True if the token at `number` is a key of the body, followed by a value or a group."""
    return state.peek(number) in state.parser_state.legal() and state.peek(number + 1).type in {
        *VALUES,
        "WORD",
        "LBRACE",
    }


def _add_invalid_list(state: RecoveryState, opened: Token, number: int) -> None:
    """Report the invalid token at `number` of a list and skip the list."""
    invalid = state.peek(number)
    label = [state.collector.label("the list begins here", opened)]
    if invalid.type == "LBRACE" and _holds_groups(state, opened):
        return
    if invalid.type == "RBRACE" and state.excess > 0 and state.brackets > 0:
        state.collector.add("S113", "unexpected `}` at the end of a list", invalid, hint="write `]`", labels=label)
        state.excess -= 1
        _discard_list(state, opened, invalid, invalid.end_pos or 0)
        return
    if invalid.type in {"LBRACE", "RBRACE", "$END", "_NL"}:
        state.collector.add("S113", "the list is not closed", opened, hint="add `]`")
    elif invalid.type in {"UNCLOSED_STRING", "UNCLOSED_LONG_STRING"}:
        add_unclosed(state, invalid)
    elif invalid.type == "SINGLE_QUOTED":
        add_single_quotes(state, invalid)
    elif invalid.type == "_COMMA":
        state.collector.add("S113", "unexpected second comma", invalid, hint="remove one", labels=label)
    else:
        hint = "a list contains words, numbers and strings; put other text in quotes"
        state.collector.add("S113", f"unexpected {describe_token(invalid)} in a list", invalid, hint=hint, labels=label)
    if invalid.type == "UNCLOSED_STRING":
        _discard_list(state, opened, invalid, invalid.end_pos or 0)
        rest = _REST.match(state.text, invalid.end_pos or 0, (invalid.end_pos or 0) + 10_000)
        if rest is not None and not state.parser_state.legal().keys() & set(_FIRST.findall(rest["words"])):
            state.mention(*rest.span())
            state.seek(rest.end())
        else:
            close_swallowed(state, invalid)
    elif invalid.type in {"LBRACE", "RBRACE", "$END", "_NL"}:
        _discard_list(state, opened, invalid, invalid.start_pos or 0)
    else:
        _discard_list(state, opened, invalid, list_end(state.text, opened.start_pos or 0, invalid.end_pos or 0))


def _discard_list(state: RecoveryState, opened: Token, invalid: Token, end_pos: int) -> None:
    """Discard a list and continue after it."""
    if state.parser_state.expects_value:
        state.feed_missing_value()
    state.damage()
    start = opened.start_pos or 0
    state.mention(start, max(end_pos, invalid.start_pos or 0))
    state.seek(end_pos)


def _holds_groups(state: RecoveryState, opened: Token) -> bool:
    """`filter [{ … }, { … }]`: report groups in a list that is closed after them, and skip the list."""
    if state.brackets > 0:
        return False
    end_pos = matching_end(state.text, opened.start_pos or 0)
    if state.text[end_pos - 1 : end_pos] != "]":
        return False
    setting = state.parser_state.setting()
    many = setting is not None and setting.repeats
    hint = f"write `{setting.name} {{ … }}` once for each group" if setting and many else None
    state.collector.add("S113", "unexpected groups in a list", opened, hint=hint or "remove the brackets")
    state.mention(opened.start_pos or 0, end_pos)
    state.damage()
    if state.parser_state.expects_value:
        state.feed_missing_value()
    state.seek(end_pos)
    return True
