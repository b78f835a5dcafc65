"""What one file declares and uses, each at its place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from dslc.check.piece import CheckedPiece
from dslc.diagnostics.collector import Placed
from dslc.diagnostics.invisible import Places
from dslc.source import Span, Text
from dslc.value_reading.check_state import Checked

Subject: TypeAlias = tuple[str, str, str]
"""What is said of one thing: ("name", kind, name), ("path", "webhook", path) or ("path", "memory", folder)."""


Order: TypeAlias = tuple[int, tuple[str, ...]]
"""A file's place among the others: by when it came, or by its path where files come in any order."""


class Site(NamedTuple):
    """A place in a piece of a file. `order`: the file's rank in the program. `offset`: bytes before the piece."""

    file: str
    order: Order
    offset: int
    text: Text
    node: Placed

    @property
    def span(self) -> Span:
        span = self.text.span(self.node.start_pos or 0, self.node.end_pos or 0)
        return Span(span.start + self.offset, span.end + self.offset)

    @property
    def rank(self) -> tuple[Order, int]:
        """Where it stands in the program, for telling the first from the second."""
        return (self.order, self.offset + (self.node.start_pos or 0))


class Declaration(NamedTuple):
    """A block at its place. `checked` is None for one of the wider language, of which the name is known only."""

    kind: str
    name: str
    site: Site
    checked: Checked | None

    def at(self, node: Placed) -> Site:
        """A place in the same piece."""
        site = self.site
        return Site(site.file, site.order, site.offset, site.text, node)

    def setting(self, name: str) -> Site:
        """The value of a setting where it is given, else the block's name."""
        entry = self.checked.given.entry(name) if self.checked else None
        if entry is None:
            return self.site
        return self.at(entry.value if entry.value is not None else entry.key)


class Contribution:
    """What one file says that concerns other files. `complete`: all of it was read."""

    def __init__(self, file: str, order: Order, complete: bool = True) -> None:
        self.file = file
        self.order = order
        self.complete = complete
        self.declarations: list[Declaration] = []
        self.uses: list[tuple[str, str, Site]] = []
        self.mentions: set[str] = set()
        self.nameless: set[str] = set()

    def add(self, piece: CheckedPiece, offset: int) -> None:
        """Take in one piece, which begins `offset` bytes after the file's beginning."""
        text = Places(piece.reading.text)

        def site(node: Placed) -> Site:
            return Site(self.file, self.order, offset, text, node)

        for block in piece.blocks:
            place = site(block.node.name if block.node.name is not None else block.node)
            self.declarations.append(Declaration(block.kind, block.name, place, block))
        for kind, name in piece.foreign:
            foreign = piece.reading.blocks[0]
            self.declarations.append(Declaration(kind, name, site(foreign.name or foreign), None))
        self.uses += [(use.kind, use.name, site(use.token)) for use in piece.uses]
        self.mentions |= piece.mentions
        self.nameless |= piece.nameless

    def subjects(self) -> Iterator[Subject]:
        """What the file says something about."""
        for declaration in self.declarations:
            yield ("name", declaration.kind, declaration.name)
        for kind, name, _ in self.uses:
            yield ("name", kind, name)
