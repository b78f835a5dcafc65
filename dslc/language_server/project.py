"""The program in an editor: files below its folders, and open documents, whose text replaces that of the files."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePath

from dslc.diagnostics.diagnostic import Diagnostic
from dslc.language_server.cursor_context import CursorContext, cursor_context
from dslc.language_server.disk import FolderScan, Stamp
from dslc.language_server.names import BlockNames, NameOccurrence
from dslc.language_server.positions import Encoding, Lines
from dslc.language_server.uris import path_of, uri_of
from dslc.parse import File
from dslc.report.mask import masked
from dslc.source import Source
from dslc.vocabulary import Vocabulary
from dslc.workspace import Workspace

_BOM = "\ufeff"
_MOST_LINES = 12  # shown of a block


@dataclass(frozen=True)
class DocumentChange:
    """Edit of a document in the client's positions, or its whole new text if `span` is None."""

    text: str
    span: tuple[tuple[int, int], tuple[int, int]] | None = None


class DocumentText:
    """A version of a text, with its positions. `name`: name of the source in the program. `skipped`: number of
    characters before the text that the compiler reads: 1 for a byte-order mark, else 0."""

    def __init__(self, name: str, text: str, encoding: Encoding, *, skipped: int = 0) -> None:
        self.name = name
        self.text = text
        self.skipped = skipped
        self.lines = Lines(text, encoding)

    @cached_property
    def source(self) -> Source:
        return Source(self.name, self.text)

    def apply(self, changes: Iterable[DocumentChange]) -> DocumentText:
        """Return the text after the changes, applied in order."""
        lines = self.lines
        for change in changes:
            new = change.text
            if change.span is not None:
                start, end = sorted(lines.index(*at) for at in change.span)
                new = lines.text[:start] + new + lines.text[end:]
            lines = Lines(new, lines.encoding)
        return DocumentText(self.name, lines.text, lines.encoding, skipped=int(lines.text.startswith(_BOM)))


@dataclass
class OpenDocument:
    """A document that is open in the editor. `uri` is spelt as the editor sends it."""

    uri: str
    version: int | None
    text: DocumentText


