"""Lines whose first word is not a setting."""

from __future__ import annotations

from lark import Token

from dslc.diagnostics.collector import Place
from dslc.diagnostics.suggestion import listing, nearest
from dslc.recovery.state import ENDS, VALUES, RecoveryState
from dslc.syntax.tree import end, start

_MAX_TOKENS = 60  # tokens of a line that are inspected


def word_before_key(state: RecoveryState, token: Token) -> bool:
    """`let path "/x"`, `keep body true`: a word before a key, or a key in two words."""
    legal, after = state.parser_state.legal(), state.peek(1)
    if not _is_unknown(state, token) or after.type != "WORD" or not _has_value(state, 2):
        return False
    joined = next((key for key in (f"{token}_{after}", f"{token}{after}") if key in legal), None)
    if joined is not None:
        fix = state.collector.fix(f"write `{joined}`", (start(token), end(after), joined))
        place = Place(start(token), end(after))
        state.collector.add("S109", f"`{joined}` is written as two words", place, hint=f"write `{joined}`", fix=fix)
        state.advance()
        state.replace(Token("WORD", joined, start_pos=start(token), end_pos=end(after)))
        return True
    if after not in legal:
        return False
    fix = state.collector.fix("remove it", (start(token), start(after), ""))
    message = f"unexpected word before `{after}`"
    state.collector.add("S109", message, token, hint="remove it: a setting is `key value`", fix=fix)
    state.recovered.mentions.add(str(state.advance()))
    return True


def not_a_setting(state: RecoveryState, token: Token) -> bool:
    """`TODO write this`: a line whose first word is not a setting and that is not shaped like a setting."""
    if not _is_unknown(state, token) or state.parser_state.column(token) is None:
        return False
    number = 1
    while state.peek(number).type not in {"_NL", "LBRACE", "RBRACE", "$END"} and number < _MAX_TOKENS:
        number += 1
    last = state.peek(number)
    if number < 3 or last.type not in {"_NL", "RBRACE", "$END"} or _is_known(state, number):
        return False
    end_pos = end(state.peek(number - 1))
    hint = f"a setting is `key value`; settings here: {listing(state.parser_state.legal())}"
    state.collector.add("S109", "this line is not a setting", Place(start(token), end_pos), hint=hint)
    state.mention(start(token), end_pos)
    state.damage()
    state.seek(end_pos)
    return True


def _is_known(state: RecoveryState, number: int) -> bool:
    """True if the first `number` tokens form a setting, contain a known setting, or are explained by another rule."""
    second = state.peek(1)
    if second.type == "SIGN" and (number <= 3 or nearest(state.peek(), state.parser_state.legal()) is not None):
        return True
    if second.type in {"UNCLOSED_STRING", "UNCLOSED_LONG_STRING", "LSQB"}:
        return True
    if number == 3 and state.peek(2).type in {"_COMMA", "UNCLOSED_STRING", "UNCLOSED_LONG_STRING"}:
        return True
    return any(state.peek(each) in state.parser_state.legal() for each in range(1, number))


def _is_unknown(state: RecoveryState, token: Token) -> bool:
    """True if a setting may begin here and this word is not one."""
    parser_state = state.parser_state
    return (
        token.type == "WORD"
        and parser_state.expects_entry
        and bool(parser_state.legal())
        and not parser_state.in_map
        and token not in parser_state.legal()
    )


def _has_value(state: RecoveryState, number: int) -> bool:
    """True if the token at `number` is a single value that ends the entry, or begins a list or a group."""
    token = state.peek(number)
    if token.type in {"LSQB", "LBRACE"}:
        return True
    return token.type in {*VALUES, "WORD"} and state.peek(number + 1).type in {*ENDS, "WORD", "LBRACE"}
