"""Plain text, and Markdown, which is text with a title."""

from __future__ import annotations

import re

from runtime.documents.document import Document, whole
from runtime.documents.encoding import decoded

_FRONT = re.compile(r"\A---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*$", re.DOTALL | re.MULTILINE)
"""Front matter before a text: the convention of Jekyll, YAML between lines of three dashes."""
# Each matches the rest of its line: a pattern with optional text at the end would be tried at every possible beginning
# of that text, and a long line would take hours.
_TITLE = re.compile(r"^title:(.*[^ \t\n].*)$", re.MULTILINE)
_HEADING = re.compile(r"^#[ \t]+([^ \t\n].*)$", re.MULTILINE)
_FENCED = re.compile(r"^(```+|~~~+).*?(?:^\1|\Z)", re.DOTALL | re.MULTILINE)


def read_text(data: bytes, encoding: str | None) -> Document:
    """Return the unchanged text. Raises Unreadable."""
    return whole(decoded(data, encoding))


def read_markdown(data: bytes, encoding: str | None) -> Document:
    """Return the unchanged Markdown; its title is that of its front matter, else its first heading of the first
    level (outside blocks of code). Raises Unreadable."""
    text = decoded(data, encoding)
    front = _FRONT.match(text)
    named = _TITLE.search(front[1]) if front else None
    if named is not None:
        return whole(text, _unquoted(named[1].strip()))
    headed = _HEADING.search(_FENCED.sub("", text))
    return whole(text, _without_closing_marks(headed[1].strip()) if headed else None)


def _unquoted(title: str) -> str:
    quoted = len(title) > 2 and title[0] == title[-1] and title[0] in "\"'"
    return title[1:-1] if quoted else title


def _without_closing_marks(heading: str) -> str:
    """Remove the closing marks of a heading, which follow a space (CommonMark 0.31, section 4.2)."""
    text = heading.rstrip("#")
    return text if text.endswith((" ", "\t")) else heading
