"""The benchmark of recall runs on generated dialogues, and on LoCoMo's if they are available."""

from __future__ import annotations

import json
import os
from math import log2
from pathlib import Path
from typing import Any

import pytest

from bench import recall
from bench.harness.dialogues import ORIGIN, Query, read, score
from runtime.errors import UsageError
from runtime.search.embedding import default_embedding
from runtime.search.engine import CANDIDATES
from tests.lanes import LONG

DATA = os.environ.get("SYMBIONT_DATA")
here = pytest.mark.skipif(not DATA, reason="SYMBIONT_DATA is not set: the dialogues are not here")

SAID = [
    ("1", 1, "Ada", "What became of the old lighthouse?", None),
    ("2", 1, "Ben", "They sold it to a painter from Bergen.", "a photo of a white tower"),
    ("3", 1, "Ada", "The cat had kittens, four of them.", None),
    ("4", 2, "Ben", "My bicycle was stolen from the station.", None),
    ("5", 2, "Ada", "Take mine, I go on foot.", None),
]
ASKED = [
    ("How many kittens did Ada's cat have?", "single_hop", ["3"]),
    ("Who bought the lighthouse?", "multi_hop", ["2"]),
    ("What was stolen from Ada?", "adversarial", ["4"]),
    ("Who has no evidence?", "temporal", []),
]


def dialogue() -> dict[str, Any]:
    """Return one conversation, as a line of a file."""
    return {
        "conv": "Talk-1",
        "items": [
            {
                "id": id_,
                "session": session,
                "iso": f"2024-03-0{session}T10:00:00",
                "speaker": who,
                "text": text,
                "caption": caption,
            }
            for id_, session, who, text, caption in SAID
        ],
        "queries": [{"q": text, "cat": category, "evidence": evidence} for text, category, evidence in ASKED],
    }


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "dialogues.jsonl"
    path.write_text(json.dumps(dialogue()) + "\n", encoding="utf-8")
    return path


def measured(file: Path, capsys: pytest.CaptureFixture[str], *more: str) -> dict[str, Any]:
    assert recall.main(["--data", str(file), "--json", *more]) == 0
    report = json.loads(capsys.readouterr().out)
    assert isinstance(report, dict)
    return report


def runs(report: dict[str, Any]) -> dict[str, Any]:
    return {run["name"]: run["scores"] for run in report["runs"]}


def test_recall_is_the_share_of_the_evidence_among_the_first() -> None:
    query = Query(q="?", cat="temporal", evidence=["a", "b", "c", "d"])
    found = score([(query, ["a", "x", "x", "x", "x", "b", "x", "x", "x", "x"])])["temporal"]
    assert (found.queries, found.recall_5, found.recall_10) == (1, 0.25, 0.5)


def test_ndcg_counts_how_far_up_the_evidence_is() -> None:
    query = Query(q="?", cat="temporal", evidence=["a", "b"])
    ideal = 1 + 1 / log2(3)
    assert score([(query, ["b", "a"])])["temporal"].ndcg_10 == pytest.approx(1)
    assert score([(query, ["x", "a"])])["temporal"].ndcg_10 == pytest.approx(1 / log2(3) / ideal)
    assert score([(query, [])])["temporal"].ndcg_10 == 0


def test_a_short_ranking_is_measured_against_all_of_the_evidence() -> None:
    query = Query(q="?", cat="temporal", evidence=["a", "b"])
    assert score([(query, ["a"])])["temporal"].ndcg_10 == pytest.approx(1 / (1 + 1 / log2(3)))


def test_adversarial_questions_are_averaged_apart() -> None:
    good, bad = (Query(q="?", cat=category, evidence=["a"]) for category in ("single_hop", "adversarial"))
    found = score([(good, ["a"]), (bad, ["b"])])
    assert found["together"].recall_10 == 1
    assert found["adversarial"].recall_10 == 0


