"""What a reader makes of a file, and what it says of one that it cannot read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from runtime.errors import SymbiontError


class Unreadable(SymbiontError):  # noqa: N818 - it says what is the case
    """This file cannot be read, in one line that does not name it; others can."""


class Passage(NamedTuple):
    """A part of a document that has an address of its own."""

    text: str
    fragment: str | None = None
    """What leads to it from the document's URI, such as `page=3` (RFC 8118 section 3); None: it is the whole."""


@dataclass(frozen=True, slots=True)
class Document:
    """What a file says. `passages` are in its order, those without any text left out."""

    passages: tuple[Passage, ...]
    title: str | None = None
    kind: str = ""
    """The name of the reader, such as `html`."""
    problems: tuple[str, ...] = ()
    """What of it could not be read, one line each; the rest is here."""

    @property
    def text(self) -> str:
        """All of it, an empty line between passages."""
        return "\n\n".join(passage.text for passage in self.passages)


Read = Callable[[bytes, "str | None"], Document]
"""Takes the bytes of a file and the encoding to read it in when it does not say one and is not UTF-8. Raises
Unreadable."""


def whole(text: str, title: str | None = None) -> Document:
    """A document of one passage, or of none when there is no text."""
    passages = (Passage(text),) if text.strip() else ()
    return Document(passages, " ".join(title.split()) or None if title else None)
