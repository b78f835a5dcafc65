"""The names that blocks declare and that settings use, in every file of a program, and how to change one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dslc.blocks.values.invalid import Invalid
from dslc.blocks.values.names import valid_name
from dslc.diagnostics.diagnostic import Edit
from dslc.language_server.cursor_context import Spot
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


class Refused(Exception):  # noqa: N818 - an answer to the author, not a fault
    """What was asked cannot be done; the text says why, in one line."""


class Names:
    """The names of a program."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def of(self, kind: str, name: str) -> list[Named]:
        """Every place of one name, declarations first."""
        found = []
        for declared in self._workspace.declarations(kind, name):
            site = declared.site
            found.append(self._named(kind, name, site.file, site.span, declares=True))
        uses = self._workspace.uses(kind, name)
        return found + [self._named(kind, name, site.file, site.span, declares=False) for site in uses]

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
        pieces = (piece for file in self._workspace.names for piece in self._workspace.checked(file).pieces)
        used = {use.name for piece in pieces for use in piece.uses if use.kind == kind}
        return sorted(used.difference(self.declared(kind)))

    def at(self, spot: Spot) -> tuple[str, str] | None:
        """The kind and name that the token at a spot declares or uses."""
        token, entry = spot.token, spot.entry
        if token is None or entry is None or "\\" in token.content:
            return None
        if spot.role == "name" and entry.key.text in self._workspace.vocabulary.kinds:
            return entry.key.text, token.content
        setting = spot.setting(self._workspace.vocabulary) if spot.role == "value" else None
        if setting is None or setting.type != "reference" or setting.block is None:
            return None
        return setting.block, token.content

    def renamed(self, kind: str, old: str, new: str) -> list[tuple[str, Edit]]:
        """The edits that change a name everywhere, each with its file. Raises Refused."""
        try:
            valid_name(new)
        except Invalid as invalid:
            raise Refused(f"{invalid}: {invalid.hint}") from invalid
        if new != old and new in self.declared(kind):
            raise Refused(f"another {kind} is called {new}")
        return [(use.file, Edit(use.span, new if use.quoted else named(new))) for use in self.of(kind, old)]

    def _named(self, kind: str, name: str, file: str, span: Span, *, declares: bool) -> Named:
        quoted = self._workspace.file(file).source.data.startswith(b'"', span.start)
        inner = Span(span.start + 1, span.end - 1) if quoted else span
        return Named(kind, name, file, inner, declares, quoted)