def test_the_product_is_measured_beside_plain_fts5_and_plain_cosine(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = measured(file, capsys, "--embedding", "hashing")
    assert report["embedding"] == "hashing"
    assert report["data"] == {"origin": ORIGIN, "licence": "CC BY-NC 4.0"}
    assert list(runs(report)) == ["plain FTS5", "plain cosine", "search, default", "search, recommended"]
    assert [(run["vector_weight"], run["keyword_weight"]) for run in report["runs"]] == [
        (None, None),
        (None, None),
        (0.7, 0.3),
        (0.6, 0.4),
    ]
    for scores in runs(report).values():
        assert scores["together"]["queries"] == 2
        assert scores["adversarial"]["queries"] == 1
        assert "temporal" not in scores


def test_without_an_embedding_only_words_are_measured(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = measured(file, capsys, "--embedding", "none")
    assert report["embedding"] is None
    assert list(runs(report)) == ["plain FTS5", "search"]
    assert runs(report)["search"]["together"]["recall_5"] == 1


def test_weights_that_are_given_are_measured_alone(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = measured(file, capsys, "--embedding", "hashing", "--vector-weight", "0.25")
    assert [run["keyword_weight"] for run in report["runs"]] == [None, None, 0.75]


def test_the_tool_of_agents_is_measured_beside_it(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    both = ("--through", "memory", "conversation_search")
    report = measured(file, capsys, "--embedding", "hashing", *both)
    assert list(runs(report))[-1] == "conversation_search"
    assert len(report["runs"]) == 5
    alone = measured(file, capsys, "--embedding", "none", "--through", "conversation_search")
    assert list(runs(alone)) == ["conversation_search"]
    scores = runs(alone)["conversation_search"]
    assert (scores["together"]["queries"], scores["adversarial"]["queries"]) == (2, 1)
    assert scores["together"]["recall_5"] == 1


def test_the_table_names_whose_the_dialogues_are(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert recall.main(["--data", str(file), "--embedding", "none"]) == 0
    shown = capsys.readouterr().out
    assert "LoCoMo" in shown
    assert "CC BY-NC 4.0" in shown


@LONG
def test_how_long_searches_take_is_measured_beside_it(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, few in (("ITEMS", CANDIDATES + 1), ("QUERIES", 2), ("ROUNDS", 1)):
        monkeypatch.setattr(f"bench.search.{name}", few)
    report = measured(file, capsys, "--embedding", "none", "--latency")
    assert {"embedding", "rows_ms", "ratios"} <= report["latency"].keys()
    assert any("hybrid p95" in ratio["name"] for ratio in report["latency"]["ratios"])


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "cannot be read"),
        (b"", "has no dialogues"),
        (b"\xff\xfe", "it is not UTF-8"),
        (b"{}\n", ":1 is not a dialogue: conv"),
        (b'\n{"conv": "a", "items": [], "queries": []}', ":2 is not a dialogue: it has no items"),
        (b"not json", ":1 is not a dialogue"),
    ],
)
def test_a_wrong_file_is_one_line_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | None, reason: str
) -> None:
    path = tmp_path / "wrong.jsonl"
    if content is not None:
        path.write_bytes(content)
    assert recall.main(["--data", str(path), "--embedding", "none"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.splitlines()) == 1
    assert reason in said.err
    assert str(path) in said.err


def test_weights_that_find_nothing_are_one_line_and_exit_code_2(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    weights = ("--vector-weight", "0", "--keyword-weight", "0")
    assert recall.main(["--data", str(file), "--embedding", "hashing", *weights]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        read(tmp_path)


@pytest.fixture
def beginning(tmp_path: Path) -> Path:
    """Return the beginning of LoCoMo's shortest conversation, so that a test takes seconds; docs/search.md has the
    figures of all five."""
    lines = (Path(str(DATA)) / "locomo_dev.jsonl").read_text(encoding="utf-8").splitlines()
    conversation = json.loads(min(lines, key=len))
    conversation["items"] = conversation["items"][:160]
    ids = {turn["id"] for turn in conversation["items"]}
    conversation["queries"] = [query for query in conversation["queries"] if ids.issuperset(query["evidence"])]
    path = tmp_path / "beginning.jsonl"
    path.write_text(json.dumps(conversation), encoding="utf-8")
    return path


@here
def test_by_keyword_alone_three_of_four_come_back(beginning: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scores = runs(measured(beginning, capsys, "--embedding", "none"))["search"]
    assert scores["together"]["recall_10"] >= 0.75
    assert scores["together"]["ndcg_10"] >= 0.60
    assert scores["adversarial"]["recall_10"] >= 0.85


@LONG
@here
@pytest.mark.skipif(default_embedding() is None, reason="the embedding local is not installed")
def test_with_meaning_more_comes_back(beginning: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scores = runs(measured(beginning, capsys))
    for name in ("search, default", "search, recommended"):
        assert scores[name]["together"]["recall_10"] >= 0.77
        assert scores[name]["together"]["ndcg_10"] >= 0.60
        assert scores[name]["adversarial"]["recall_10"] >= 0.78
        for plain in ("plain cosine", "plain FTS5"):
            assert scores[name]["together"]["recall_10"] > scores[plain]["together"]["recall_10"]
