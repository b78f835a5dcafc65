"""What a reader makes of a file, and what it says of one that it cannot read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from runtime.errors import SymbiontError


class Unreadable(SymbiontError):  # noqa: N818 - it says what is the case
    """This file cannot be read, in one line that does not name it; others can."""


@dataclass(frozen=True, slots=True)
class Document:
    """What a file says. `passages` are its parts in order: the whole, or its pages. One may be blank; one that
    could not be read is None, and `problems` says why."""

    passages: tuple[str | None, ...]
    title: str | None = None
    numbered: str | None = None
    """What leads to a passage from the document's URI, before its number: `page`, as in `#page=3` (RFC 8118, section
    3). None: the document is one passage."""
    kind: str = ""
    """The name of the reader, such as `html`."""
    problems: tuple[str, ...] = ()
    """What of it could not be read, one line each; the rest is here."""

    @property
    def text(self) -> str:
        """All of it, an empty line between passages."""
        return "\n\n".join(passage for passage in self.passages if passage)

    def fragment(self, number: int) -> str:
        """What stands behind the document's URI to mean the passage `number`, counted from 1."""
        return f"#{self.numbered}={number}" if self.numbered else ""


Read = Callable[[bytes, "str | None"], Document]
"""Takes the bytes of a file and the encoding to read it in when it does not say one and is not UTF-8. Raises
Unreadable."""


def whole(text: str, title: str | None = None) -> Document:
    """A document of one passage."""
    return Document((text if text.strip() else "",), " ".join(title.split()) or None if title else None)
