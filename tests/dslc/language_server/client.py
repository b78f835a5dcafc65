"""A small client of the Language Server Protocol, and the texts it works on."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

Json = dict[str, Any]
_PATIENCE = 60  # seconds after which a silent server counts as stuck

CAPABILITIES: Json = {
    "textDocument": {
        "completion": {"completionItem": {"snippetSupport": True, "documentationFormat": ["markdown"]}},
        "hover": {"contentFormat": ["markdown"]},
        "publishDiagnostics": {"relatedInformation": True, "tagSupport": {"valueSet": [1, 2]}},
        "documentSymbol": {"hierarchicalDocumentSymbolSupport": True},
        "rename": {"prepareSupport": True},
        "codeAction": {"codeActionLiteralSupport": {"codeActionKind": {"valueSet": ["quickfix", "source.fixAll"]}}},
    },
    "workspace": {"didChangeWatchedFiles": {"dynamicRegistration": True}, "workspaceEdit": {"documentChanges": True}},
}


class RefusedError(Exception):
    """The server answered with an error."""

    def __init__(self, error: Json) -> None:
        super().__init__(error["message"])
        self.error = error


class Client:
    """A client that starts `dslc lsp`."""

    def __init__(self, folder: Path | None, encodings: Sequence[str] = ("utf-16",), capabilities: Json = CAPABILITIES):
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, "-c", "from dslc.cli import main; main()", "lsp", "--stdio"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONWARNINGS": "error"},
        )
        self.errors = bytearray()
        self.inbox: list[Json] = []  # notifications and requests of the server, in order
        self.told: dict[str, list[Json]] = {}  # the latest diagnostics of every document that has some
        self._numbers = count(1)
        self._versions = count(1)
        self._messages: queue.Queue[Json | None] = queue.Queue()
        self._readers = [threading.Thread(target=read, daemon=True) for read in (self._read, self._read_errors)]
        for reader in self._readers:
            reader.start()
        self.answer = self.ask(
            "initialize",
            {
                "processId": os.getpid(),
                "rootUri": None,
                "capabilities": {**capabilities, "general": {"positionEncodings": list(encodings)}},
                "workspaceFolders": [{"uri": folder.as_uri(), "name": "program"}] if folder else None,
            },
        )
        self.tell("initialized", {})

    # Messages.

    def ask(self, method: str, params: Any) -> Any:
        """Send a request and wait for its result. Raises RefusedError."""
        number = next(self._numbers)
        self.send({"id": number, "method": method, "params": params})
        message = self._until(lambda message: message.get("id") == number and "method" not in message)
        if "error" in message:
            raise RefusedError(message["error"])
        return message["result"]

    def tell(self, method: str, params: Any) -> None:
        """Send a notification."""
        self.send({"method": method, "params": params})

    def send(self, *messages: Json) -> None:
        """Send messages in one write."""
        self.send_bytes(b"".join(frame(json.dumps({"jsonrpc": "2.0", **message}).encode()) for message in messages))

    def send_bytes(self, data: bytes) -> None:
        """Send raw bytes."""
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def wait(self, wanted: Callable[[Json], bool]) -> Json:
        """Return the first wanted notification or request of the server; earlier ones are dropped."""
        while self.inbox:
            message = self.inbox.pop(0)
            if wanted(message):
                return message
        self._until(wanted)
        return self.inbox.pop()

    def _until(self, wanted: Callable[[Json], bool]) -> Json:
        while True:
            message = self._messages.get(timeout=_PATIENCE)
            assert message is not None, f"the server has ended: {self.errors.decode()}"
            if "method" in message:
                self.inbox.append(message)
                self._note(message)
                if message["method"] == "client/registerCapability":
                    self.send({"id": message["id"], "result": None})
            if wanted(message):
                return message

    def _note(self, message: Json) -> None:
        if message["method"] == "textDocument/publishDiagnostics":
            self.told.pop(message["params"]["uri"], None)
            if message["params"]["diagnostics"]:
                self.told[message["params"]["uri"]] = message["params"]["diagnostics"]

    def _read(self) -> None:
        stream = self.process.stdout
        assert stream is not None
        while header := stream.readline():
            length = int(header.removeprefix(b"Content-Length: "))
            while stream.readline().strip():
                pass
            self._messages.put(json.loads(stream.read(length)))
        self._messages.put(None)

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        while data := self.process.stderr.read1(1024):  # type: ignore[attr-defined]
            self.errors += data

    def end(self) -> int:
        """Shut the server down as the protocol requires. Returns its exit code."""
        self.ask("shutdown", None)
        self.tell("exit", None)
        return self.gone()

    def gone(self) -> int:
        """Wait until the server has ended. Returns its exit code."""
        code = self.process.wait(_PATIENCE)
        for reader in self._readers:
            reader.join(_PATIENCE)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()
        return code

    # Documents.

    def open(self, uri: str, text: str) -> None:
        """Open a document."""
        document = {"uri": uri, "languageId": "symbiont", "version": next(self._versions), "text": text}
        self.tell("textDocument/didOpen", {"textDocument": document})

    def change(self, uri: str, *changes: Json) -> None:
        """Edit a document: each change is `{"text": …}`, optionally with a range."""
        document = {"uri": uri, "version": next(self._versions)}
        self.tell("textDocument/didChange", {"textDocument": document, "contentChanges": list(changes)})

    def close(self, uri: str) -> None:
        """Close a document."""
        self.tell("textDocument/didClose", {"textDocument": {"uri": uri}})

    def at(self, method: str, uri: str, line: int, character: int, **more: Any) -> Any:
        """Send a request about a position in a document."""
        position = {"line": line, "character": character}
        return self.ask(f"textDocument/{method}", {"textDocument": {"uri": uri}, "position": position, **more})

    def about(self, method: str, uri: str, **more: Any) -> Any:
        """Send a request about a document."""
        return self.ask(f"textDocument/{method}", {"textDocument": {"uri": uri}, **more})

    def diagnostics(self, uri: str, *codes: str) -> list[Json]:
        """Return the next diagnostics of a document that have exactly these codes."""
        return list(self.wait(lambda message: published(message, uri, codes))["params"]["diagnostics"])


def published(message: Json, uri: str, codes: Sequence[str]) -> bool:
    """Return whether a message contains the diagnostics of a document, with exactly these codes."""
    if message.get("method") != "textDocument/publishDiagnostics" or message["params"]["uri"] != uri:
        return False
    return [diagnostic["code"] for diagnostic in message["params"]["diagnostics"]] == list(codes)


def frame(body: bytes) -> bytes:
    """Return a message as it is sent."""
    return b"Content-Length: %d\r\n\r\n" % len(body) + body


def span(line: int, start: int, end: int) -> Json:
    """Return a range on one line."""
    return {"start": {"line": line, "character": start}, "end": {"line": line, "character": end}}
