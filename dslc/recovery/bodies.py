"""Bodies without braces, or with other delimiters than `{` and `}`."""

from __future__ import annotations

import re

from lark import Token

from dslc.diagnostics.collector import Place
from dslc.recovery.state import RecoveryState
from dslc.syntax.delimiters import matching_end
from dslc.syntax.tree import end, start

_PAIRS = {
    "do": "end|done", "begin": "end", "then": "end|fi", "(": r"\)", "[": r"\]", "<": ">",
}  # fmt: skip


def closing_word(state: RecoveryState, token: Token) -> bool:
    """The `end` (or similar) of a body that began with `do`; the mistake has been reported."""
    if token.start_pos not in state.closing_words or not state.parser_state.expects_entry:
        return False
    while state.peek().type not in {"_NL", "$END"}:
        state.advance()
    state.feed("RBRACE", start(token))
    return True


def closing_sign(state: RecoveryState, token: Token) -> bool:
    """The second sign of a pair whose mistake has been reported."""
    if token.start_pos not in state.closing_signs:
        return False
    state.seek(start(token) + 1 if token.startswith(")") else end(token))
    return True


def signs_at_brace(state: RecoveryState, token: Token) -> bool:
    """`{% … %}`, `({ … })`: extra signs next to the braces of a body."""
    if token.type != "JUNK" or state.missing:
        return False
    text, last, after = state.text, state.parser_state.last, state.peek(1)
    if last is not None and last.type == "LBRACE" and last.end_pos == start(token):
        half = matching_end(text, start(last)) - 1 - len(token)
        if half < end(token) or text[half : half + len(token)] != token[::-1]:
            return False
        place = Place(start(last), end(token))
    elif str(token) == "(" and after.type == "LBRACE" and _may_open_body(state):
        half = matching_end(text, start(after))
        if text[half : half + 1] != ")":
            return False
        place = Place(start(token), end(after))
    else:
        return False
    hint = f"remove `{token[:8]}` on both sides"
    state.collector.add("S112", f"unexpected `{token[:8]}` next to a brace", place, hint=hint)
    state.closing_signs.add(half)
    state.advance()
    return True


def missing_brace(state: RecoveryState, token: Token) -> bool:
    """A head whose body follows without `{`."""
    parser_state = state.parser_state
    if not _may_open_body(state):
        return False
    beside = _tokens_before_body(state, token)
    closer = _find_closing_word(state, token)
    if closer < 0 and not (state.excess and _continues_in_body(state, beside)):
        return False
    beside = 1 if closer >= 0 else beside
    last = parser_state.head[-1].end_pos or 0
    head, code = (
        state.shown_head(parser_state.head),
        "S101" if len(parser_state.head) == 1 and parser_state.frames else "S111",
    )
    what = f"`{head}` has no value" if code == "S101" else f"`{{` is missing after `{head}`"
    place = Place(start(token), end(state.peek(beside - 1))) if beside else Place(last, last + 1)
    state.collector.add(code, what, place, hint=f"write `{head} {{`")
    for _ in range(beside):
        state.advance()
    state.feed("LBRACE", last)
    if closer >= 0:
        state.closing_words.add(closer)
        state.by_closing_word.add(last)
    else:
        state.excess -= 1
    return True


def _tokens_before_body(state: RecoveryState, token: Token) -> int:
    """Number of tokens at the end of a head's line in place of `{`."""
    count = 0
    while count < 3 and state.peek(count).type in {"SIGN", "JUNK", "_COMMA"}:
        count += 1
    if count and _body_follows(state, count):
        return count
    if token.type == "LSQB" and state.excess and state.brackets > 0:
        return int(_body_follows(state, 1))
    instead = token in {"do", "begin", "then"} or (token.type == "UNCLOSED_STRING" and not token.strip('" \r'))
    return int(instead and state.peek(1).type == "_NL")


def _body_follows(state: RecoveryState, number: int) -> bool:
    """True if the token at `number` ends the line, or is a setting of the body that the head would open and whose `}`
    is present."""
    after = state.peek(number)
    return after.type == "_NL" or (
        state.excess > 0 and after in state.parser_state.body_settings(state.parser_state.head)
    )


def _find_closing_word(state: RecoveryState, token: Token) -> int:
    """Position of the closing word or sign of a body that this token (at the end of its line) opens, or -1."""
    closing = _PAIRS.get(token[:1] if token.type in {"JUNK", "LSQB"} else str(token))
    head = state.parser_state.head[0]
    column = state.parser_state.column(head)
    if closing is None or state.peek(1).type != "_NL" or column is None or column > 100:
        return -1
    if state.peek(2).type != "WORD":  # `filter [` and lines of `{ … }`
        return -1
    line = re.compile(rf"\n[ \t]{{0,{column}}}(?P<closer>{closing})[;,]?[ \t\r]*(?=\n|\Z)")
    found = line.search(state.text, end(token), end(token) + 20_000)
    return found.start("closer") if found else -1


def _continues_in_body(state: RecoveryState, number: int) -> bool:
    """True if the text after the head, from the token at `number` on, belongs to its body."""
    parser_state, token = state.parser_state, state.peek(number)
    if token.type not in {"_NL", "WORD", "RBRACE"}:
        return False
    follows = state.after_line_end(number)
    inside, setting = parser_state.body_settings(parser_state.head), parser_state.setting()
    variant = setting is not None and setting.type == "variant"
    if follows.type == "WORD":
        return follows in inside and not (variant and follows in parser_state.legal())
    return follows.type == "RBRACE" and token.type != "_NL" and not variant


def _may_open_body(state: RecoveryState) -> bool:
    """True if the current words are a head that may have a body."""
    parser_state = state.parser_state
    if not parser_state.head or parser_state.lists:
        return False
    if not parser_state.frames:
        return parser_state.head[0] in state.vocabulary.kinds and len(parser_state.head) == 2
    setting = parser_state.setting()
    return setting is not None and setting.takes_body(len(parser_state.head))
