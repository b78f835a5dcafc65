"""Questions about public documentation become a file of dialogues, whatever the size of a chunk."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from bench.harness import documentation
from bench.harness.dialogues import Conversation, read
from bench.harness.documentation import QUESTIONS, SETS, main, questions
from bench.recall.__main__ import main as measure
from bench.recall.memory import remembered

PAGES = {
    "install.rst": "Install\n=======\n\nA pump needs a valve of brass.\n\nTighten it by hand,\nnever with a wrench.\n",
    "use/daily.rst": "Use\n===\n\nOpen the valve slowly. Water flows after a minute.\n\nClose it at night.\n",
}
ASKED = {
    "about": "pump",
    "q": "May I use a tool to fasten the valve?",
    "cat": "single_hop",
    "kind": "paraphrased",
    "evidence": {"install.rst": ["hand, never with"]},
}
BOTH = ASKED | {"cat": "multi_hop", "evidence": {"use/daily.rst": ["after a minute"], "install.rst": ["of brass"]}}


class Bench:
    """A release of one documentation set, and questions about it."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.source, self.output, self.questions = folder / "source", folder / "out.jsonl", folder / "questions.jsonl"
        self._capsys = capsys
        for path, text in PAGES.items():
            self.write(path, text)

    def write(self, path: str, text: str) -> None:
        page = self.source / "pump" / "docs" / path
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(text, encoding="utf-8")

    def ask(self, *asked: dict[str, Any]) -> None:
        self.questions.write_text("".join(json.dumps(each) + "\n" for each in asked), encoding="utf-8")

    def built(self, *more: str) -> Conversation:
        assert main(["--source", str(self.source), "--output", str(self.output), *more]) == 0
        [found] = read(self.output)
        return found

    def refused(self) -> str:
        """Return the one line that says why no file is written."""
        assert main(["--source", str(self.source), "--output", str(self.output)]) == 2
        said = self._capsys.readouterr()
        assert (said.out, len(said.err.splitlines())) == ("", 1)
        assert not self.output.is_file()
        return said.err


