"""Names that blocks declare and settings use, in all files of a program, and renaming."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dslc.blocks.values.invalid import Invalid
from dslc.blocks.values.names import valid_name
from dslc.diagnostics.diagnostic import Edit
from dslc.language_server.cursor_context import CursorContext
from dslc.source import Span
from dslc.syntax.quoting import write_name
from dslc.workspace import Workspace


@dataclass(frozen=True, slots=True)
class NameOccurrence:
    """An occurrence of a block's name. `declares`: it is the declaration, not a use. `span` excludes quotes."""

    kind: str
    name: str
    file: str
    span: Span
    declares: bool
    quoted: bool


class RenameRefused(Exception):  # noqa: N818 - a reply to the user, not a failure
    """The rename is not possible; the message is the reason, in one line."""


class BlockNames:
    """Block names of a program."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def of(self, kind: str, name: str) -> list[NameOccurrence]:
        """Occurrences of one name, declarations first."""
        found = []
        for declared in self._workspace.declarations(kind, name):
            location = declared.location
            found.append(self._occurrence(kind, name, location.file, location.span, declares=True))
        uses = self._workspace.uses(kind, name)
        return found + [self._occurrence(kind, name, location.file, location.span, declares=False) for location in uses]

    def all(self) -> Iterator[NameOccurrence]:
        """Declarations of all blocks."""
        for kind in self._workspace.vocabulary.kinds:
            for name in self.declared_names(kind):
                yield from (use for use in self.of(kind, name) if use.declares)

    def declared_names(self, kind: str) -> list[str]:
        """Names of the declared blocks of a kind."""
        return self._workspace.declared_names(kind)

    def missing_names(self, kind: str) -> list[str]:
        """Names of a kind that are used but not declared, and that a block may have, sorted."""
        files = map(self._workspace.checked_file, self._workspace.names)
        used = {use.name for file in files for section in file.sections for use in section.uses if use.kind == kind}
        return sorted(used.difference(self.declared_names(kind), self._workspace.vocabulary.services.get(kind, ())))

    def at(self, cursor_context: CursorContext) -> tuple[str, str] | None:
        """Kind and name of the block that the token at the cursor declares or uses; None for another token."""
        token, entry = cursor_context.token, cursor_context.entry
        if token is None or entry is None or "\\" in token.content:
            return None
        if cursor_context.role == "name" and entry.key.text in self._workspace.vocabulary.kinds:
            return entry.key.text, token.content
        setting = cursor_context.setting(self._workspace.vocabulary) if cursor_context.role == "value" else None
        if setting is None or setting.block is None:
            return None
        if not self._workspace.vocabulary.names_block(setting, token.content):
            return None
        return setting.block, token.content

    def rename_edits(self, kind: str, old: str, new: str) -> list[tuple[str, Edit]]:
        """Edits that rename a block everywhere, each with its file. Raises RenameRefused."""
        try:
            valid_name(new)
        except Invalid as invalid:
            raise RenameRefused(f"{invalid}: {invalid.hint}") from invalid
        if kind == "mcp" and "." in new:
            raise RenameRefused("the name of an mcp block has no dot")
        if new in self._workspace.vocabulary.services.get(kind, ()):
            raise RenameRefused(f"{new} is the name of a service")
        if new != old and new in self.declared_names(kind):
            raise RenameRefused(f"another {kind} has the name {new}")
        return [(use.file, Edit(use.span, new if use.quoted else write_name(new))) for use in self.of(kind, old)]

    def _occurrence(self, kind: str, name: str, file: str, span: Span, *, declares: bool) -> NameOccurrence:
        quoted = self._workspace.file(file).source.data.startswith(b'"', span.start)
        inner = Span(span.start + 1, span.end - 1) if quoted else span
        # The server of a tool is a part of a string.
        return NameOccurrence(kind, name, file, inner, declares, quoted or (kind == "mcp" and not declares))
