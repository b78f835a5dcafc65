"""Text without quotes, or in other quotes than `"`."""

from __future__ import annotations

import re

from lark import Token

from dslc.blocks.values.names import NAME_RULE, is_name
from dslc.blocks.values.quantity import SIZE_UNITS, TIME_UNITS
from dslc.diagnostics.collector import Place
from dslc.diagnostics.passwords import without_passwords
from dslc.diagnostics.suggestion import nearest
from dslc.example import example
from dslc.recovery.state import VALUES, RecoveryState
from dslc.recovery.strings import may_end
from dslc.setting import NAME_TYPES, STRING_TYPES, Setting
from dslc.syntax.quoting import write_name
from dslc.syntax.tree import end, start

_MAX_TOKENS = 200  # tokens of a text that are inspected
_MAX_HINT_LINE = 80  # characters of a line shown in a hint
_NUMBERS = {"number", "integer"}
_UNITS = {
    "duration": {name for names in TIME_UNITS for name in names},
    "size": {*SIZE_UNITS, *map(str.lower, SIZE_UNITS)},
}
# Up to a blank. Directly following parentheses or brackets are included: `$.a[0].b`, `env("A")`, `${A}`.
_CHUNK = re.compile(
    r"(?:[^\s{}\[\],\"';()]|;(?!\s|\})|\([^\n()]{0,200}\)|\[[^\n\[\]]{0,200}\]|(?<=\$)\{[^\n{}]{0,200}\})+|[()]"
)

_CLOSING = {"'": "'", "`": "`", "“": "”“", "”": "”", "„": "“”", "‘": "’", "’": "’", "«": "»", "‹": "›", "＂": "＂"}


def other_quotes(state: RecoveryState, token: Token) -> bool:
    """`'…'`, `` `…` ``, `“…”`: a value or name in other quotes than `"`."""
    parser_state, at = state.parser_state, start(token)
    if token.type not in {"SINGLE_QUOTED", "JUNK"} or token[0] not in _CLOSING:
        return False
    if parser_state.lists or not (
        parser_state.expects_value or (not parser_state.frames and len(parser_state.head) == 1)
    ):
        return False
    sign = state.text[at : at + 3]
    if sign in {"'''", "```"}:
        close = state.find(sign, at + 3)
        if close >= 0:
            _replace_quotes(state, at, close + 3, 3)
            return True
    close = _closing_quote(state, at)
    if close < 0:
        return False
    _replace_quotes(state, at, close + 1, 1)
    return True


def _closing_quote(state: RecoveryState, at: int) -> int:
    """Position of the closing quote on the line: where a value may end, else the first one; -1 if there is none."""
    text, closing = state.text, _CLOSING[state.text[at]]
    first = -1
    for found in re.compile(f"[{closing}\n]").finditer(text, at + 1, at + 2000):
        if found[0] == "\n":
            break
        first = found.start() if first < 0 else first
        if may_end(state, found.end()):
            return found.start()
    return first


def _replace_quotes(state: RecoveryState, at: int, end_pos: int, width: int) -> None:
    quotes = '"' * width
    inner = state.text[at + width : end_pos - width]
    plain = "\\" not in inner and ('"' not in inner if width == 1 else '"""' not in inner and inner[-1:] != '"')
    edits = ((at, at + width, quotes), (end_pos - width, end_pos, quotes))
    fix = state.collector.fix("use double quotes", *edits, safe=True) if plain else None
    state.rescan(end_pos)
    hint = f"use `{quotes}`"
    if plain:
        kind = "STRING" if width == 1 else "LONG_STRING"
        state.insert(Token(kind, f"{quotes}{inner}{quotes}", start_pos=at, end_pos=end_pos))
        line = state.shown_entry()
        hint = f"write `{line}`" if line else hint
    what = "strings" if width == 1 else "long strings"
    other = state.text[at : at + width]
    message = f"{what} use `{quotes}`, not {'backticks' if '`' in other else f'`{other}`'}"
    state.collector.add("S106", message, Place(at, end_pos), hint=hint, fix=fix)
    if not plain:
        state.mention(at, end_pos)
        state.feed_missing_value()


def without_quotes(state: RecoveryState, token: Token) -> bool:
    """`path /hooks/github`, `instruction You review`, `retention 90 days`: a value that needs quotes or is invalid.

    The whole value, up to the line end or the next setting, is one mistake.
    """
    parser_state = state.parser_state
    if token.type not in {"WORD", "NUMBER", "JUNK", "SIGN"} or not parser_state.expects_value:
        return False
    if (
        token.type in {"JUNK", "SIGN"}
        and state.text[start(token)] in ";({"
        and not state.text.startswith("((", start(token))
    ):
        return False
    setting = parser_state.setting()
    chunk = _CHUNK.match(state.text, start(token), start(token) + 500)
    glued = max(chunk.end() if chunk else 0, end(token))
    number = 1
    while start(state.peek(number)) < glued and state.peek(number).type != "$END" and number < _MAX_TOKENS:
        number += 1
    last = _last_of_text(state, setting, number)
    end_pos = max(glued, end(state.peek(last)))
    if last < number and glued == end(token) and token.type not in {"JUNK", "SIGN"}:
        return False
    _add_text(state, setting, Place(start(token), end_pos), one=last < number)
    state.mention(start(token), end_pos)
    state.feed_missing_value()
    state.rescan(end_pos)
    return True


