"""Text of quoted strings."""

from __future__ import annotations

import re

from lark import Token

from dslc.diagnostics.collector import DiagnosticCollector, Place

_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|([\s\S]))")
_SIMPLE = {'"': '"', "\\": "\\", "n": "\n", "r": "\r", "t": "\t"}
_HINT = r"escapes are `\"`, `\\`, `\n`, `\r`, `\t` and `\uXXXX`"


def is_string(token: Token) -> bool:
    """True if the token is a quoted string."""
    return token.type in {"STRING", "LONG_STRING"}


def text_of(token: Token, collector: DiagnosticCollector) -> str | None:
    """The text of a word or string. None if it has invalid escapes; each is reported."""
    if token.type == "STRING":
        raw = token[1:-1]
    elif token.type == "LONG_STRING":
        raw = dedent(token[3:-3])
    else:
        return str(token)
    if "\\" not in raw:
        return raw
    if not _check_escapes(token, collector):
        return None
    text = _ESCAPE.sub(lambda match: chr(int(match[1], 16)) if match[1] else _SIMPLE[match[2]], raw)
    if re.search("[\ud800-\udfff]", text):
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    return text


def _check_escapes(token: Token, collector: DiagnosticCollector) -> bool:
    """Report invalid escapes. Returns True if there are none."""
    base, valid, awaiting = token.start_pos or 0, True, None
    for match in [*_ESCAPE.finditer(token), None]:
        code = int(match[1], 16) if match and match[1] else -1
        if awaiting is not None:
            if match and match.start() == awaiting.end() and 0xDC00 <= code <= 0xDFFF:
                awaiting = None
                continue
            _report(collector, base, awaiting, "a lone surrogate is not a character")
            valid, awaiting = False, None
        if match is None:
            break
        if 0xD800 <= code <= 0xDBFF:
            awaiting = match
        elif 0xDC00 <= code <= 0xDFFF or code == 0:
            what = "a string cannot contain NUL" if code == 0 else "a lone surrogate is not a character"
            _report(collector, base, match, what)
            valid = False
        elif code < 0 and match[2] not in _SIMPLE:
            _report(
                collector, base, match, f"unknown escape `\\{match[2]}`" if match[2].isprintable() else "unknown escape"
            )
            valid = False
    return valid


def _report(collector: DiagnosticCollector, base: int, match: re.Match[str], message: str) -> None:
    collector.add("S107", message, Place(base + match.start(), base + match.end()), hint=_HINT)


def dedent(raw: str) -> str:
    """Return the text without blank first and last lines, and without the indentation that all other lines share.

    Tabs are not converted to spaces. Blank lines do not count for the indentation and become empty lines.
    """
    lines = raw.replace("\r\n", "\n").split("\n")
    if len(lines) > 1 and not lines[0].strip(" \t"):
        del lines[0]
    if len(lines) > 1 and not lines[-1].strip(" \t"):
        del lines[-1]
    elif len(lines) == 1 and not lines[0].strip(" \t") and "\n" in raw:
        return ""
    lines = [line if line.strip(" \t") else "" for line in lines]
    margins = [line[: len(line) - len(line.lstrip(" \t"))] for line in lines if line]
    margin = _common_prefix(margins)
    return "\n".join(line[len(margin) :] for line in lines)


def _common_prefix(margins: list[str]) -> str:
    if not margins:
        return ""
    low, high = min(margins), max(margins)
    length = next(
        (at for at, pair in enumerate(zip(low, high, strict=False)) if pair[0] != pair[1]), min(len(low), len(high))
    )
    return low[:length]
