"""Conversion of our data to the protocol's types, with the client's encoding and capabilities."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from lsprotocol import types
from pygls.capabilities import get_capability

from dslc.diagnostics.diagnostic import Diagnostic, Edit, Label, Severity
from dslc.language_server.completion import CompletionItem, Sort
from dslc.language_server.markdown import plain
from dslc.language_server.names import NameOccurrence
from dslc.language_server.positions import indexes
from dslc.language_server.project import DocumentText, EditorProject
from dslc.language_server.symbols import Fold, Symbol
from dslc.source import Span

SOURCE = "dslc"
_SEVERITIES = {
    Severity.ERROR: types.DiagnosticSeverity.Error,
    Severity.WARNING: types.DiagnosticSeverity.Warning,
    Severity.NOTE: types.DiagnosticSeverity.Information,
}
_OFFERS: dict[Sort, types.CompletionItemKind] = {
    "kind": types.CompletionItemKind.Class,
    "setting": types.CompletionItemKind.Property,
    "group": types.CompletionItemKind.Struct,
    "choice": types.CompletionItemKind.EnumMember,
    "row": types.CompletionItemKind.Module,
    "name": types.CompletionItemKind.Reference,
    "value": types.CompletionItemKind.Value,
}
_SYMBOLS = {"block": types.SymbolKind.Class, "group": types.SymbolKind.Struct, "setting": types.SymbolKind.Property}
_BOM = b"\xef\xbb\xbf"


class Wire:
    """Converter to the protocol's types for one client."""

    def __init__(self, project: EditorProject, capabilities: types.ClientCapabilities) -> None:
        def able(path: str) -> Any:
            return get_capability(capabilities, path)

        self._project = project
        self.snippets = bool(able("text_document.completion.completion_item.snippet_support"))
        self.versioned = bool(able("workspace.workspace_edit.document_changes"))
        self._related = bool(able("text_document.publish_diagnostics.related_information"))
        self._tags = able("text_document.publish_diagnostics.tag_support") is not None
        self._tree = bool(able("text_document.document_symbol.hierarchical_document_symbol_support"))
        self._lines_only = bool(able("text_document.folding_range.line_folding_only"))
        formats = able("text_document.hover.content_format")
        self._markdown = formats is None or types.MarkupKind.Markdown in formats

    # Positions.

    def range(self, text: DocumentText, start: int, end: int) -> types.Range:
        """Range of indexes into the compiler's text."""
        return types.Range(self._position(text, start), self._position(text, end))

    @staticmethod
    def _position(text: DocumentText, index: int) -> types.Position:
        return types.Position(*text.lines.position(index + text.skipped))

    @staticmethod
    def index(text: DocumentText, position: types.Position) -> int:
        """Index of a position in the compiler's text."""
        return max(text.lines.index(position.line, position.character) - text.skipped, 0)

    def locations(self, found: Iterable[NameOccurrence]) -> list[types.Location]:
        """Locations of names, without their quotes, grouped by file."""
        spans: dict[str, list[Span]] = {}
        for named in found:
            spans.setdefault(named.file, []).append(named.span)
        return [
            types.Location(self._project.uri_of(file), where)
            for file, wanted in spans.items()
            for where in self.ranges(file, wanted).values()
        ]

    # Diagnostics and edits.

    def diagnostics(self, name: str, found: Sequence[Diagnostic]) -> list[types.Diagnostic]:
        """Diagnostics of one source."""
        labels = [label for diagnostic in found for label in diagnostic.labels] if self._related else []
        spans: dict[str, list[Span]] = {name: [diagnostic.span for diagnostic in found]}
        for label in labels:
            spans.setdefault(label.file, []).append(label.span)
        ranges = {file: self.ranges(file, of) for file, of in spans.items()}
        return [self._diagnostic(diagnostic, ranges) for diagnostic in found if diagnostic.span in ranges[name]]

    def _diagnostic(self, found: Diagnostic, ranges: dict[str, dict[Span, types.Range]]) -> types.Diagnostic:
        unused = self._tags and found.code == "R302"
        return types.Diagnostic(
            range=ranges[found.file][found.span],
            message=f"{found.message}\nhint: {found.hint}" if found.hint else found.message,
            severity=_SEVERITIES[found.severity],
            code=found.code,
            source=SOURCE,
            tags=[types.DiagnosticTag.Unnecessary] if unused else None,
            related_information=self._labels(found.labels, ranges) if self._related and found.labels else None,
        )

    def _labels(
        self, labels: Iterable[Label], ranges: dict[str, dict[Span, types.Range]]
    ) -> list[types.DiagnosticRelatedInformation]:
        return [
            types.DiagnosticRelatedInformation(
                types.Location(self._project.uri_of(label.file), ranges[label.file][label.span]), label.message
            )
            for label in labels
            if label.span in ranges[label.file]
        ]

    def ranges(self, file: str, spans: Iterable[Span]) -> dict[Span, types.Range]:
        """Ranges of byte spans; empty if the file was removed."""
        source, text = self._project.source(file), self._project.text(file)
        if source is None or text is None:
            return {}
        spans = list(dict.fromkeys(spans))
        found = indexes(source.data, (offset for span in spans for offset in (span.start, span.end)))
        mark = int(source.data.startswith(_BOM))
        return {span: self.range(text, found[span.start] - mark, found[span.end] - mark) for span in spans}

    def edits(self, name: str, edits: Sequence[Edit]) -> list[types.TextEdit]:
        """Text edits for edits of a source's bytes."""
        ranges = self.ranges(name, [edit.span for edit in edits])
        return [types.TextEdit(ranges[edit.span], edit.text) for edit in edits if edit.span in ranges]

    def workspace_edit(self, edits: dict[str, list[types.TextEdit]]) -> types.WorkspaceEdit:
        """Edits of several sources, with document versions if the client supports them."""
        if not self.versioned:
            return types.WorkspaceEdit(changes={self._project.uri_of(name): of for name, of in edits.items()})
        return types.WorkspaceEdit(document_changes=[self._document_edit(name, of) for name, of in edits.items()])

    def _document_edit(self, name: str, edits: list[types.TextEdit]) -> types.TextDocumentEdit:
        document = self._project.document(name)
        identifier = types.OptionalVersionedTextDocumentIdentifier(
            self._project.uri_of(name), document.version if document else None
        )
        return types.TextDocumentEdit(identifier, [*edits])

    # Displayed data.

    def markup(self, markdown: str) -> types.MarkupContent:
        """Markdown, or plain text for a client that does not support Markdown."""
        if self._markdown:
            return types.MarkupContent(types.MarkupKind.Markdown, markdown)
        return types.MarkupContent(types.MarkupKind.PlainText, plain(markdown))

    def completion(self, text: DocumentText, item: CompletionItem) -> types.CompletionItem:
        """Completion item, with a snippet if the client supports snippets."""
        snippet = item.snippet if self.snippets else None
        return types.CompletionItem(
            label=item.label,
            kind=_OFFERS[item.sort],
            detail=item.detail or None,
            documentation=self.markup(item.doc) if item.doc else None,
            sort_text=f"{item.rank:04}",
            filter_text=item.label,
            insert_text_format=types.InsertTextFormat.Snippet if snippet else types.InsertTextFormat.PlainText,
            insert_text_mode=types.InsertTextMode.AdjustIndentation if snippet and "\n" in snippet else None,
            text_edit=types.TextEdit(self.range(text, item.start, item.end), snippet or item.insert),
        )

    def symbols(
        self, text: DocumentText, found: Iterable[Symbol]
    ) -> list[types.DocumentSymbol] | list[types.SymbolInformation]:
        """Symbols of a file: a tree, or only the blocks for a client that does not support trees."""
        if self._tree:
            return [self._symbol(text, symbol) for symbol in found]
        uri = self._project.uri_of(text.name)
        return [
            types.SymbolInformation(
                types.Location(uri, self.range(text, symbol.start, symbol.end)),
                symbol.name,
                _SYMBOLS[symbol.sort],
                container_name=symbol.detail or None,
            )
            for symbol in found
        ]

    def _symbol(self, text: DocumentText, symbol: Symbol) -> types.DocumentSymbol:
        # Recursion is safe: the outline is at most 100 levels deep.
        whole = self.range(text, symbol.start, symbol.end)
        end = self._position(text, symbol.name_end)
        begin = whole.start if symbol.start == symbol.name_start else self._position(text, symbol.name_start)
        return types.DocumentSymbol(
            name=symbol.name,
            detail=symbol.detail or None,
            kind=_SYMBOLS[symbol.sort],
            range=whole,
            selection_range=types.Range(begin, end),
            children=[self._symbol(text, inner) for inner in symbol.inner] or None,
        )

    def folds(self, text: DocumentText, found: Iterable[Fold]) -> list[types.FoldingRange]:
        """Folding ranges of more than one line."""
        lines, made = text.lines, {}
        for fold in found:
            start, end = (lines.line_of(at + text.skipped) for at in (fold.start, fold.end))
            if self._lines_only and fold.sort == "region":
                end -= 1  # the closing line remains visible
            if end > start and start not in made:
                kind = types.FoldingRangeKind.Comment if fold.sort == "comment" else types.FoldingRangeKind.Region
                made[start] = types.FoldingRange(start, end, kind=kind)
        return [made[line] for line in sorted(made)]