def _last_of_text(state: RecoveryState, setting: Setting | None, number: int) -> int:
    """Index of the last token of the text whose first chunk ends before token `number`."""
    last, first = number - 1, number
    while number < _MAX_TOKENS:
        token = state.peek(number)
        if token.type in {"_NL", "RBRACE", "LBRACE", "RSQB", "$END"} or start(token) in state.closing_signs:
            break
        if state.missing and token.type == "JUNK" and str(token) == ")" and "(" not in _text_before(state, token):
            break
        if not _continues(state, setting, number, first):
            break
        if token.type != "_COMMA" and not token.startswith(";"):
            last = number
        number += 1
    if setting is not None and setting.type in {"reference", "name"} and not setting.many and last > first:
        return first - 1
    return last


def _text_before(state: RecoveryState, token: Token) -> str:
    """The text from the next token up to `token`."""
    return state.text[start(state.peek()) : start(token)]


def _continues(state: RecoveryState, setting: Setting | None, number: int, first: int) -> bool:
    """True if the token at `number` continues the value before it."""
    token, after, legal = state.peek(number), state.peek(number + 1), state.parser_state.legal()
    is_value = after.type in VALUES or after.type == "UNCLOSED_STRING" or after in {"true", "false"}
    if setting is None:
        return False
    if token.type == "WORD" and token in legal and (is_value or number == first or after.type == "LBRACE"):
        return False
    if setting.type in _UNITS:
        return token.type == "NUMBER" or (token.type == "WORD" and token in _UNITS[setting.type])
    if setting.type in _NUMBERS:
        return token.type == "NUMBER" or (token.type == "_COMMA" and after.type == "NUMBER")
    if setting.type in {"reference", "name"} and not setting.many:
        return token.type == "WORD" and number == first and after.type in {"_NL", "RBRACE", "$END"}
    if setting.many and setting.type not in {"group", "secret"}:
        return token.type in {"WORD", "NUMBER", "STRING", "_COMMA"} and not (token.type == "WORD" and is_value)
    if setting.type in STRING_TYPES:
        return not (token.type == "WORD" and is_value and number == first and nearest(token, legal) is not None)
    return False


def _add_text(state: RecoveryState, setting: Setting | None, place: Place, *, one: bool) -> None:
    """Report a value without quotes. `one`: it contains no blank, so its end is certain."""
    add = state.collector.add
    shown = state.text[place.start_pos : place.end_pos]
    kind = setting.type if setting else ""
    if setting is not None and (kind in _UNITS or kind in {*_NUMBERS, "boolean"}):
        joined = re.sub(r"[ \t,]+", "", shown)
        plain = kind in _UNITS and re.fullmatch(r"(?:[0-9]+[A-Za-z]+)+", joined)
        what = "a number" if kind in _NUMBERS else "`true` or `false`" if kind == "boolean" else f"a {kind}"
        hint = f"write `{joined}`, without spaces" if plain else f"such as `{example(setting)}`"
        message = (
            f"`{setting.name}`: {what} is written without spaces" if plain else f"`{setting.name}`: expected {what}"
        )
        add("T401", message, place, hint=hint)
    elif setting is not None and setting.many and not setting.single and kind != "group":
        items = re.findall(r"[A-Za-z0-9_.-]+", without_passwords(shown))
        add("T401", f"`{setting.name}` takes a list", place, hint=f"`{setting.name} [{', '.join(items[:8])}]`")
    elif re.fullmatch(r"[\w-]+(?:[ \t]+[\w-]+)+", shown) and kind in {"reference", "name"}:
        add("S109", "this name contains a space", place, hint="join its words with `-`")
    elif kind in NAME_TYPES:
        message, hint = (
            ("this name needs quotes", f'write `"{shown}"`')
            if is_name(shown)
            else ("invalid name", f"a name has {NAME_RULE}")
        )
        add("N206", message, place, hint=hint)
    else:
        at, end_pos = place.start_pos, place.end_pos
        quotable = setting is not None and kind in STRING_TYPES and not set('"\\') & set(shown)
        edits = ((at, at, '"'), (end_pos, end_pos, '"'))
        fix = state.collector.fix("put it in quotes", *edits, safe=one) if quotable else None
        line = f'{write_name(setting.name)} "{shown}"' if setting and kind != "secret" and quotable else None
        hint = f"write `{line}`" if line and len(line) < _MAX_HINT_LINE else 'write it as `"…"`'
        add("S110", "this text needs quotes", place, hint=hint, fix=fix)
