"""The result of a reader, and the error for a file that it cannot read."""

from __future__ import annotations

from dataclasses import dataclass

from runtime.errors import SymbiontError


class Unreadable(SymbiontError):  # noqa: N818 - it says what is the case
    """The file cannot be read; the text is one line without the file's name. Other files may be readable."""


@dataclass(frozen=True, slots=True)
class Document:
    """The text of a file. `passages` are its parts in order: the whole, or its pages. One may be blank; an
    unreadable one is None, and `problems` says why."""

    passages: tuple[str | None, ...]
    title: str | None = None
    number_name: str | None = None
    """The name of a passage's number in the fragment of a URI: `page`, as in `#page=3` (RFC 8118, section 3). None:
    the document is one passage."""
    kind: str = ""
    """The name of the reader, such as `html`."""
    problems: tuple[str, ...] = ()
    """The reasons why parts could not be read, one line each."""

    @property
    def text(self) -> str:
        """Return all passages, with an empty line between them."""
        return "\n\n".join(passage for passage in self.passages if passage)

    def fragment(self, number: int) -> str:
        """Return the fragment that identifies the passage `number`, counted from 1, in the document's URI."""
        return f"#{self.number_name}={number}" if self.number_name else ""


def whole(text: str, title: str | None = None) -> Document:
    """Return a document of one passage."""
    return Document((text if text.strip() else "",), " ".join(title.split()) or None if title else None)
