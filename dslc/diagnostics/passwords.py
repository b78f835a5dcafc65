"""User names and passwords in URLs, which are never printed."""

from __future__ import annotations

import re
from collections.abc import Iterator

_IN_SOURCE = re.compile(r"""(?>(?:[^\s"\\]|\\[^\n])+)""")
_IN_PROSE = re.compile(r"\S++")
# A quotation in a message may be cut off before the `@`; this is then not a host and port.
_CUT_OFF = re.compile(r"[^/?#:@\[]+:(?![0-9]*(?:[^0-9A-Za-z]|\Z))")


def passwords(source: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of each user name and password of a URL in a program's text, in order."""
    return _password_spans(source, _IN_SOURCE)


def without_passwords(prose: str) -> str:
    """Return the text with `***` in place of the user name and password of each URL."""
    pieces, at = [], 0
    for start, end in _password_spans(prose, _IN_PROSE):
        pieces += [prose[at:start], "***"]
        at = end
    return "".join([*pieces, prose[at:]])


def _password_spans(text: str, run: re.Pattern[str]) -> Iterator[tuple[int, int]]:
    if "://" not in text:
        return
    for match in run.finditer(text):
        before, mark, url = match.group().partition("://")
        end = url.rfind("@")
        if end < 0 and _CUT_OFF.match(url):
            end = len(url)
        if mark and ":" in url[: max(end, 0)]:
            start = match.start() + len(before) + len(mark)
            yield start, start + end
