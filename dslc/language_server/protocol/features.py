"""Handlers of the editor's requests: each takes the protocol's parameters and returns its result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lsprotocol import types

from dslc.diagnostics.diagnostic import Edit
from dslc.language_server.actions import Action, actions
from dslc.language_server.completion import complete
from dslc.language_server.cursor_context import CursorContext
from dslc.language_server.hover import hover
from dslc.language_server.names import NameOccurrence, RenameRefused
from dslc.language_server.project import DocumentText
from dslc.language_server.protocol.session import LanguageSession
from dslc.language_server.symbols import folds, symbols
from dslc.language_server.text_edits import difference

_FIX_ALL = f"{types.CodeActionKind.SourceFixAll.value}.dslc"
_KINDS: dict[str, str] = {
    "fix": types.CodeActionKind.QuickFix.value,
    "allow": types.CodeActionKind.QuickFix.value,
    "all": _FIX_ALL,
}
_MOST_SYMBOLS = 500

FEATURES: Mapping[str, tuple[str, Any]] = {
    types.TEXT_DOCUMENT_COMPLETION: ("completion", types.CompletionOptions(trigger_characters=[" ", '"', "/"])),
    types.TEXT_DOCUMENT_HOVER: ("hover", None),
    types.TEXT_DOCUMENT_DEFINITION: ("definition", None),
    types.TEXT_DOCUMENT_REFERENCES: ("references", None),
    types.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT: ("highlight", None),
    types.TEXT_DOCUMENT_PREPARE_RENAME: ("prepare_rename", None),
    types.TEXT_DOCUMENT_RENAME: ("rename", None),
    types.TEXT_DOCUMENT_DOCUMENT_SYMBOL: ("document_symbol", None),
    types.WORKSPACE_SYMBOL: ("workspace_symbol", None),
    types.TEXT_DOCUMENT_FOLDING_RANGE: ("folding_range", None),
    types.TEXT_DOCUMENT_FORMATTING: ("formatting", None),
    types.TEXT_DOCUMENT_CODE_ACTION: (
        "code_action",
        types.CodeActionOptions(code_action_kinds=[types.CodeActionKind.QuickFix, _FIX_ALL]),
    ),
}
"""Requests → (method of `Features`, registration options)."""


class Features:
    """Request handlers for the session's project."""

    def __init__(self, session: LanguageSession) -> None:
        self._session = session
        self._project = session.project

    def completion(self, params: types.CompletionParams) -> types.CompletionList:
        """Return the completions at a position."""
        text, cursor_context, index = self._at(params)
        typed = params.context.trigger_character if params.context else None
        items = []
        # A blank follows every word, so it triggers completion only if a value is expected.
        if text is not None and not (typed == " " and cursor_context.role in {"key", "kind"}):
            names = self._project.names
            found = complete(cursor_context, index, self._project.vocabulary, names.declared_names, names.missing_names)
            items = [self._session.wire.completion(text, item) for item in found]
        return types.CompletionList(is_incomplete=False, items=items)

    def hover(self, params: types.HoverParams) -> types.Hover | None:
        """Return the hover text of the word at a position."""
        text, cursor_context, _ = self._at(params)
        found = hover(cursor_context, self._project.vocabulary, self._project.summary)
        if text is None or found is None:
            return None
        wire = self._session.wire
        return types.Hover(wire.markup(found.markdown), wire.range(text, found.start, found.end))

    def definition(self, params: types.DefinitionParams) -> list[types.Location]:
        """Return the declarations of the block named at a position."""
        return self._session.wire.locations([named for named in self._occurrences(params) if named.declares])

    def references(self, params: types.ReferenceParams) -> list[types.Location]:
        """Return the uses of the block named at a position."""
        declared = params.context.include_declaration
        return self._session.wire.locations([use for use in self._occurrences(params) if declared or not use.declares])

    def highlight(self, params: types.DocumentHighlightParams) -> list[types.DocumentHighlight]:
        """Return the occurrences of the name at a position in its document."""
        name = self._name(params)
        here = {named.span: named.declares for named in self._occurrences(params) if named.file == name}
        write, read = types.DocumentHighlightKind.Write, types.DocumentHighlightKind.Read
        where = self._session.wire.ranges(name, here)
        return [types.DocumentHighlight(where[span], write if here[span] else read) for span in where]

    def prepare_rename(self, params: types.PrepareRenameParams) -> types.PrepareRenamePlaceholder | None:
        """Return the range and text to rename at a position; None if it is not the name of a block."""
        text, cursor_context, _ = self._at(params)
        if text is None or cursor_context.token is None or self._project.names.at(cursor_context) is None:
            return None
        start, end = cursor_context.token.inner
        where = self._session.wire.range(text, start + cursor_context.base, end + cursor_context.base)
        return types.PrepareRenamePlaceholder(where, cursor_context.token.content)

    def rename(self, params: types.RenameParams) -> types.WorkspaceEdit | None:
        """Return the edits that rename a block in all files."""
        _, cursor_context, _ = self._at(params)
        asked = self._project.names.at(cursor_context)
        if asked is None:
            raise RenameRefused("only the name of a block can be changed")
        edits: dict[str, list[Edit]] = {}
        for file, edit in self._project.names.rename_edits(*asked, params.new_name):
            edits.setdefault(file, []).append(edit)
        wire = self._session.wire
        return wire.workspace_edit({file: wire.edits(file, of) for file, of in edits.items()})

    def document_symbol(
        self, params: types.DocumentSymbolParams
    ) -> list[types.DocumentSymbol] | list[types.SymbolInformation]:
        """Return the outline of a document."""
        name = self._name(params)
        text, file = self._project.text(name), self._project.file(name)
        return self._session.wire.symbols(text, symbols(file.sections)) if text and file else []

    def workspace_symbol(self, params: types.WorkspaceSymbolParams) -> list[types.SymbolInformation]:
        """Return the blocks whose names contain the letters of the query in their order."""
        self._project.settle()
        names = self._project.names.all()
        found = [named for named in names if _matches(params.query, f"{named.kind} {named.name}")][:_MOST_SYMBOLS]
        by_place = {(named.file, named.span): named for named in found}
        wire, made = self._session.wire, []
        for file in dict.fromkeys(named.file for named in found):
            uri = self._project.uri_of(file)
            for span, where in wire.ranges(file, [named.span for named in found if named.file == file]).items():
                named = by_place[file, span]
                place = types.Location(uri, where)
                made.append(
                    types.SymbolInformation(place, named.name, types.SymbolKind.Class, container_name=named.kind)
                )
        return made

    def folding_range(self, params: types.FoldingRangeParams) -> list[types.FoldingRange]:
        """Return the folding ranges of a document."""
        name = self._name(params)
        text, file = self._project.text(name), self._project.file(name)
        if text is None or file is None:
            return []
        return self._session.wire.folds(text, folds(file.sections, file.source.text or ""))

    def formatting(self, params: types.DocumentFormattingParams) -> list[types.TextEdit] | None:
        """Return the edits that format a document; None if it has a syntax error."""
        from dslc.editing.format import format_file

        name = self._name(params)
        text, file = self._project.text(name), self._project.file(name)
        if text is None or file is None or not file.readable:
            return None
        edits = difference(file.source.text or "", format_file(file))
        range_of = self._session.wire.range
        return [types.TextEdit(range_of(text, start, end), new) for start, end, new in edits]

    def code_action(self, params: types.CodeActionParams) -> list[types.CodeAction]:
        """Return the code actions for the diagnostics in a range."""
        name = self._name(params)
        self._project.settle()
        text, source = self._project.text(name), self._project.source(name)
        if text is None or source is None or source.text is None:
            return []
        wire = self._session.wire
        asked = source.span(wire.index(text, params.range.start), wire.index(text, params.range.end))
        only = [str(getattr(kind, "value", kind)) for kind in params.context.only or []]
        return [
            self._action(name, action)
            for action in actions(self._project.diagnostics(name), source, asked)
            if not only or any(f"{_KINDS[action.sort]}.".startswith(f"{kind}.") for kind in only)
        ]

    def _action(self, name: str, action: Action) -> types.CodeAction:
        wire = self._session.wire
        return types.CodeAction(
            title=action.title,
            kind=_KINDS[action.sort],
            diagnostics=wire.diagnostics(name, [action.about]) if action.about else None,
            is_preferred=True if action.is_safe else None,
            edit=wire.workspace_edit({name: wire.edits(name, action.edits)}),
        )

    # Positions in requests.

    def _name(self, params: Any) -> str:
        return self._project.name_of(params.text_document.uri)

    def _at(self, params: Any) -> tuple[DocumentText | None, CursorContext, int]:
        """Return the text, the cursor's context and the index of a request's position."""
        name = self._name(params)
        self._project.settle()
        text = self._project.text(name)
        if text is None:
            return None, CursorContext("nothing"), 0
        index = self._session.wire.index(text, params.position)
        return text, self._project.cursor_context(name, index), index

    def _occurrences(self, params: Any) -> list[NameOccurrence]:
        """Return all occurrences of the name at a request's position."""
        _, cursor_context, _ = self._at(params)
        asked = self._project.names.at(cursor_context)
        return self._project.names.of(*asked) if asked else []


def _matches(query: str, name: str) -> bool:
    letters = iter(name.casefold())
    return all(letter in letters for letter in query.casefold() if not letter.isspace())
