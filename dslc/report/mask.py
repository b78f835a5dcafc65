"""Hides secrets in what a report shows of a file.

It goes by the text alone, for a file that cannot be read may hold a secret too, and it rather hides too much: after a
key that sounds like a secret, everything but a reference is hidden up to the end of its line.
"""

from __future__ import annotations

import re
from functools import lru_cache

from dslc.nearest import nearest

_PIECE = re.compile(
    r'(?P<string>"""(?:[^"\\]++|\\[\s\S]|"(?!""))*+(?:"""|\Z)|"(?:[^"\\\n]++|\\[^\n])*+"?|\'[^\'\n]*+\'?)'
    r"|(?P<comment>(?:#|//)[^\n]*+)"
    r"|(?P<word>[A-Za-z_][A-Za-z0-9_-]*+)"
    r"|(?P<mark>[\n\[\]{}=:,])"
    r"|(?P<other>[^\s])"
)
_REFERENCE = re.compile(r"""["']{0,3}(?:secret|vault)://""")
_KEY = re.compile(r"secret|token$|passw|credential|api_?key|private_?key|signing_?key", re.IGNORECASE)


@lru_cache(maxsize=4096)
def _is_secret(key: str) -> bool:
    return _KEY.search(key) is not None or nearest(key, ("secret",)) is not None


def hidden(text: str) -> list[tuple[int, int]]:
    """The stretches of `text` that may be secrets, in order."""
    found: list[tuple[int, int]] = []
    awaits, depth, at = False, 0, 0
    while match := _PIECE.search(text, at):
        at = match.end()
        kind, piece = match.lastgroup, match.group()
        if not awaits:
            awaits, depth = kind == "word" and _is_secret(piece), 0
        elif kind == "mark" and piece in "[]":
            depth += 1 if piece == "[" else -1
            awaits = depth > 0
        elif kind in {"mark", "comment"}:
            awaits = piece in "=:," or (depth > 0 and piece not in "{}")
        else:
            at = _value(text, match, found)
            awaits = depth > 0
    return found


def _value(text: str, match: re.Match[str], found: list[tuple[int, int]]) -> int:
    """Hide what stands here, unless it is a reference. Returns where to go on."""
    if _REFERENCE.match(text, match.start()):
        space = re.compile(r"\s|\Z").search(text, match.start())
        return match.end() if match.lastgroup == "string" or space is None else space.start()
    end = text.find("\n", match.end())
    end = len(text) if end < 0 else end
    found.append((match.start(), end))
    return end


def masked(text: str) -> str:
    """`text` with every hidden character but line ends an asterisk, so that columns stay."""
    pieces, at = [], 0
    for start, end in hidden(text):
        pieces += [text[at:start], re.sub(r"[^\r\n]", "*", text[start:end])]
        at = end
    return "".join([*pieces, text[at:]])
