"""Text as it stands, and Markdown, which is text with a title."""

from __future__ import annotations

import re

from runtime.documents.document import Document, whole
from runtime.documents.encoding import decoded

_FRONT = re.compile(r"\A---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*$", re.DOTALL | re.MULTILINE)
"""What stands before a text about it: the convention of Jekyll, in YAML between lines of three dashes."""
_TITLE = re.compile(r"""^title:[ \t]*(["']?)(.+?)\1[ \t]*$""", re.MULTILINE)
_HEADING = re.compile(r"^#[ \t]+(.+?)[ \t]*#*[ \t]*$", re.MULTILINE)
_FENCED = re.compile(r"^(```+|~~~+).*?(?:^\1|\Z)", re.DOTALL | re.MULTILINE)


def read_text(data: bytes, encoding: str | None) -> Document:
    """Text as it stands. Raises Unreadable."""
    return whole(decoded(data, encoding))


def read_markdown(data: bytes, encoding: str | None) -> Document:
    """Markdown as it stands; its title is that of its front matter, else its first heading of the first level (no
    comment in a block of code). Raises Unreadable."""
    text = decoded(data, encoding)
    front = _FRONT.match(text)
    named = _TITLE.search(front[1]) if front else None
    if named is not None:
        return whole(text, named[2])
    headed = _HEADING.search(_FENCED.sub("", text))
    return whole(text, headed[1] if headed else None)