class EditorProject:
    """One program. Positions in arguments and results are indexes into the text of a source as the compiler reads
    it."""

    def __init__(self, vocabulary: Vocabulary, encoding: Encoding = "utf-16") -> None:
        self.vocabulary = vocabulary
        self.encoding: Encoding = encoding
        self.folders: list[str] = []
        self.stamps: Mapping[str, Stamp] = {}
        self._workspace = Workspace(vocabulary)
        self.names = BlockNames(self._workspace)
        self._documents: dict[str, OpenDocument] = {}
        self._sources: dict[str, Source] = {}
        self._called: dict[str, str] = {}  # real paths → source names
        self._waiting: dict[str, DocumentText] = {}

    # Documents.

    def open(self, uri: str, version: int | None, text: str) -> None:
        """Add an opened document: its text now replaces that of the file."""
        path = path_of(uri)
        name = uri if path is None else self._called.setdefault(os.path.realpath(path), path)
        now = DocumentText(name, text, self.encoding, skipped=int(text.startswith(_BOM)))
        self._documents[uri] = OpenDocument(uri, version, now)
        self._waiting[now.name] = now

    def change(self, uri: str, version: int | None, changes: Sequence[DocumentChange]) -> None:
        """Apply edits of a document. An unknown document is opened if the changes contain its whole text."""
        document = self._documents.get(uri)
        if document is None:
            whole = next((at for at, change in enumerate(changes) if change.span is None), None)
            if whole is None:
                return
            self.open(uri, version, changes[whole].text)
            self.change(uri, version, changes[whole + 1 :])
            return
        document.text, document.version = document.text.apply(changes), version
        self._waiting[document.text.name] = document.text

    def close(self, uri: str) -> str | None:
        """Remove a closed document. Returns the path of the file to read again, whose content now counts; None if there
        is none."""
        document = self._documents.pop(uri, None)
        if document is None:
            return None
        name = document.text.name
        other = next((other for other in self._documents.values() if other.text.name == name), None)
        if other is not None:
            self._waiting[name] = other.text
            return None
        self._waiting.pop(name, None)
        if name in self.stamps:
            return name
        path = next((path for path in self.stamps if self._called.get(os.path.realpath(path)) == name), None)
        if path is None or not Path(name).exists():  # a removed file, or a removed link to `path`
            self._drop(name)
            self._forget({name})
        return path

    def document(self, name: str) -> OpenDocument | None:
        """Return the open document of a source."""
        return next((document for document in self._documents.values() if document.text.name == name), None)

    # Files on disk.

    def take(self, seen: FolderScan) -> Iterator[str]:
        """Apply a scan: drop removed files, then store new bytes. Yields after each file so that the caller may
        pause."""
        gone = self.stamps.keys() - seen.stamps.keys()
        self.stamps = seen.stamps
        for path in gone:
            name = self._called.get(os.path.realpath(path), path)
            if self.document(name) is None:
                self._drop(name)
        self._forget({name for name in gone if self.document(name) is None})
        for path, data in seen.read.items():
            self.put_file(path, data)
            yield path

    def put_file(self, path: str, data: bytes) -> None:
        """Store the bytes of a file, unless it is open."""
        name = self._called.setdefault(os.path.realpath(path), path)
        if self.document(name) is None:
            self._put(Source(name, data))

    def name_of(self, uri: str) -> str:
        """Source name of a document: the path of its file (the same for all links to it), or its URI."""
        path = path_of(uri)
        if path is None:
            return uri
        return self._called.get(os.path.realpath(path), path)

    def uri_of(self, name: str) -> str:
        """URI of a source, as the editor spells it."""
        document = self.document(name)
        return document.uri if document else uri_of(name)

    # Queries.

    def settle(self) -> None:
        """Apply pending edits to the workspace."""
        for text in list(self._waiting.values()):
            self._put(text.source)
        self._waiting.clear()

    def take_changed(self) -> set[str]:
        """Names of the sources whose diagnostics may have changed since the last call. Applies pending edits first."""
        self.settle()
        return self._workspace.take_changed()

    def diagnostics(self, name: str) -> Sequence[Diagnostic]:
        """Diagnostics of a source; empty for an unknown source."""
        return self._workspace.diagnostics(name)

    def source(self, name: str) -> Source | None:
        """Return a source by name; None if there is none."""
        self.settle()
        return self._sources.get(name)

    def file(self, name: str) -> File | None:
        """Return a parsed source by name; None if there is none."""
        self.settle()
        return self._workspace.file(name) if name in self._sources else None

    def text(self, name: str) -> DocumentText | None:
        """Return the text of a source with its positions; None if there is none."""
        document = self.document(name)
        if document is not None:
            return document.text
        source = self.source(name)
        if source is None:
            return None
        text = source.text
        return DocumentText(name, source.data.decode(errors="replace") if text is None else text, self.encoding)

    def cursor_context(self, name: str, index: int) -> CursorContext:
        """Return the context of `index` in a source."""
        file = self.file(name)
        return cursor_context(file.sections, file.source.text or "", index) if file else CursorContext("nothing")

    def summary(self, kind: str, name: str) -> str:
        """Describe a block in Markdown: location, number of uses and text without secrets; "" for an unknown one."""
        places = self.names.of(kind, name)
        declared = next((named for named in places if named.declares), None)
        if declared is None:
            return ""
        uses = sum(not named.declares for named in places)
        line = self._sources[declared.file].position(declared.span.start).line
        where = f"{os.path.basename(declared.file)}:{line}"  # noqa: PTH119 - may be a URI
        count = "" if kind == "webhook" else f", used {uses} time{'' if uses == 1 else 's'}"
        return f"`{kind} {name}`, declared in {where}{count}\n\n```symbiont\n{self._excerpt(declared)}\n```"

    def _excerpt(self, named: NameOccurrence) -> str:
        """First lines of the block that a name declares."""
        file = self._workspace.file(named.file)
        section = next(section for section in reversed(file.sections) if section.offset <= named.span.start)
        lines = masked(section.text).replace("\r\n", "\n").rstrip().split("\n")
        return "\n".join(lines if len(lines) <= _MOST_LINES else [*lines[:_MOST_LINES], "    …"])

    def _put(self, source: Source) -> None:
        self._sources[source.name] = source
        self._workspace.put(source, PurePath(source.name).parts)

    def _forget(self, names: Collection[str]) -> None:
        """Remove the names that files have from removed links to them."""
        self._called = {real: name for real, name in self._called.items() if name not in names}

    def _drop(self, name: str) -> None:
        if self._sources.pop(name, None) is not None:
            self._workspace.drop(name)
