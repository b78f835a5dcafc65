"""Whatever a client sends, the server continues, and shows no traceback and no secret."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from dslc.cli.lsp import PYGLS
from dslc.language_server.disk import scan_folders
from tests.dslc.language_server.client import Client, Json, RefusedError, frame, published, span

URI = "untitled:survivor"
_SECRET = "hunter2Zq"
_REQUESTS: dict[str, Json] = {
    "completion": {"position": {"line": 0, "character": 0}},
    "hover": {"position": {"line": 0, "character": 0}},
    "definition": {"position": {"line": 0, "character": 0}},
    "references": {"position": {"line": 0, "character": 0}, "context": {"includeDeclaration": True}},
    "documentHighlight": {"position": {"line": 0, "character": 0}},
    "prepareRename": {"position": {"line": 0, "character": 0}},
    "documentSymbol": {},
    "foldingRange": {},
    "formatting": {"options": {"tabSize": 4, "insertSpaces": True}},
    "codeAction": {"range": span(0, 0, 0), "context": {"diagnostics": []}},
}


@pytest.fixture
def alive(editor: Client) -> Any:
    """A server that must still answer after the test, without a traceback."""
    yield editor
    editor.open(URI, "agent a {}\n")
    assert [symbol["name"] for symbol in editor.about("documentSymbol", URI)] == ["a"]
    assert b"Traceback" not in editor.errors
    assert not [message for message in editor.inbox if message["method"].startswith("window/")]


@pytest.mark.parametrize(
    "uri",
    [
        "", "nothing", "file:", "file://", "file:///", "file://elsewhere/a", "file:///%00", "file:///%ff%fe.symbiont",
        "file://[bad", "untitled:Untitled-1", "git:/a.symbiont?%7B%7D", "é😀", "file:///a\nb", "file:///\ud800", "http://x:99999999/",
    ],
)  # fmt: skip
def test_any_uri_is_a_document(alive: Client, uri: str) -> None:
    for method, params in _REQUESTS.items():
        alive.about(method, uri, **params)
    alive.change(uri, {"text": "nothing {}\n", "range": span(0, 0, 0)})
    alive.close(uri)
    alive.open(uri, "nothing {}\n")
    alive.change(uri, {"text": "\n", "range": span(0, 0, 0)})
    alive.wait(lambda message: message["params"].get("diagnostics") is not None)
    for method, params in _REQUESTS.items():
        alive.about(method, uri, **params)


def test_positions_outside_the_text_mean_its_ends(alive: Client) -> None:
    alive.open(URI, "é😀\r\nagent x {}")
    for line, character in ((-1, -1), (0, 2), (0, 99), (1, 2**31), (2**31 - 1, 0), (99, 99)):
        for method, params in _REQUESTS.items():
            if "position" in params:
                try:
                    alive.at(method, URI, line, character, **{key: params[key] for key in params if key != "position"})
                except RefusedError as refused:  # a negative number is not a position
                    assert refused.error["code"] == -32602  # noqa: PT017
    backwards = {"start": {"line": 1, "character": 4}, "end": {"line": 0, "character": 1}}
    alive.change(URI, {"range": backwards, "text": "x"}, {"range": span(77, 1, 2), "text": " y {}"})
    assert alive.about("documentSymbol", URI) != []


def test_a_document_that_was_never_opened_can_be_edited_and_closed(alive: Client) -> None:
    alive.change("untitled:unknown", {"range": span(0, 0, 0), "text": "x"})
    alive.close("untitled:unknown")
    alive.change("untitled:unknown", {"text": "nothing {}\n"})
    alive.wait(lambda message: published(message, "untitled:unknown", ["N201"]))
    alive.close("untitled:unknown")


@pytest.mark.parametrize(
    "params", [None, [], {}, {"textDocument": 5}, {"textDocument": {"uri": URI}, "position": {"line": "x"}}]
)
def test_a_request_that_makes_no_sense_is_refused(alive: Client, params: Any) -> None:
    with pytest.raises(RefusedError) as refused:
        alive.ask("textDocument/hover", params)
    assert refused.value.error["code"] == -32602
    assert "traceback" not in str(refused.value.error).lower()


def test_a_request_nobody_knows_is_refused(alive: Client) -> None:
    with pytest.raises(RefusedError) as refused:
        alive.ask("textDocument/brew", {})
    assert refused.value.error["code"] == -32601


@pytest.mark.parametrize(
    "body",
    [
        b"{", b"[]", b"null", b"5", b'"x"', b"\xff\xfe", b"[" * 5000, b'{"jsonrpc": "2.0"}',
        b'{"jsonrpc": "1.0", "id": 1}',
        b'{"jsonrpc": "2.0", "id": null, "method": "textDocument/hover"}',
        b'{"jsonrpc": "2.0", "method": "textDocument/didOpen"}',
        b'{"jsonrpc": "2.0", "method": "textDocument/didChange", "params": {"textDocument": null}}',
        b'{"jsonrpc": "2.0", "id": 99999, "result": {}}',
        b'{"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": 5}}',
    ],
)  # fmt: skip
def test_a_message_that_is_none_is_passed_over(alive: Client, body: bytes) -> None:
    alive.send_bytes(frame(body))


def test_a_large_document_is_told_to_be_too_large(alive: Client) -> None:
    alive.open(URI, "# " + "x" * (4 << 20) + "\n")
    found = alive.wait(lambda message: published(message, URI, ["S108"]))["params"]["diagnostics"]
    assert "4 MiB" in found[0]["message"]
    for method, params in _REQUESTS.items():
        alive.about(method, URI, **params)
    alive.change(URI, {"text": "agent x {}\n"})
    alive.diagnostics(URI, "R302")


@pytest.mark.parametrize("text", ["{" * 100_000, '"' * 100_000, "a {" * 30_000, "\ud800", "\0", "\r", "[" * 100_000])
def test_any_text_can_be_asked_about(alive: Client, text: str) -> None:
    alive.open(URI, text)
    alive.wait(lambda message: message["params"].get("uri") == URI and message["params"]["diagnostics"])
    for method, params in _REQUESTS.items():
        alive.about(method, URI, **params)


def test_files_that_cannot_be_read_are_not_there(alive: Client, folder: Path) -> None:
    (folder / "pipe.symbiont").parent.mkdir(exist_ok=True)
    os.mkfifo(folder / "pipe.symbiont")
    (folder / "dangling.symbiont").symlink_to(folder / "nowhere")
    (folder / "folder.symbiont").mkdir()
    (folder / "bytes.symbiont").write_bytes(b"agent \xff {}\n")
    names = ("pipe", "dangling", "folder", "bytes", "vanished")
    changes = [{"uri": (folder / f"{name}.symbiont").as_uri(), "type": 1} for name in names]
    alive.tell("workspace/didChangeWatchedFiles", {"changes": changes})
    found = alive.diagnostics((folder / "bytes.symbiont").as_uri(), "S108")
    assert found[0]["range"]["start"] == {"line": 0, "character": 6}


def test_no_answer_shows_a_secret(alive: Client) -> None:
    text = f'webhook w {{\n    path 5\n    secret "{_SECRET}"\n    secret = ["{_SECRET}"\n}}\nagent a {{ nothing }}\n'
    alive.open(URI, text)
    alive.wait(lambda message: message["params"].get("uri") == URI)
    said: list[Any] = [alive.inbox]
    for line, character in [(line, character) for line in range(6) for character in (0, 5, 13, 19, 40)]:
        for method, params in _REQUESTS.items():
            more = params | ({"position": {"line": line, "character": character}} if "position" in params else {})
            said.append(alive.about(method, URI, **more))
    everywhere = {"start": {"line": 0, "character": 0}, "end": {"line": 9, "character": 0}}
    said.append(alive.about("codeAction", URI, range=everywhere, context={"diagnostics": []}))
    said.append(alive.ask("workspace/symbol", {"query": ""}))
    alive.send_bytes(frame(f'{{"jsonrpc": "2.0", "method": "textDocument/didOpen", "params": "{_SECRET}"}}'.encode()))
    alive.about("documentSymbol", URI)
    # A rename may contain the author's text; all other text is ours.
    assert _SECRET not in repr([each for each in said if not (isinstance(each, dict) and "placeholder" in each)])
    assert _SECRET.encode() not in alive.errors


def test_a_client_that_goes_away_ends_the_server(tmp_path: Path) -> None:
    client = Client(tmp_path)
    assert client.process.stdin is not None
    client.process.stdin.close()
    assert client.gone() == 0
    assert b"Traceback" not in client.errors


def test_without_its_extra_the_command_says_what_to_install() -> None:
    code = "import sys; sys.modules['pygls'] = None; from dslc.cli import main; main(['lsp'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    install = f"{sys.executable} -m pip install '{PYGLS}'"
    assert done.stderr == f"dslc: the language server needs pygls: {install}\n"
    project = tomllib.loads((Path(__file__).parents[4] / "pyproject.toml").read_text())["project"]
    assert project["optional-dependencies"]["lsp"] == [PYGLS]
    assert done.stdout == ""


def test_a_link_that_leads_out_of_a_folder_is_not_there(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "outside.symbiont").write_text("agent outside {}\n")
    (folder / "a.symbiont").write_text("agent inside {}\n")
    (folder / "link.symbiont").symlink_to(tmp_path / "outside.symbiont")
    assert set(scan_folders([str(folder)], {}).read) == {str(folder / "a.symbiont")}
