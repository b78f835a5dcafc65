"""The benchmark of thresholds runs on a small scale."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import relevance
from tests.bench.test_recall import dialogue


def test_recall_and_nonsense_are_measured_at_each_threshold(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "dialogues.jsonl"
    file.write_text(json.dumps(dialogue()) + "\n")
    given = ["--data", str(file), "--embedding", "none", "--texts", "20", "--threshold", "0", "--threshold", "0.55"]
    assert relevance.main([*given, "--json"]) == 0
    every, some = json.loads(capsys.readouterr().out)
    assert (every["threshold"], some["threshold"]) == (0, 0.55)
    assert every["recall_10"] >= some["recall_10"]
    assert every["recall_10"] > 0
    assert every["nonsense"] == 3 * len(relevance.NONSENSE) == 90
    assert len(every["nonsense_that_finds"]) > 0
    assert some["nonsense_that_finds"] == []


def test_a_file_that_is_not_there_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert relevance.main(["--data", str(tmp_path / "none.jsonl")]) == 2
    assert capsys.readouterr().err.startswith("bench.relevance: ")
