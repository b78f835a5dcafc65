"""Unclosed strings, and misplaced quotes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lark import Token

from dslc.diagnostics.collector import Place
from dslc.recovery.state import RecoveryState
from dslc.setting import STRING_TYPES
from dslc.syntax.delimiters import closing_braces, entry_end
from dslc.syntax.tokens import WORD

_MAX_LENGTH = 20_000  # characters of a text on several lines
_LINE = re.compile(r"[^\n]+")
_FIRST = re.compile(rf"[ \t]*(?P<word>{WORD})[ \t]*(?P<value>[\"\[{{0-9]|[\w-]+[ \t\r]*$)?(?P<rest>[^\n]*)")
_AFTER_VALUE = re.compile(rf"[ \t]*+(?:[\r\n,;}}\]#]|//|\Z|(?P<word>{WORD})[ \t{{])")


def may_end(state: RecoveryState, at: int) -> bool:
    """True if a value may end at `at`: the line end, a bracket or a setting follows."""
    after = _AFTER_VALUE.match(state.text, at)
    return after is not None and (after["word"] is None or after["word"] in state.parser_state.legal())


_CONTINUES = {"WORD", "NUMBER", "STRING", "LONG_STRING", "JUNK"}
"""Tokens that may continue a text after a quote inside it."""
_SIGNS = ";,:=(){}[]-"
"""Signs that do not continue a text: they are left over from another syntax."""
_QUOTED = re.compile(r'[^"\n]{1,500}(?<![\s\[,({])"(?=[\s",.;:!?)])')
_ESCAPE_OR_QUOTE = re.compile(r"\\[^\n]|\"")
_ESCAPE_OR_QUOTES = re.compile(r'\\[\s\S]|"""')
_AFTER_TEXT = re.compile(
    rf"[ \t]*+,?[ \t]*+(?:\r?\n|\Z|\}}|#|//|(?<=[ \t,])(?P<word>{WORD})(?=[ \t]*[\"\[{{0-9]|[ \t]+[\w-]))"
)


def inner_quotes(state: RecoveryState, token: Token) -> bool:
    """`"Say "hi" to them"`: a quote inside a text ends it, and more text follows directly."""
    parser_state, after = state.parser_state, state.peek(1)
    setting = parser_state.setting() if parser_state.expects_value else None
    if setting is None or setting.type not in STRING_TYPES or token.type not in {"STRING", "LONG_STRING"}:
        return False
    if after.start_pos != token.end_pos or after.type not in _CONTINUES:
        return False
    if after in parser_state.legal() and not _is_quoted(state, after):
        return False
    quote = '"' if token.type == "STRING" else '"""'
    first, start = (token.end_pos or 0) - len(quote), token.start_pos or 0
    end_pos = _end_of_text(state, token.end_pos or 0, quote)
    if after.type == "JUNK" and not after[0].isalnum() and (not end_pos or after[0] in _SIGNS):
        return False
    inner = [first, *(at for at in _quotes(state.text, first + len(quote), end_pos - len(quote), quote))]
    fix = state.collector.fix("escape the quotes inside", *((at, at, "\\") for at in inner)) if end_pos else None
    hint = 'write `\\"` inside a text, or `"""` around it' if quote == '"' else 'write `\\"""` inside a text'
    place = Place(first, first + len(quote))
    state.collector.add("S116", f"this `{quote}` inside the text ends it", place, hint=hint, fix=fix)
    end_pos = end_pos or entry_end(state.text, token.end_pos or 0)
    state.mention(start, end_pos)
    state.feed_missing_value()
    state.rescan(end_pos)
    return True


def _is_quoted(state: RecoveryState, word: Token) -> bool:
    """True if the name of a setting is more likely the first word of a quotation inside a text: the next quote ends the
    quotation, and no value begins after it."""
    return _QUOTED.match(state.text, word.start_pos or 0) is not None


def _quotes(text: str, start: int, end: int, quote: str) -> Iterator[int]:
    """Positions of unescaped quotes between `start` and `end`."""
    pattern = _ESCAPE_OR_QUOTE if quote == '"' else _ESCAPE_OR_QUOTES
    return (found.start() for found in pattern.finditer(text, start, max(start, end)) if found[0] == quote)


def _end_of_text(state: RecoveryState, at: int, quote: str) -> int:
    """End of a text that continues at `at`, or 0 if none is found.

    It is the first quote after which only another setting or the line end follows, if the remaining quotes are paired.
    """
    text, legal = state.text, state.parser_state.legal()
    limit = text.find("\n", at) if quote == '"' else len(text)
    limit = min(len(text) if limit < 0 else limit, at + _MAX_LENGTH)
    quotes = list(_quotes(text, at, limit, quote))
    for number, start in enumerate(quotes):
        after = _AFTER_TEXT.match(text, start + len(quote))
        if after and (after["word"] is None or after["word"] in legal) and (len(quotes) - number) % 2 == 1:
            return start + len(quote)
    return 0


