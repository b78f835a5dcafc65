"""The benchmark of thresholds runs on a small scale."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from bench import relevance
from bench.harness.dialogues import corpora
from tests.bench.recall.dialogues import dialogue, written


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("relevance") / "dialogues.jsonl"
    file = written(path, dialogue("Talk-1"), dialogue("Talk-1", source="Talks"))
    return asyncio.run(relevance.measure(corpora([file]), "none", (0, 0.55), 20))


def test_recall_and_nonsense_are_measured_at_each_threshold(report: dict[str, Any]) -> None:
    every, other, some, _ = report["thresholds"]
    assert (every["threshold"], some["threshold"]) == (0, 0.55)
    assert (every["corpus"], other["corpus"]) == ("dialogues.jsonl (source not given)", "Talks")
    assert every["recall_10"] >= some["recall_10"]
    assert every["recall_10"] > 0
    assert every["nonsense"] == 4 * len(relevance.NONSENSE) == 120
    assert len(every["nonsense_that_finds"]) > 0
    assert some["nonsense_that_finds"] == []


def test_each_measure_of_fit_has_the_threshold_that_no_nonsense_passes(report: dict[str, Any]) -> None:
    rows = report["measures"]
    assert [row["measure"] for row in rows[::4]] == list(relevance.measures_of_fit())
    for none, _, one_in_a_hundred, _ in zip(*[iter(rows)] * 4, strict=True):
        assert none["nonsense_that_finds"] == []
        assert len(one_in_a_hundred["nonsense_that_finds"]) <= 1
        assert one_in_a_hundred["threshold"] <= none["threshold"]
    by_words = {row["measure"]: row for row in rows[::4]}["keyword_share"]
    assert by_words["threshold"] > 0
    assert by_words["recall_10"] > 0


def test_the_tables_have_a_row_for_each_corpus(report: dict[str, Any]) -> None:
    shown = relevance.table(report)
    assert "| Talks | 0.55 | " in shown
    assert "| keyword_share | Talks | " in shown
    assert shown.count("| Talks | ") == 2 + 2 * len(relevance.measures_of_fit())


def test_every_number_of_a_hit_but_its_score_is_a_measure_of_fit() -> None:
    assert {"relevance", "cosine", "keyword_share"} <= set(relevance.measures_of_fit())
    assert not {"score", "parts", "item"} & set(relevance.measures_of_fit())


def test_a_file_that_is_not_there_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert relevance.main(["--data", str(tmp_path / "none.jsonl")]) == 2
    assert capsys.readouterr().err.startswith("bench.relevance: ")
