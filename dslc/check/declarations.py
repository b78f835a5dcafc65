"""Declarations and references of one file, with their locations."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple, TypeAlias

from dslc.check.section import CheckedSection
from dslc.diagnostics.collector import HasPosition
from dslc.diagnostics.invisible import Places
from dslc.source import OffsetText, Span
from dslc.value_reading.check_state import CheckedBlock

Subject: TypeAlias = tuple[str, str, str]
"""Topic of a diagnostic across files: ("name", kind, name), ("path", "webhook", path), ("path", "memory", folder), or
("main", "agent", "")."""


Order: TypeAlias = tuple[int, tuple[str, ...]]
"""Rank of a file in the program: the number in which it was added, or its path if files are added in any order."""


class Location(NamedTuple):
    """A position in a section of a file. `order`: rank of the file. `offset`: bytes before the section. `rows`: rows
    that may be named there instead of a block."""

    file: str
    order: Order
    offset: int
    text: OffsetText
    node: HasPosition
    rows: Collection[str] = ()

    @property
    def span(self) -> Span:
        span = self.text.span(self.node.start_pos or 0, self.node.end_pos or 0)
        return Span(span.start + self.offset, span.end + self.offset)

    @property
    def rank(self) -> tuple[Order, int]:
        """Sort key of the location in the whole program."""
        return (self.order, self.offset + (self.node.start_pos or 0))


class Declaration(NamedTuple):
    """A block and its location. `checked` is None for a block of the wider language; only its name is known."""

    kind: str
    name: str
    location: Location
    checked: CheckedBlock | None

    def at(self, node: HasPosition) -> Location:
        """Location of another node in the same section."""
        location = self.location
        return Location(location.file, location.order, location.offset, location.text, node)

    def setting(self, name: str) -> Location:
        """Location of a setting's value if it is given, else of the block's name."""
        entry = self.checked.given.entry(name) if self.checked else None
        if entry is None:
            return self.location
        return self.at(entry.value if entry.value is not None else entry.key)


class FileDeclarations:
    """Declarations and references of one file that concern other files. `complete`: the whole file was read."""

    def __init__(self, file: str, order: Order, complete: bool = True) -> None:
        self.file = file
        self.order = order
        self.complete = complete
        self.declarations: list[Declaration] = []
        self.uses: list[tuple[str, str, Location]] = []
        self.replies: list[tuple[str, int, Location]] = []
        """Model, `reply_tokens` of an agent with it, and where they are given."""
        self.cost_limits: list[tuple[str, Location]] = []
        """Model of an agent, and where its `cost_per_day` is given."""
        self.mentions: set[str] = set()
        self.nameless: set[str] = set()

    def add(self, section: CheckedSection, offset: int) -> None:
        """Add one section, which begins `offset` bytes after the beginning of the file."""
        text = Places(section.parsed.text)

        def location(node: HasPosition) -> Location:
            return Location(self.file, self.order, offset, text, node)

        for block in section.blocks:
            place = location(block.node.name if block.node.name is not None else block.node)
            self.declarations.append(Declaration(block.kind, block.name, place, block))
        for kind, name in section.foreign:
            foreign = section.parsed.blocks[0]
            self.declarations.append(Declaration(kind, name, location(foreign.name or foreign), None))
        self.uses += [(use.kind, use.name, location(use.place)._replace(rows=use.rows)) for use in section.uses]
        self.replies += [(each.model, each.tokens, location(each.place)) for each in section.replies]
        self.cost_limits += [(each.model, location(each.place)) for each in section.cost_limits]
        self.mentions |= section.mentions
        self.nameless |= section.nameless

    def subjects(self) -> Iterator[Subject]:
        """Yield the subjects that the file declares or refers to."""
        for declaration in self.declarations:
            yield ("name", declaration.kind, declaration.name)
        for kind, name, _ in self.uses:
            yield ("name", kind, name)
