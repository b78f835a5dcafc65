"""Positions in the encoding that the client prefers, in both directions, with `é😀` before the token."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.dslc.language_server.client import Client, span

_WIDTH = {"utf-8": 6, "utf-16": 3, "utf-32": 2}  # of `é😀`
URI = "untitled:encoded"
_TEXT = 'agent "é😀" {} agent here { memory m }\n# é😀\nmemory m {}\n'


@pytest.fixture(params=list(_WIDTH))
def client(request: pytest.FixtureRequest, servers: Callable[[str], Client]) -> Iterator[Client]:
    made = servers(request.param)
    made.open(URI, "")
    yield made
    made.close(URI)


@pytest.fixture
def width(client: Client) -> int:
    return _WIDTH[str(client.answer["capabilities"]["positionEncoding"])]


def test_the_first_encoding_that_is_known_is_taken(client: Client, request: pytest.FixtureRequest) -> None:
    assert client.answer["capabilities"]["positionEncoding"] == request.node.callspec.params["client"]


def test_ranges_out(client: Client, width: int) -> None:
    client.change(URI, {"text": _TEXT})
    found = client.diagnostics(URI, "N206", "R302")
    assert [diagnostic["range"] for diagnostic in found] == [span(0, 6, 8 + width), span(0, 18 + width, 22 + width)]


def test_positions_in(client: Client, width: int) -> None:
    client.change(URI, {"text": _TEXT})
    assert client.at("definition", URI, 0, 32 + width) == [{"uri": URI, "range": span(2, 7, 8)}]
    assert client.at("definition", URI, 0, 30 + width) == []
    used = client.at("references", URI, 2, 7, context={"includeDeclaration": False})
    assert [place["range"] for place in used] == [span(0, 32 + width, 33 + width)]


def test_changes_in(client: Client, width: int) -> None:
    client.change(URI, {"text": _TEXT})
    client.change(
        URI,
        {"range": span(0, 32 + width, 33 + width), "text": "é😀n"},
        {"range": span(0, 32 + width, 32 + 2 * width), "text": ""},
        {"range": span(2, 7, 8), "text": "n"},
    )
    assert client.at("definition", URI, 0, 32 + width) == [{"uri": URI, "range": span(2, 7, 8)}]
    edits = client.at("rename", URI, 2, 7, newName="k")["documentChanges"][0]["edits"]
    assert [edit["range"] for edit in edits] == [span(2, 7, 8), span(0, 32 + width, 33 + width)]


def test_edits_out(client: Client, width: int) -> None:
    client.change(URI, {"text": 'agent a {} # é😀\nagent "é😀" {} agent = b {}\n'})
    actions = client.about("codeAction", URI, range=span(1, 18 + width, 18 + width), context={"diagnostics": []})
    [fix] = [action for action in actions if action.get("isPreferred")]
    assert fix["edit"]["documentChanges"][0]["edits"] == [{"range": span(1, 18 + width, 20 + width), "newText": ""}]


def test_completion_in_and_out(client: Client, width: int) -> None:
    client.change(URI, {"text": 'agent "é😀" { mem }\n'})
    items = client.at("completion", URI, 0, 14 + width)["items"]
    assert next(item for item in items if item["label"] == "memory")["textEdit"]["range"] == span(
        0, 11 + width, 14 + width
    )


def test_a_line_ends_where_the_protocol_says(client: Client) -> None:
    client.change(URI, {"text": "# \u2028 \x0c \x85\r\nnothing {}\r\n"})
    assert client.diagnostics(URI, "N201")[0]["range"] == span(1, 0, 7)
