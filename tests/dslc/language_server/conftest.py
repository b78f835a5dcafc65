"""Servers that the tests of a process share; their documents are closed after each test."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.dslc.language_server.client import Client


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Client]]:
    """A server over an empty folder for each encoding, started when it is first asked for."""
    started: dict[str, Client] = {}

    def server(encoding: str) -> Client:
        if encoding not in started:
            # The server must choose the first one that it knows.
            started[encoding] = Client(tmp_path_factory.mktemp("program"), ["utf-7", encoding, "utf-16", "utf-32"])
        return started[encoding]

    yield server
    for client in started.values():
        assert client.end() == 0
        assert b"Traceback" not in client.errors


@pytest.fixture
def shared_server(servers: Callable[[str], Client]) -> Client:
    """The server of most tests."""
    return servers("utf-16")


@pytest.fixture
def editor(shared_server: Client) -> Iterator[Client]:
    """The shared server with no document and no file."""
    opened: list[str] = []
    plain_open = shared_server.open

    def remember(uri: str, text: str) -> None:
        opened.append(uri)
        plain_open(uri, text)

    shared_server.open = remember  # type: ignore[method-assign]
    yield shared_server
    shared_server.open = plain_open  # type: ignore[method-assign]
    for uri in opened:
        shared_server.close(uri)
    folder = shared_server.folder
    assert folder is not None
    files = sorted(folder.rglob("*"))
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    if files:
        changes = [{"uri": path.as_uri(), "type": 3} for path in files]
        shared_server.tell("workspace/didChangeWatchedFiles", {"changes": changes})
    # The next test must not find messages of this one.
    shared_server.open("untitled:end", "nothing {}\n")
    shared_server.diagnostics("untitled:end", "N201")
    shared_server.close("untitled:end")
    while shared_server.told:
        shared_server.wait(lambda message: message["method"] == "textDocument/publishDiagnostics")
    shared_server.inbox.clear()
    assert b"Traceback" not in shared_server.errors


@pytest.fixture
def folder(editor: Client) -> Path:
    """The folder of the shared server."""
    assert editor.folder is not None
    return editor.folder