_QUOTE = re.compile(r"\\[^\n]|\"|\n")
_TO_QUOTE = re.compile(r"[^\"\n]{1,500}(?<!\s)\"")


def _is_odd(state: RecoveryState, at: int) -> bool:
    """True if the rest of the line has an odd number of `"`. Only the next hundred are counted."""
    count = 0
    for quote in _QUOTE.finditer(state.text, at):
        if quote[0] == "\n" or count > 100:
            break
        count += quote[0] == '"'
    return count % 2 == 1


def unopened_string(state: RecoveryState, token: Token) -> bool:
    """`path /hooks"`: a text with a closing quote only."""
    setting = state.parser_state.setting() if state.parser_state.expects_value else None
    if setting is None or setting.type not in STRING_TYPES or token.type in {"STRING", "LONG_STRING", "_NL", "LSQB"}:
        return False
    start = token.start_pos or 0
    found = _TO_QUOTE.match(state.text, start)
    if found is None or not may_end(state, found.end()) or not _is_odd(state, start):
        return False
    fix = state.collector.fix('add `"`', (start, start, '"'), safe=True)
    state.collector.add(
        "S110", 'this text has only its closing `"`', Place(*found.span()), hint='add `"` before it', fix=fix
    )
    state.mention(*found.span())
    state.feed_missing_value()
    state.rescan(found.end())
    return True


def unclosed_string(state: RecoveryState, token: Token) -> bool:
    """A string that is not closed."""
    if token.type not in {"UNCLOSED_STRING", "UNCLOSED_LONG_STRING"}:
        return False
    add_unclosed(state, token)
    end_pos = _end_of_lines(state, token)
    if end_pos is not None:
        state.mention(token.start_pos or 0, end_pos)
        state.feed_missing_value()
        state.damage()
        state.rescan(end_pos)
        return True
    state.drop()
    if state.parser_state.expects_value:
        state.feed_missing_value()
    state.damage(everything=token.type == "UNCLOSED_LONG_STRING")
    close_swallowed(state, token)
    return True


def _end_of_lines(state: RecoveryState, token: Token) -> int | None:
    """End of a text on several lines in single `"` that begins with this string, or None.

    It is the first `"` of the next line that has one, if a value may end there.
    """
    parser_state, text = state.parser_state, state.text
    if token.type != "UNCLOSED_STRING" or not parser_state.expects_value:
        return None
    at, legal, outer = token.end_pos or 0, parser_state.legal(), parser_state.column(parser_state.head[0]) or 0
    for line in _LINE.finditer(text, at + 1, at + _MAX_LENGTH):
        first = _FIRST.match(line[0])
        if first is None:  # the line begins with a sign such as `}`
            column = len(line[0]) - len(line[0].lstrip(" \t"))
            if line[0].lstrip(" \t").startswith("}") and column <= outer:
                return None
        elif first["word"] in legal and (first["value"] or not first["rest"]):
            return None
        quotes = list(_quotes(text, line.start(), line.end(), '"'))
        if len(quotes) % 2:  # the remaining ones are pairs
            return quotes[0] + 1 if may_end(state, quotes[0] + 1) else None
        if quotes:
            return None
    return None


def add_unclosed(state: RecoveryState, token: Token) -> None:
    """Report an unclosed string."""
    start = token.start_pos or 0
    end = state.text.find("\n", start)
    end = len(state.text) if end < 0 else end
    place = Place(start, end - 1 if state.text[end - 1 : end] == "\r" else end)
    if token.type == "UNCLOSED_LONG_STRING":
        state.collector.add("S102", 'the long string is not closed by `"""`', place, hint='add `"""`')
    else:
        hint = 'add `"` at its end; a text on several lines needs `"""`'
        state.collector.add("S102", "the string is not closed", place, hint=hint)


def close_swallowed(state: RecoveryState, token: Token) -> None:
    """Close the bodies whose `}` an unclosed string contains."""
    state.mention(token.start_pos or 0, token.end_pos or 0)
    if token.type == "UNCLOSED_LONG_STRING":
        while state.parser_state.frames:
            state.feed("RBRACE", token.end_pos or 0)
        state.missing = 0
        return
    for _ in range(min(closing_braces(token), len(state.parser_state.frames))):
        state.feed("RBRACE", token.end_pos or 0)


def add_single_quotes(state: RecoveryState, token: Token, hint: str | None = None) -> bool:
    """Report single quotes. Returns True if they can simply be replaced by double quotes."""
    start, end = token.start_pos or 0, token.end_pos or 0
    edits = ((start, start + 1, '"'), (end - 1, end, '"'))
    plain = len(token) > 1 and token.endswith("'") and not set('"\\') & set(token)
    fix = state.collector.fix("use double quotes", *edits, safe=True) if plain else None
    state.collector.add("S106", """strings use `"`, not `'`""", token, hint=hint or 'use `"`', fix=fix)
    return plain