@pytest.fixture
def bench(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Bench:
    found = Bench(tmp_path, capsys)
    content = b"".join(f"{path}\0{len(text)}\0{text}".encode() for path, text in PAGES.items())
    given = replace(
        SETS[0], name="pump", repository="example.org/pump", pages="docs", sha256=sha256(content).hexdigest()
    )
    monkeypatch.setattr(documentation, "SETS", (given,))
    monkeypatch.setattr(documentation, "QUESTIONS", found.questions)
    found.ask(ASKED, BOTH)
    return found


def test_pages_become_sessions_and_their_chunks_items_without_a_speaker(bench: Bench) -> None:
    found = bench.built("--chunk", "60")
    assert [(item.id, item.session) for item in found.items] == [
        ("install.rst#1", 1),
        ("install.rst#2", 1),
        ("use/daily.rst#1", 2),
        ("use/daily.rst#2", 2),
    ]
    assert [item.text in PAGES[item.id.partition("#")[0]] for item in found.items] == [True] * 4
    assert {item.speaker for item in found.items} == {""}
    assert [item.time for item in found.items] == sorted({item.time for item in found.items})


def test_a_line_names_its_source_and_licence(bench: Bench) -> None:
    bench.built()
    line = json.loads(bench.output.read_text())
    assert (line["conv"], line["licence"]) == ("pump", SETS[0].licence)
    assert "example.org/pump" in line["source"]
    assert SETS[0].commit[:12] in line["source"]


@pytest.mark.parametrize(
    ("size", "evidence"),
    [("60", ["install.rst#2"]), ("40", ["install.rst#3"]), ("1000", ["install.rst#1"])],
)
def test_the_evidence_is_where_the_anchor_begins_whatever_the_size_of_a_chunk(
    bench: Bench, size: str, evidence: list[str]
) -> None:
    found = bench.built("--chunk", size)
    assert found.queries[0].evidence == evidence
    texts = {item.id: item.text for item in found.items}
    assert "hand" in texts[evidence[0]]


def test_evidence_may_be_on_more_than_one_page(bench: Bench) -> None:
    assert bench.built().queries[1].evidence == ["use/daily.rst#1", "install.rst#1"]


def test_an_anchor_in_an_overlap_has_two_chunks_as_its_evidence(bench: Bench) -> None:
    bench.ask(ASKED | {"evidence": {"use/daily.rst": ["Water flows"]}})
    found = bench.built("--chunk", "60", "--overlap", "30")
    texts = {item.id: item.text for item in found.items}
    assert len(found.queries[0].evidence) == 2
    assert all("Water flows" in texts[id_] for id_ in found.queries[0].evidence)


def test_the_file_is_measured_as_dialogues_are(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    bench.built()
    capsys.readouterr()
    assert measure(["--data", str(bench.output), "--embedding", "none", "--json"]) == 0
    [corpus] = json.loads(capsys.readouterr().out)["corpora"]
    assert [run["scores"]["together"]["queries"] for run in corpus["runs"]] == [2, 2]


def test_passages_without_a_speaker_have_no_author(bench: Bench) -> None:
    items = remembered(bench.built())
    assert [item.provenance.author for item in items] == [None, None]
    assert [item.provenance.session_id for item in items] == ["pump/1", "pump/2"]


def test_pages_of_another_release_are_refused_with_both_hashes(bench: Bench) -> None:
    bench.write("install.rst", PAGES["install.rst"].replace("brass", "steel"))
    line = bench.refused()
    assert f"{bench.source / 'pump' / 'docs'} does not have the pages of example.org/pump" in line
    assert documentation.SETS[0].sha256 in line
    assert SETS[0].commit in line


def test_a_page_more_is_another_release(bench: Bench) -> None:
    bench.write("more.rst", "More\n")
    assert "3 pages" in bench.refused()


def test_a_folder_that_is_not_there_is_another_release(bench: Bench) -> None:
    bench.source = bench.source / "missing"
    assert "0 pages" in bench.refused()


@pytest.mark.parametrize(
    ("evidence", "reason"),
    [
        ({"install.rst": ["with a hammer"]}, "the anchor of question 2, 'with a hammer', occurs 0 times on the page"),
        ({"use/daily.rst": ["at"]}, "the anchor of question 2, 'at', occurs 2 times on the page use/daily.rst"),
        ({"gone.rst": ["brass"]}, "question 2 names the page gone.rst, which pump does not have"),
    ],
)
def test_an_anchor_that_is_not_there_exactly_once_is_one_line(
    bench: Bench, evidence: dict[str, list[str]], reason: str
) -> None:
    bench.ask(ASKED, ASKED | {"evidence": evidence})
    assert reason in bench.refused()


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"cat": "hard"}, ":2 is not a question: cat"),
        ({"evidence": {}}, ":2 is not a question: evidence"),
        ({"evidence": {"install.rst": []}}, ":2 is not a question: evidence.install.rst"),
        ({"about": "pipe"}, ":2 is about pipe, which is none of: pump"),
    ],
)
def test_a_line_that_is_no_question_is_named(bench: Bench, wrong: dict[str, Any], reason: str) -> None:
    bench.ask(ASKED, ASKED | wrong)
    assert reason in bench.refused()


def test_an_output_that_cannot_be_written_is_one_line(bench: Bench) -> None:
    bench.output = bench.source
    assert str(bench.source) in bench.refused()


def test_chunks_without_characters_are_refused(bench: Bench) -> None:
    with pytest.raises(SystemExit) as stopped:
        bench.built("--chunk", "0")
    assert stopped.value.code == 2


def test_there_are_two_hundred_questions_a_third_of_each_kind() -> None:
    asked = [each for _, each in questions(QUESTIONS)]
    assert len({(each.about, each.q) for each in asked}) == len(asked) >= 220
    kinds = Counter(each.kind for each in asked)
    assert all(count >= len(asked) / 4 for count in kinds.values())
    assert len(kinds) == 3


def test_anchors_are_too_short_to_be_a_copy_of_the_text() -> None:
    anchors = [anchor for _, each in questions(QUESTIONS) for page in each.evidence.values() for anchor in page]
    assert max(len(anchor.split()) for anchor in anchors) <= 9
