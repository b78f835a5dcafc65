"""Masking of secrets in the source text that a report shows.

It uses only the text, because files with syntax errors may contain secrets too, and rather hides too much. The value
after a key whose name suggests a secret, or which the catalog marks as one (`url` in `index postgres`), is hidden
unless it is a reference. If the value is not a closed string, it is hidden up to the end of its line, with lines below
that look like its continuation, as in a PEM key. User and password of a URL are always hidden.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache

from dslc.blocks import KINDS
from dslc.blocks.values.header import TOKEN
from dslc.blocks.values.secret import SCHEMES
from dslc.catalog import Catalog
from dslc.diagnostics.passwords import passwords
from dslc.diagnostics.suggestion import nearest
from dslc.setting import Setting, names_secret
from dslc.syntax.tokens import COMMENT, LONG, SINGLE_QUOTED, STRING, UNCLOSED_LONG, UNCLOSED_STRING, WORD

_PIECE = re.compile(
    rf"(?P<string>{LONG}|{UNCLOSED_LONG}|{STRING}|{UNCLOSED_STRING}|{SINGLE_QUOTED})"
    rf"|(?P<comment>{COMMENT})|(?P<word>{WORD})"
    r"|(?P<mark>[\n\[\]=:,]|[{}]++)"
    r"|(?P<other>[^\sA-Za-z_\"'#/\[\]{}=:,]++|[^\s])"
)
_REFERENCE = re.compile(rf"""["']{{0,3}}(?:{"|".join(SCHEMES)})://""")
_KEY = re.compile(f"{TOKEN}+")  # in quotes
_LONGEST_KEY = 128
_LONGEST_WRITTEN_KEY = 6 * _LONGEST_KEY + 2
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.))")
_NOTHING, _STRING, _WORD = range(3)
"""The value of a key that is accepted if it is inside a brace or on a later line."""
_ALONE = re.compile(r"[ \t\r,]*+(?:[\n}]|\Z)")
_CLEAN_REST = re.compile(r"[\s,\]}]|\Z")
_ENDLESS = 4000
_FURTHEST = 8000  # characters up to the quote that closes a string over lines
_WORD_END = re.compile(r"\s")
_LINE_END = re.compile(r"\n")
# A line that does not continue a value: blank, a comment, a bracket, or a key with a value.
_OWN_LINE = re.compile(rf"""[ \t]*+(?:[\r\n{{}}\[\]#]|//|\Z|["']?{WORD}["']?(?:[ \t]*+[=:]++)?[ \t]++[^\s=:}}])""")
_BODY_ENDS = re.compile(r"^[ \t]*+}", re.MULTILINE)
_CONTINUED = re.compile(r"\\[ \t\r]*\Z")
_HEADS = [[kind] for kind in KINDS]  # a block with such a name: `webhook secret { … }`
_LOOKED_BACK = 60  # words before a key that are searched for the row to which the option belongs

Stretch = tuple[int, int]


@lru_cache(maxsize=4096)
def _is_secret(key: str) -> bool:
    return names_secret(key) or nearest(key, ("secret",)) is not None


@cache
def _options() -> Mapping[str, tuple[frozenset[str], frozenset[str]]]:
    """Options that are secrets in some rows although their names do not suggest it: name → (rows where it is a secret,
    rows where it is not)."""
    found: dict[str, tuple[set[str], set[str]]] = {}
    for row in (row for rows in Catalog.installed().families.values() for row in rows):
        for option in _all_settings(row.options):
            if not _is_secret(option.name):
                found.setdefault(option.name, (set(), set()))[option.type != "secret"].add(row.name)
    return {name: (frozenset(rows), frozenset(others)) for name, (rows, others) in found.items() if rows}


def _all_settings(settings: Sequence[Setting]) -> Iterator[Setting]:
    for setting in settings:
        yield setting
        yield from _all_settings(setting.settings)


def _is_option(key: str, words: Sequence[str]) -> bool:
    """True if a key is a secret in the row that is named last before it."""
    if key not in _options():
        return False
    rows = (_names_row(key, word) for word in reversed(words[-_LOOKED_BACK:]))
    return next((secret for secret in rows if secret is not None), False)


@lru_cache(maxsize=4096)
def _names_row(key: str, word: str) -> bool | None:
    """True if `word` is, or resembles, a row in which `key` is a secret; False for a row in which it is not; else
    None."""
    rows, others = _options()[key]
    return False if word in others else True if nearest(word, sorted(rows)) else None


def secret_ranges(text: str) -> list[Stretch]:
    """Ranges of `text` that may be secrets, in order."""
    return _merge([*_values(text), *passwords(text)])


def _merge(stretches: Iterable[Stretch]) -> list[Stretch]:
    found: list[Stretch] = []
    for start, end in sorted(stretches):
        if found and start < found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


