"""State of one client: its documents and folders, and the diagnostics sent to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from lsprotocol import types
from pygls.capabilities import get_capability
from pygls.lsp.server import LanguageServer

from dslc import files
from dslc.language_server.disk import scan_folders
from dslc.language_server.positions import Encoding
from dslc.language_server.project import DocumentChange, EditorProject
from dslc.language_server.protocol.wire import Wire
from dslc.language_server.uris import path_of
from dslc.report.selection import MOST_IN_A_FILE
from dslc.vocabulary import Vocabulary

_PATIENCE = 0.05  # seconds of storing files before requests are handled
_LONGEST_SCAN = 5  # seconds; diagnostics are published then even if the first scan is not finished
_ENCODINGS: dict[str, Encoding] = {"utf-8": "utf-8", "utf-16": "utf-16", "utf-32": "utf-32"}

FailureHandler = Callable[[str, BaseException], None]


class LanguageSession:
    """Updates the project from the client's notifications and publishes diagnostics.

    Edits are stored immediately and checked when the loop is idle, so that typing never waits for a check. `failed` is
    called with errors of background tasks.
    """

    def __init__(self, server: LanguageServer, vocabulary: Vocabulary, failed: FailureHandler) -> None:
        self._server = server
        self._failed = failed
        self.project = EditorProject(vocabulary)
        self.wire = Wire(self.project, types.ClientCapabilities())
        self._watched = False
        self._scanned = False  # False until the first scan is finished: parts of the program are missing
        self._named_paths: set[str] = set()
        self._scan_again = False
        self._scan_task: asyncio.Task[None] | None = None
        self._publishing: asyncio.Handle | None = None
        self._sent: dict[str, tuple[str, list[types.Diagnostic]]] = {}

    def handlers(self) -> Mapping[str, Callable[[Any], None]]:
        """Handlers by message."""
        return {
            types.INITIALIZE: self.initialize,
            types.INITIALIZED: self.initialized,
            types.TEXT_DOCUMENT_DID_OPEN: self.did_open,
            types.TEXT_DOCUMENT_DID_CHANGE: self.did_change,
            types.TEXT_DOCUMENT_DID_CLOSE: self.did_close,
            types.TEXT_DOCUMENT_DID_SAVE: self.did_save,
            types.WORKSPACE_DID_CHANGE_WATCHED_FILES: self.did_change_watched_files,
            types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS: self.did_change_folders,
        }

    # Initialization.

    def initialize(self, params: types.InitializeParams) -> None:
        """Store the client's capabilities and folders. pygls has already chosen the encoding."""
        chosen = self._server.workspace.position_encoding
        self.project.encoding = _ENCODINGS.get(str(getattr(chosen, "value", chosen)), "utf-16")
        self.wire = Wire(self.project, params.capabilities)
        folders = [folder.uri for folder in params.workspace_folders or []]
        if params.workspace_folders is None and params.root_uri:
            folders = [params.root_uri]
        paths = [path_of(uri) for uri in folders]
        if not folders and params.root_path:
            paths = [params.root_path]
        self.project.folders = [path for path in paths if path]
        self._watched = bool(
            get_capability(params.capabilities, "workspace.did_change_watched_files.dynamic_registration")
        )

    def initialized(self, _: types.InitializedParams) -> None:
        """Scan the folders, and register for file changes."""
        if self._watched:
            watcher = types.FileSystemWatcher(f"**/*{files.SUFFIX}")
            registration = types.Registration(
                "watched-programs",
                types.WORKSPACE_DID_CHANGE_WATCHED_FILES,
                types.DidChangeWatchedFilesRegistrationOptions([watcher]),
            )
            self._server.client_register_capability(types.RegistrationParams([registration]))
        self._start_scan()
        asyncio.get_running_loop().call_later(_LONGEST_SCAN, self._publish_anyway)

    # Documents.

    def did_open(self, params: types.DidOpenTextDocumentParams) -> None:
        """Add an opened document."""
        document = params.text_document
        self.project.open(document.uri, document.version, document.text)
        self._publish_soon()

    def did_change(self, params: types.DidChangeTextDocumentParams) -> None:
        """Apply edits of a document."""
        document = params.text_document
        self.project.change(document.uri, document.version, [_change(change) for change in params.content_changes])
        self._publish_soon()

    def did_close(self, params: types.DidCloseTextDocumentParams) -> None:
        """Remove a closed document: the content of its file counts again."""
        name = self.project.close(params.text_document.uri)
        if name is not None:
            try:
                self.project.put_file(name, files.read(name))
            except OSError:
                self.project.put_file(name, b"")  # just removed; the next scan drops it
                self._start_scan()
        self._publish_soon()
        self._scan_unless_watched()

    def did_save(self, _: types.DidSaveTextDocumentParams) -> None:
        """Scan the folders after a document was saved, unless the client watches files."""
        self._scan_unless_watched()

    # The disk.

    def did_change_watched_files(self, params: types.DidChangeWatchedFilesParams) -> None:
        """Scan the folders after files changed. The type of change that the client reports is ignored."""
        paths = (path_of(change.uri) for change in params.changes)
        self._named_paths |= {path for path in paths if path}
        self._start_scan()

    def did_change_folders(self, params: types.DidChangeWorkspaceFoldersParams) -> None:
        """Update the folders and scan them."""
        removed = {path_of(folder.uri) for folder in params.event.removed}
        added = [path for folder in params.event.added if (path := path_of(folder.uri))]
        kept = [path for path in self.project.folders if path not in removed]
        self.project.folders = list(dict.fromkeys([*kept, *added]))
        self._start_scan()

    def _scan_unless_watched(self) -> None:
        if not self._watched:
            self._start_scan()

    def _start_scan(self) -> None:
        """Start a scan; if one is running, scan again after it."""
        self._scan_again = True
        if self._scan_task is None or self._scan_task.done():
            self._scan_task = asyncio.get_running_loop().create_task(self._scan_disk(), name="scan of the disk")

    async def _scan_disk(self) -> None:
        try:
            while self._scan_again:
                self._scan_again, named, self._named_paths = False, self._named_paths, set()
                seen = await asyncio.to_thread(scan_folders, list(self.project.folders), self.project.stamps, named)
                loop = asyncio.get_running_loop()
                rest = loop.time() + _PATIENCE
                for _ in self.project.take(seen):
                    if loop.time() > rest:
                        await asyncio.sleep(0)
                        rest = loop.time() + _PATIENCE
        except Exception as error:
            self._failed("looking at the disk", error)
        self._scanned = True
        self._publish_soon()

    # Diagnostics.

    def _publish_soon(self) -> None:
        """Publish diagnostics when no message is waiting."""
        if self._publishing is None and self._scanned:
            self._publishing = asyncio.get_running_loop().call_soon(self._publish)

    def _publish_anyway(self) -> None:
        """Publish although the first scan is not finished."""
        self._scanned = True
        self._publish_soon()

    def _publish(self) -> None:
        self._publishing = None
        try:
            changed = self.project.take_changed()
            # If the URI of a source changed, the diagnostics sent for the old URI are cleared.
            moved = {name for name, (uri, _) in self._sent.items() if self.project.uri_of(name) != uri}
            for name in sorted(changed | moved):
                self._send(name)
        except Exception as error:
            self._failed("checking", error)

    def _send(self, name: str) -> None:
        """Send the diagnostics of a source if they differ from those the client has."""
        found = self.wire.diagnostics(name, self.project.diagnostics(name)[:MOST_IN_A_FILE])
        uri, document = self.project.uri_of(name), self.project.document(name)
        before_uri, before = self._sent.get(name, (uri, []))
        if before_uri != uri and before:
            self._server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(before_uri, []))
            before = []
        if found != before:
            version = document.version if document else None
            self._server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, found, version))
        self._sent[name] = (uri, found)
        if not found and document is None:
            del self._sent[name]


def _change(change: types.TextDocumentContentChangeEvent) -> DocumentChange:
    if isinstance(change, types.TextDocumentContentChangePartial):
        start, end = change.range.start, change.range.end
        return DocumentChange(change.text, ((start.line, start.character), (end.line, end.character)))
    return DocumentChange(change.text)
