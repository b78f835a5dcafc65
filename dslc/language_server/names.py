"""The names that blocks declare and that settings use, in every file of a program, and how to change one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dslc.blocks.values.invalid import Invalid
from dslc.blocks.values.names import valid_name
from dslc.diagnostics.diagnostic import Edit
from dslc.language_server.cursor_context import CursorContext
from dslc.source import Span
from dslc.syntax.quoting import named
from dslc.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Named:
    """A name at a place: of which kind of block, and whether it declares the block. `span` is without quotes."""

    kind: str
    name: str
    file: str
    span: Span
    declares: bool
    quoted: bool


class RenameRefused(Exception):  # noqa: N818 - an answer to the author, not a fault
    """What was asked cannot be done; the text says why, in one line."""


class BlockNames:
    """The names of a program."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def of(self, kind: str, name: str) -> list[Named]:
        """Every place of one name, declarations first."""
        found = []
        for declared in self._workspace.declarations(kind, name):
            location = declared.location
            found.append(self._named(kind, name, location.file, location.span, declares=True))
        uses = self._workspace.uses(kind, name)
        return found + [self._named(kind, name, location.file, location.span, declares=False) for location in uses]

    def all(self) -> Iterator[Named]:
        """Every block's name."""
        for kind in self._workspace.vocabulary.kinds:
            for name in self.declared(kind):
                yield from (use for use in self.of(kind, name) if use.declares)

    def declared(self, kind: str) -> list[str]:
        """The names of the blocks of a kind."""
        return self._workspace.declared(kind)

    def missing(self, kind: str) -> list[str]:
        """The names of a kind that are used and not declared."""
        sections = (section for file in self._workspace.names for section in self._workspace.checked(file).sections)
        used = {use.name for section in sections for use in section.uses if use.kind == kind}
        return sorted(used.difference(self.declared(kind)))

    def at(self, cursor_context: CursorContext) -> tuple[str, str] | None:
        """The kind and name that the token at a spot declares or uses."""
        token, entry = cursor_context.token, cursor_context.entry
        if token is None or entry is None or "\\" in token.content:
            return None
        if cursor_context.role == "name" and entry.key.text in self._workspace.vocabulary.kinds:
            return entry.key.text, token.content
        setting = cursor_context.setting(self._workspace.vocabulary) if cursor_context.role == "value" else None
        if setting is None or setting.type != "reference" or setting.block is None:
            return None
        return setting.block, token.content

    def renamed(self, kind: str, old: str, new: str) -> list[tuple[str, Edit]]:
        """The edits that change a name everywhere, each with its file. Raises Refused."""
        try:
            valid_name(new)
        except Invalid as invalid:
            raise RenameRefused(f"{invalid}: {invalid.hint}") from invalid
        if new != old and new in self.declared(kind):
            raise RenameRefused(f"another {kind} is called {new}")
        return [(use.file, Edit(use.span, new if use.quoted else named(new))) for use in self.of(kind, old)]

    def _named(self, kind: str, name: str, file: str, span: Span, *, declares: bool) -> Named:
        quoted = self._workspace.file(file).source.data.startswith(b'"', span.start)
        inner = Span(span.start + 1, span.end - 1) if quoted else span
        return Named(kind, name, file, inner, declares, quoted)
