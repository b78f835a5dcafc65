"""The lexer: the shape of every token, and the patterns that split any text into tokens.

All code that reads program text takes its shapes from here: the parser, the tolerant reader, the splitter, masking and
the recovery rules. `grammar/symbiont.lark` defines the same shapes for lark; a test compares the tokens of both with
those of tree-sitter.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache

WORD = r"[A-Za-z_][A-Za-z0-9_-]*+"
WORD_END = r"(?![A-Za-z0-9_-])"
"""After a keyword: the word ends there."""
NUMBER = r"-?[0-9][A-Za-z0-9_.]*+"
STRING = r'"(?>(?:[^"\\\n]++|\\[^\n])*)"'
UNCLOSED_STRING = r'"[^\n]*+'
LONG = r'"""(?>(?:[^"\\]++|\\[\s\S]|"(?!""))*)"""'
UNCLOSED_LONG = r'"""[\s\S]*+'
SINGLE_QUOTED = r"'[^'\n]*+'?"
SINGLE_QUOTED_PART = r"(?<![A-Za-z0-9_])'[^'\n{}]*'"
"""Text in single quotes without braces. It is an error, but `//` inside it does not begin a comment."""
COMMENT = r"(?:#|//)[^\n]*+"
NAME = rf'(?:{WORD}|(?!"""){STRING})'
"""Name of a block."""

_TOKENS = {
    "LONG_STRING": LONG,
    "UNCLOSED_LONG_STRING": UNCLOSED_LONG,
    "STRING": STRING,
    "_NL": r"\r?\n",
    "WORD": WORD,
    "NUMBER": NUMBER,
    "COMMENT": COMMENT,
    "BLANK": r"[ \t]++",
    "LBRACE": r"\{",
    "LSQB": r"\[",
    "RBRACE": r"\}",
    "RSQB": r"\]",
    "_COMMA": ",",
    "SINGLE_QUOTED": SINGLE_QUOTED,
    "UNCLOSED_STRING": UNCLOSED_STRING,
    "SIGN": "[=:]++",
    "JUNK": r"""[^\sA-Za-z0-9_"'#{}\[\],=:/-]++|[\s\S]""",
}
"""In order of precedence. Every text can be split into these tokens."""
_LINES = rf"(?>(?:\r?\n[ \t]*+(?:{COMMENT})?)+)"
"""A line end as the grammar defines it: including the blank lines and comment lines that follow."""


def scan(text: str, at: int = 0, end: int = sys.maxsize) -> Iterator[re.Match[str]]:
    """All tokens of `text[at:end]`, including blanks, comments and line ends. `lastgroup` is the type of a token."""
    return _pattern(_TOKENS["_NL"]).finditer(text, at, end)


def grammar_tokens(text: str, at: int = 0) -> Iterator[re.Match[str]]:
    """The tokens from `at` on as the grammar defines them: an `_NL` includes the following blank lines and comment
    lines."""
    return _pattern(_LINES).finditer(text, at)


@cache
def _pattern(line_end: str) -> re.Pattern[str]:
    shapes = {**_TOKENS, "_NL": line_end}
    return re.compile("|".join(f"(?P<{kind}>{shape})" for kind, shape in shapes.items()))