def _values(text: str) -> list[Stretch]:
    """Ranges of the values of keys that are secrets."""
    found: list[Stretch] = []
    words: list[str] = []
    awaits, near, more, depth, at, inside = False, _NOTHING, False, 0, 0, 0
    while match := _PIECE.search(text, at):
        at = match.end()
        kind, section = match.lastgroup, match.group()
        if inside and kind == "string":  # `secret { value "…" }`
            at = _value(text, match, found)
            continue
        inside = _depth(inside, match, begins=awaits and words[-2:-1] not in _HEADS)
        if near:
            awaits = section in {"=", ":", "["} or kind == "string" or (near == _WORD and _fills_line(text, match))
            near = near if kind == "comment" or section == "\n" or _is_sign(match) else _next_value(section)
        # A second string after a value is hidden too.
        if not awaits and not (more and (kind == "string" or section == ",")):
            awaits = kind == "word" and (_is_secret(section) or _is_option(section, words))
            if (more and section == "{") or (kind == "string" and _is_secret_key(section)):
                near = _STRING
            more, depth = False, 0
        elif kind == "mark" and section in "[]":
            depth += 1 if section == "[" else -1
            awaits = depth > 0
        elif kind in {"mark", "comment"}:
            if awaits and depth == 0 and (section[0] in "\n{#/" or "{" in section):
                near = _STRING if section == "{" else _WORD
            awaits = (awaits and section in "=:,") or (depth > 0 and section[0] not in "{}")
        else:
            at = _value(text, match, found)
            awaits, more = depth > 0, depth == 0
        if kind in {"word", "string"}:
            words.append(section.strip("\"'"))
    return found


def _depth(depth: int, match: re.Match[str], *, begins: bool) -> int:
    """Number of open braces of a secret's group after a token, which may be the first of them."""
    section = match.group() if match.lastgroup == "mark" and (depth or begins) else ""
    return max(depth + section.count("{") - section.count("}"), 0)


def _is_sign(match: re.Match[str]) -> bool:
    """True if a token is neither a word nor a number nor structural."""
    return match.lastgroup == "other" and not any(map(str.isalnum, match.group()))


def _next_value(section: str) -> int:
    """Kind of token that may be the value after a token that is not one."""
    return _STRING if section == "{" else _NOTHING


def _is_secret_key(string: str) -> bool:
    """True for a secret's key that is written in quotes, as in a map or in JSON."""
    if len(string) > _LONGEST_WRITTEN_KEY:
        return False
    inside = _ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else found[2], string.strip("\"'"))
    return len(inside) <= _LONGEST_KEY and _KEY.fullmatch(inside) is not None and _is_secret(inside)


def _fills_line(text: str, match: re.Match[str]) -> bool:
    """True if a word on a line below its key is alone on its line, so it is not itself a key."""
    return match.lastgroup in {"word", "other"} and _ALONE.match(text, match.end()) is not None


def _value(text: str, match: re.Match[str], found: list[Stretch]) -> int:
    """Hide the value at `match` unless it is a reference. Returns the index after it."""
    if _REFERENCE.match(text, match.start()):
        return match.end() if match.lastgroup == "string" else _end_of(_WORD_END, text, match.end())
    end = _end_of(_LINE_END, text, match.end())
    # A closed string ends at its quote. If quotes are unpaired or the line is very long, the end of the secret is
    # unknown.
    if match.lastgroup == "string" and end - match.end() < _ENDLESS:
        rest = text[match.end() : end]
        if _CLEAN_REST.match(rest) and rest.count('"') % 2 == 0:
            end = match.end()
    if end > match.end() or text[end - 1] not in "\"'":
        end = _further_lines(text, match, end)
    while end < len(text) and _CONTINUED.search(text, max(match.start(), end - _ENDLESS), end):  # as in a shell
        end = _end_of(_LINE_END, text, end + 1)
    found.append((match.start(), end))
    return end


def _further_lines(text: str, match: re.Match[str], end: int) -> int:
    """Return the end of a value that begins with `match` and continues after the end of its line, `end`."""
    if text[match.start() : end].count('"') % 2:  # up to the line that closes it, unless the block ends first
        closing = _BODY_ENDS.search(text, end, end + _FURTHEST)
        limit = closing.start() if closing else min(end + _FURTHEST, len(text))
        at = text.find('"', end, limit)
        while at >= 0:
            last = _end_of(_LINE_END, text, at)
            if text.count('"', text.rfind("\n", 0, at), last) % 2:
                return last
            at = text.find('"', last, limit)
    elif match.lastgroup == "word":
        return end
    while end < len(text) and not _OWN_LINE.match(text, end + 1):
        end = _end_of(_LINE_END, text, end + 1)
    return end


def _end_of(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.search(text, at)
    return match.start() if match else len(text)


def masked(text: str, secrets: Iterable[Stretch] = ()) -> str:
    """Replace every hidden character except line ends by an asterisk; columns do not change.

    `secrets`: ranges that are known to be secrets.
    """
    sections, at = [], 0
    for start, end in _merge([*secret_ranges(text), *secrets]):
        sections += [text[at:start], re.sub(r"[^\r\n]", "*", text[start:end])]
        at = end
    return "".join([*sections, text[at:]])
