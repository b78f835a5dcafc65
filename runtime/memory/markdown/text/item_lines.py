"""Base of documents and logs: lines, some of which are those of an item."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, Protocol, Self, TypeVar

from runtime.memory.markdown.text.annotation import GUARD
from runtime.memory.markdown.text.lines import join, newline
from runtime.memory.markdown.text.literal_blocks import Inseparable


class Place(Protocol):
    """An item: its lines `start` to `end` (exclusive)."""

    @property
    def start(self) -> int: ...

    @property
    def end(self) -> int: ...


class NewLines(Protocol):
    """Returns the lines that replace those of an item. `guarded`: with an annotation that keeps a block that is open
    before them from being closed after them."""

    def __call__(self, *, guarded: bool) -> list[str]: ...


P = TypeVar("P", bound=Place)


class ItemLines(ABC, Generic[P]):
    """A parsed text. Immutable: changes return a new one."""

    lines: tuple[str, ...]

    @property
    def data(self) -> bytes:
        """Return the bytes of the file."""
        return join(self.lines)

    @property
    @abstractmethod
    def places(self) -> Sequence[P]:
        """Return where its items are, in order."""

    @abstractmethod
    def _contents(self) -> list[Any]:
        """Return the parsed form of each item, by which a change is verified."""

    @abstractmethod
    def _from_lines(self, lines: Sequence[str]) -> Self:
        """Return the same text with other lines."""

    def without(self, *gone: P) -> Self:
        """Return the text without the lines of these items. Raises Inseparable."""
        starts = {place.start for place in gone}
        wanted = [item for item, place in zip(self._contents(), self.places, strict=True) if place.start not in starts]
        guard = f"{GUARD}{newline(self.lines)}"
        return self._with_new_lines(gone, lambda *, guarded: [guard] if guarded else [], wanted)

    def _with_new_lines(self, gone: Sequence[P], lines: NewLines, wanted: list[Any]) -> Self:
        """Return the text with the lines of each item replaced, guarded where needed, and verify the result."""
        for guarded in (False, True):
            changed = list(self.lines)
            for place in sorted(gone, reverse=True, key=lambda place: place.start):
                changed[place.start : place.end] = lines(guarded=guarded)
            text = self._from_lines(changed)
            if text._contents() == wanted:
                return text
        raise Inseparable(gone[0].start + 1)
