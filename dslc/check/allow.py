"""Comments that suppress a warning: `# dslc: allow P501`, on its line or the line above. A reason may follow."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from dslc.diagnostics.diagnostic import CODES, Diagnostic, Severity
from dslc.diagnostics.suggestion import suggestion
from dslc.parse import File
from dslc.source import Span
from dslc.syntax.delimiters import comments
from dslc.syntax.tree import ForeignNode

ALLOW_COMMENT = re.compile(
    r"(?:#|//)[ \t]*dslc:[ \t]*allow\b"
    r"(?P<codes>(?:[\s,;]*+[^\s,;]++(?:[\s,;]++[A-Za-z]{1,2}[0-9]+\w*(?![^\s,;]))*)?)"
)
"""An `allow` comment up to its last code. Its first word counts as a code whatever it is; a reason begins at the next
word that is not like one. Match it against one line only: it reads on over line ends."""
_WORD = re.compile(r"[^\s,;]+")


class _Allow(NamedTuple):
    """A code in such a comment. `line`: the line whose warnings it suppresses. `span`: position of the code."""

    code: str
    line: int
    span: Span


def apply_allow_comments(file: File, found: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Return the diagnostics of a file that are not suppressed, and a P505 for each code that suppresses nothing.

    In a file with an error, P505 is reported only for codes that can never be suppressed: the error may hide the
    warning.
    """
    source = file.source
    allows = list(_allows(file))
    if not allows:
        return list(found)
    allowed_pairs = {(allow.code, allow.line) for allow in allows}
    remaining, suppressed, has_error = [], set(), False
    for diagnostic in found:
        has_error = has_error or diagnostic.severity is Severity.ERROR
        key = (diagnostic.code, source.position(diagnostic.span.start).line)
        if key in allowed_pairs and diagnostic.severity is not Severity.ERROR:
            suppressed.add(key)
        else:
            remaining.append(diagnostic)
    unused = [allow for allow in allows if (allow.code, allow.line) not in suppressed]
    return remaining + [
        _unused_code(source.name, allow) for allow in unused if not has_error or not _can_suppress(allow.code)
    ]


def _can_suppress(code: str) -> bool:
    """True if a comment can suppress this code."""
    return code in CODES and CODES[code][0] is not Severity.ERROR


def _unused_code(file: str, allow: _Allow) -> Diagnostic:
    hint = "remove it"
    if allow.code not in CODES:
        what, hint = "does not name a code", suggestion(allow.code.upper(), CODES, what="codes")
        hint = hint if len(hint) < 80 else "such as `# dslc: allow P501`"
    elif CODES[allow.code][0] is Severity.ERROR:
        what, hint = f"cannot suppress {allow.code}", "errors cannot be suppressed"
    else:
        what = f"suppresses nothing: line {allow.line} has no {allow.code}"
    return Diagnostic("P505", CODES["P505"][0], f"this comment {what}", file, allow.span, (), hint)


def _comments(file: File) -> Iterator[tuple[int, int]]:
    """Yield start and end of the comments of a file, with the comment rules of each section's language."""
    text, at = file.source.text or "", 0
    for section in file.sections:
        end = section.start + len(section.text)
        foreign = any(isinstance(block, ForeignNode) for block in section.blocks)
        yield from comments(text, at, section.start)
        yield from comments(text, section.start, end, foreign=foreign)
        at = end
    yield from comments(text, at, len(text))


def _allows(file: File) -> Iterator[_Allow]:
    source = file.source
    text = source.text or ""
    lines = text.split("\n")
    next_code = _next_code_lines(lines)
    line = begin = 0  # line number of the comment, and the position of its line
    for start, end in _comments(file):
        line += text.count("\n", begin, start)
        begin = text.rfind("\n", 0, start) + 1
        match = ALLOW_COMMENT.match(text, start, end)
        if match is None:
            continue
        alone = not text[begin:start].strip(" \t\ufeff")
        about = min(next_code[line] if alone else line, len(lines) - 1) + 1
        for word in _WORD.finditer(text, *match.span("codes")):
            yield _Allow(word[0], about, source.span(*word.span()))
        if not match["codes"]:
            yield _Allow("", about, source.span(start, end))


def _next_code_lines(lines: list[str]) -> list[int]:
    """For each line, the number of the first line from it on that has more than white space and a comment."""
    found = [len(lines)] * (len(lines) + 1)
    for number in range(len(lines) - 1, -1, -1):
        bare = lines[number].strip()
        found[number] = found[number + 1] if not bare or bare.startswith(("#", "//")) else number
    return found
