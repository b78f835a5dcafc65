"""The language server as a process that exchanges messages with an editor."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.dslc.language_server.client import Client, Json, RefusedError, published, span

URI = "untitled:program"
REVIEWER = """\
memory notes {
    path "data/notes"
}

agent reviewer {
    memory notes
}

webhook github {
    path     "/hooks/github"
    provider github
    secret   "secret://env/GITHUB_SECRET"
    agent    reviewer
}
"""


def _write(client: Client, folder: Path, name: str, text: str) -> str:
    """Write a file outside of the editor, and notify the server. Returns its URI."""
    path = folder / name
    kind = 2 if path.exists() else 1
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    client.tell("workspace/didChangeWatchedFiles", {"changes": [{"uri": path.as_uri(), "type": kind}]})
    return path.as_uri()


def _delete(client: Client, path: Path) -> None:
    path.unlink()
    client.tell("workspace/didChangeWatchedFiles", {"changes": [{"uri": path.as_uri(), "type": 3}]})


def _applied(text: str, edits: list[Json]) -> str:
    """Return an ASCII text after edits."""
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def index(position: Json) -> int:
        return int(starts[position["line"]] + position["character"])

    for edit in sorted(edits, key=lambda edit: index(edit["range"]["start"]), reverse=True):
        start, end = index(edit["range"]["start"]), index(edit["range"]["end"])
        text = text[:start] + edit["newText"] + text[end:]
    return text


def _position_of(text: str, what: str, after: int = 0) -> tuple[int, int]:
    index = text.index(what) + after
    line = text.count("\n", 0, index)
    return line, index - (text.rfind("\n", 0, index) + 1)


# Diagnostics.


def test_mistakes_are_told_while_they_are_typed_and_taken_back(editor: Client) -> None:
    editor.open(URI, REVIEWER)
    editor.change(URI, {"range": span(5, 4, 10), "text": "memry"})
    found = editor.diagnostics(URI, "N202")[0]
    assert found["range"] == span(5, 4, 9)
    assert found["severity"] == 1
    assert found["source"] == "dslc"
    assert "did you mean `memory`?" in found["message"]
    editor.change(URI, {"range": span(5, 4, 9), "text": "memory"})
    assert editor.diagnostics(URI) == []


def test_a_burst_of_edits_is_answered_for_its_last(editor: Client) -> None:
    editor.open(URI, REVIEWER)
    burst = [
        {"method": "textDocument/didChange", "params": {"textDocument": {"uri": URI, "version": 1000 + number},
         "contentChanges": [{"range": span(0, 0, 0), "text": "x"}]}}
        for number in range(200)
    ]  # fmt: skip
    editor.send(*burst)
    editor.about("hover", URI, position={"line": 0, "character": 0})
    sent = [editor.wait(lambda message: message["params"].get("uri") == URI)]
    while sent[-1]["params"]["version"] != 1199:
        sent.append(editor.wait(lambda message: message["params"].get("uri") == URI))
    assert len(sent) < 50


def test_a_note_says_what_is_unused(editor: Client) -> None:
    editor.open(URI, "agent idle {}\n")
    found = editor.diagnostics(URI, "R302")[0]
    assert found["severity"] == 3
    assert found["tags"] == [1]
    assert found["range"] == span(0, 6, 10)


def test_the_first_of_two_is_shown_in_its_own_file(editor: Client, folder: Path) -> None:
    first = _write(editor, folder, "a.symbiont", "\n# é\nagent x {}\nagent y { memory m }\nmemory m {}\n")
    editor.diagnostics(first, "R302", "R302")
    second = _write(editor, folder, "b/c d.symbiont", "agent x {}\n")
    found = editor.diagnostics(second, "N204")[0]
    related = found["relatedInformation"][0]
    assert related["location"] == {"uri": first, "range": span(2, 6, 7)}
    assert "first" in related["message"]


def test_a_reference_is_looked_for_in_every_file(editor: Client, folder: Path) -> None:
    editor.open(URI, REVIEWER.replace("memory notes {", "memory other {"))
    editor.diagnostics(URI, "R301")
    _write(editor, folder, "memories.symbiont", 'memory notes {\n    path "elsewhere"\n}\n')
    editor.diagnostics(URI, "R302")  # of two memories one is unused
    _delete(editor, folder / "memories.symbiont")
    editor.diagnostics(URI, "R301")


def test_only_files_whose_diagnostics_changed_are_sent(editor: Client, folder: Path) -> None:
    other = _write(editor, folder, "other.symbiont", "nothing {}\n")
    editor.diagnostics(other, "N201")
    editor.open(URI, REVIEWER)
    editor.change(URI, {"range": span(0, 0, 0), "text": "wrong {}\n"})
    editor.diagnostics(URI, "N201")
    editor.about("hover", URI, position={"line": 0, "character": 0})
    assert [message for message in editor.inbox if message["method"] == "textDocument/publishDiagnostics"] == []


def test_the_text_that_is_not_saved_wins_until_it_is_closed(editor: Client, folder: Path) -> None:
    uri = _write(editor, folder, "a.symbiont", "nothing {}\n")
    editor.diagnostics(uri, "N201")
    editor.open(uri, "policy p { }\n")
    editor.diagnostics(uri, "N207")
    _write(editor, folder, "a.symbiont", "agent unsaved {}\n")
    editor.change(uri, {"text": "policy p { }\nagent q {}\n"})
    editor.diagnostics(uri, "N207", "R302")
    editor.close(uri)
    editor.diagnostics(uri, "R302")


def test_a_closed_document_without_a_file_is_forgotten(editor: Client, folder: Path) -> None:
    uri = (folder / "never-saved.symbiont").as_uri()
    editor.open(uri, "nothing {}\n")
    editor.diagnostics(uri, "N201")
    editor.close(uri)
    assert editor.diagnostics(uri) == []


def test_a_document_has_one_name_however_its_uri_is_written(editor: Client, folder: Path) -> None:
    uri = _write(editor, folder, "a b.symbiont", "nothing {}\n")
    editor.diagnostics(uri, "N201")
    spelt = uri.replace("%20", " ").replace("a b", "%61 b")
    editor.open(spelt, "agent x {}\nagent x {}\n")
    assert editor.diagnostics(uri) == []
    editor.diagnostics(spelt, "R302", "N204")
    editor.close(spelt)
    editor.diagnostics(uri, "N201")


def test_hidden_files_and_other_files_are_no_part_of_the_program(editor: Client, folder: Path) -> None:
    _write(editor, folder, ".git/a.symbiont", "nothing {}\n")
    _write(editor, folder, "a.txt", "nothing {}\n")
    uri = _write(editor, folder, "a.symbiont", "nothing {}\n")
    editor.diagnostics(uri, "N201")
    symbols = editor.ask("workspace/symbol", {"query": ""})
    assert symbols == []
    # The server also requests to watch files; only messages about files count.
    told = [message for message in editor.inbox if message["method"] == "textDocument/publishDiagnostics"]
    assert {message["params"]["uri"] for message in told} <= {uri}


# Requests.


def test_completion_knows_the_words_of_the_place(editor: Client) -> None:
    editor.open(URI, REVIEWER + "webhook w {\n    pro\n")
    items = editor.at("completion", URI, 15, 7)["items"]
    chosen = next(item for item in items if item["label"] == "provider")
    assert chosen["textEdit"]["range"] == span(15, 4, 7)
    assert chosen["insertTextFormat"] == 2
    assert "custom" in chosen["textEdit"]["newText"]
    assert "known provider" in chosen["documentation"]["value"]


def test_a_blank_asks_for_values_only(editor: Client) -> None:
    editor.open(URI, REVIEWER.replace("agent    reviewer", "agent \n    "))
    typed = {"context": {"triggerKind": 2, "triggerCharacter": " "}}
    assert [item["label"] for item in editor.at("completion", URI, 12, 10, **typed)["items"]] == ["reviewer"]
    assert editor.at("completion", URI, 13, 4, **typed)["items"] == []
    assert editor.at("completion", URI, 13, 4)["items"] != []


def test_hover_explains(editor: Client) -> None:
    editor.open(URI, REVIEWER)
    said = editor.at("hover", URI, *_position_of(REVIEWER, "provider"))
    assert said["contents"]["kind"] == "markdown"
    assert "The sender and its signature" in said["contents"]["value"]
    assert said["range"] == span(10, 4, 12)
    assert editor.at("hover", URI, 3, 0) is None


def test_definition_and_references_go_across_files(editor: Client, folder: Path) -> None:
    other = _write(editor, folder, "b.symbiont", 'memory "m" {}\nwebhook "é😀" {}\n/* */ agent a { memory m }\n')
    uri = _write(editor, folder, "a.symbiont", 'agent x { memory "m" }\n')
    editor.diagnostics(uri, "R302")
    declared = {"uri": other, "range": span(0, 8, 9)}
    uses = [{"uri": uri, "range": span(0, 18, 19)}]
    assert editor.at("definition", uri, 0, 18) == [declared]
    without = editor.at("references", uri, 0, 18, context={"includeDeclaration": False})
    assert [place for place in without if place["uri"] == uri] == uses
    assert declared not in without
    assert declared in editor.at("references", other, 0, 9, context={"includeDeclaration": True})
    assert editor.at("definition", uri, 0, 2) == []


def test_the_same_name_is_marked(editor: Client) -> None:
    editor.open(URI, REVIEWER)
    marks = editor.at("documentHighlight", URI, *_position_of(REVIEWER, "notes"))
    assert [(mark["range"], mark["kind"]) for mark in marks] == [(span(0, 7, 12), 3), (span(5, 11, 16), 2)]


def test_a_refused_rename_is_answered_and_is_no_failure_in_the_log(tmp_path: Path) -> None:
    client = Client(tmp_path, ["utf-8"])
    client.open(URI, "agent a {}\n")
    with pytest.raises(RefusedError, match="only the name of a block can be changed"):
        client.at("rename", URI, 0, 1, newName="b")
    client.end()
    assert b"failed" not in client.errors


def test_rename_goes_across_files_and_keeps_quotes(editor: Client, folder: Path) -> None:
    text = 'webhook w {\n    path "/w"\n    secret "secret://env/A"\n    agent "reviewer"\n}\n'
    other = _write(editor, folder, "b.symbiont", text)
    editor.open(URI, REVIEWER)
    place = _position_of(REVIEWER, "reviewer", 3)
    assert editor.at("prepareRename", URI, *place) == {"range": span(4, 6, 14), "placeholder": "reviewer"}
    while not editor.ask("workspace/symbol", {"query": "webhook w"}):
        pass  # the file is still being checked
    changes = editor.at("rename", URI, *place, newName="the.reviewer")["documentChanges"]
    edits = {change["textDocument"]["uri"]: change["edits"] for change in changes}
    versions = {change["textDocument"]["uri"]: change["textDocument"]["version"] for change in changes}
    assert _applied(REVIEWER, edits[URI]) == REVIEWER.replace("reviewer", '"the.reviewer"')
    assert _applied(text, edits[other]) == text.replace("reviewer", "the.reviewer")
    assert isinstance(versions[URI], int)
    assert versions[other] is None


def test_a_file_has_an_outline_and_folds(editor: Client) -> None:
    editor.open(URI, REVIEWER)
    symbols = editor.about("documentSymbol", URI)
    assert [(symbol["name"], symbol["detail"]) for symbol in symbols] == [
        ("notes", "memory"), ("reviewer", "agent"), ("github", "webhook"),
    ]  # fmt: skip
    assert [inner["name"] for inner in symbols[2]["children"]] == ["path", "provider", "secret", "agent"]
    folds = editor.about("foldingRange", URI)
    assert [(fold["startLine"], fold["endLine"]) for fold in folds] == [(0, 2), (4, 6), (8, 13)]


def test_blocks_are_found_in_the_whole_program(editor: Client, folder: Path) -> None:
    uri = _write(editor, folder, "b.symbiont", "agent somebody {}\n")
    editor.diagnostics(uri, "R302")
    editor.open(URI, REVIEWER)
    found = editor.ask("workspace/symbol", {"query": "agent"})
    assert {(symbol["name"], symbol["location"]["uri"]) for symbol in found} == {("somebody", uri), ("reviewer", URI)}
    assert [symbol["name"] for symbol in editor.ask("workspace/symbol", {"query": "rvw"})] == ["reviewer"]


def test_formatting_edits_what_differs(editor: Client) -> None:
    wild = REVIEWER.replace("    memory notes", "  memory   notes").replace("path     ", "path ")
    editor.open(URI, wild)
    edits = editor.about("formatting", URI, options={"tabSize": 4, "insertSpaces": True})
    assert _applied(wild, edits) == REVIEWER
    assert len(edits) == 2


def test_formatting_leaves_a_broken_document_alone(editor: Client) -> None:
    editor.open(URI, REVIEWER + "memory {")
    assert editor.about("formatting", URI, options={"tabSize": 4, "insertSpaces": True}) is None


def _code_actions(editor: Client, where: Json, only: list[str] | None = None) -> list[Any]:
    context: Json = {"diagnostics": []} | ({"only": only} if only else {})
    return list(editor.about("codeAction", URI, range=where, context=context))


def test_fixes_are_offered(editor: Client) -> None:
    text = REVIEWER.replace("path  ", "pth = ").replace("secret   ", "secret = ")
    editor.open(URI, text)
    [fix] = [action for action in _code_actions(editor, span(9, 4, 4)) if action["title"] == "Write `path`"]
    assert fix["kind"] == "quickfix"
    assert "isPreferred" not in fix  # a nearly right name is a guess
    assert [diagnostic["code"] for diagnostic in fix["diagnostics"]] == ["N202"]
    assert fix["edit"]["documentChanges"][0]["edits"] == [{"range": span(9, 4, 7), "newText": "path"}]
    [every] = _code_actions(editor, span(0, 0, 0), ["source.fixAll"])
    assert every["kind"] == "source.fixAll.dslc"
    after = _applied(text, every["edit"]["documentChanges"][0]["edits"])
    fixed = REVIEWER.replace("path  ", "pth")
    assert [line.split() for line in after.split("\n")] == [line.split() for line in fixed.split("\n")]
    assert _code_actions(editor, span(9, 4, 4), ["refactor"]) == []


def test_a_warning_can_be_allowed(editor: Client) -> None:
    editor.open(URI, REVIEWER.replace("secret://env/GITHUB_SECRET", "hunter2"))
    [action] = _code_actions(editor, span(11, 20, 20))
    assert action["edit"]["documentChanges"][0]["edits"] == [
        {"range": span(11, 0, 0), "newText": "    # dslc: allow P501\n"}
    ]


# The server itself.


@pytest.fixture(scope="module")
def simple() -> Iterator[Client]:
    """A server of a client without capabilities and without a folder."""
    client = Client(None, capabilities={})
    yield client
    assert client.end() == 0


def test_a_simple_client_gets_simple_answers(simple: Client) -> None:
    simple.open(URI, "agent x {}\nagent x {}\n")
    found = simple.diagnostics(URI, "R302", "N204")
    assert all("relatedInformation" not in diagnostic and "tags" not in diagnostic for diagnostic in found)
    assert simple.at("completion", URI, 0, 9)["items"][0]["insertTextFormat"] == 1
    assert list(simple.at("rename", URI, 0, 6, newName="y")["changes"]) == [URI]
    assert simple.about("documentSymbol", URI)[0]["location"]["uri"] == URI
    simple.close(URI)
    assert simple.diagnostics(URI) == []


def _folders(client: Client, added: Path | None, removed: Path | None) -> None:
    event = {
        "added": [{"uri": added.as_uri(), "name": "added"}] if added else [],
        "removed": [{"uri": removed.as_uri(), "name": "removed"}] if removed else [],
    }
    client.tell("workspace/didChangeWorkspaceFolders", {"event": event})


def test_folders_come_and_go(simple: Client, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for path in (one, two):
        path.mkdir()
        (path / "a.symbiont").write_text("nothing {}\n")
    _folders(simple, one, None)
    simple.diagnostics((one / "a.symbiont").as_uri(), "N201")
    _folders(simple, two, one)
    simple.wait(lambda message: published(message, (one / "a.symbiont").as_uri(), []))
    simple.diagnostics((two / "a.symbiont").as_uri(), "N201")
    _folders(simple, None, two)
    assert simple.diagnostics((two / "a.symbiont").as_uri()) == []


def test_without_watching_the_disk_is_looked_at_when_something_is_saved(simple: Client, tmp_path: Path) -> None:
    uri = (tmp_path / "a.symbiont").as_uri()
    (tmp_path / "a.symbiont").write_text("nothing {}\n")
    _folders(simple, tmp_path, None)
    simple.diagnostics(uri, "N201")
    assert all(message["method"] != "client/registerCapability" for message in simple.inbox)
    (tmp_path / "a.symbiont").write_text("policy p {}\n")
    simple.tell("textDocument/didSave", {"textDocument": {"uri": URI}})
    simple.diagnostics(uri, "N207")
    _folders(simple, None, tmp_path)
    assert simple.diagnostics(uri) == []
