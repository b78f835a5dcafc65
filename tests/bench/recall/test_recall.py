"""The benchmark of recall runs on generated dialogues, and on LoCoMo's if they are available."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from bench.agents.conversations import message_of
from bench.harness.dialogues import Conversation, corpora, read
from bench.recall.__main__ import main
from bench.recall.constants import DEFAULT, constants, each_moved, grid, moved
from bench.recall.memory import opened_embedder
from runtime.errors import UsageError
from runtime.search.embedding import default_embedding
from runtime.search.engine import CANDIDATES
from runtime.threads.content import TextPart
from tests.bench.recall.dialogues import dialogue, written
from tests.lanes import LONG

DATA = os.environ.get("SYMBIONT_DATA")
here = pytest.mark.skipif(not DATA, reason="SYMBIONT_DATA is not set: the dialogues are not here")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return written(tmp_path / "dialogues.jsonl", dialogue())


def measured(file: Path, capsys: pytest.CaptureFixture[str], *more: str) -> dict[str, Any]:
    assert main(["--json", *more, "--data", str(file)]) == 0
    report = json.loads(capsys.readouterr().out)
    assert isinstance(report, dict)
    return report


def runs(report: dict[str, Any]) -> dict[str, Any]:
    [corpus] = report["corpora"]
    return {run["name"]: run["scores"] for run in corpus["runs"]}


def weights(report: dict[str, Any]) -> list[tuple[float | None, float | None]]:
    [corpus] = report["corpora"]
    return [(run["vector_weight"], run["keyword_weight"]) for run in corpus["runs"]]


def test_the_product_is_measured_beside_plain_fts5_and_plain_cosine(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = measured(file, capsys, "--embedding", "hashing")
    assert report["embedding"] == "hashing"
    assert list(runs(report)) == ["plain FTS5", "plain cosine", "search"]
    assert weights(report) == [(None, None), (None, None), DEFAULT]
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
    assert weights(report)[-1] == (0.25, 0.75)


def test_the_tool_of_agents_is_measured_beside_it(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    both = ("--through", "memory", "conversation_search")
    report = measured(file, capsys, "--embedding", "hashing", *both)
    assert list(runs(report))[-1] == "conversation_search"
    assert len(runs(report)) == 4
    alone = measured(file, capsys, "--embedding", "none", "--through", "conversation_search")
    assert list(runs(alone)) == ["conversation_search"]
    scores = runs(alone)["conversation_search"]
    assert (scores["together"]["queries"], scores["adversarial"]["queries"]) == (2, 1)
    assert scores["together"]["recall_5"] == 1


def test_what_users_and_assistants_say_is_stored_as_in_a_chat() -> None:
    line = dialogue()
    for turn, speaker in zip(line["items"], ("assistant", "user", "Ada", "assistant", "Ben"), strict=True):
        turn["speaker"] = speaker
    turns = Conversation.model_validate(line).items
    stored = [message_of(turn, "assistant") for turn in turns]
    assert [message.role for message in stored] == ["assistant", "user", "assistant", "assistant", "assistant"]
    texts = (turns[0].said, turns[1].said, turns[2].script)
    assert [message.parts for message in stored[:3]] == [(TextPart(text),) for text in texts]
    assert message_of(turns[2], "Ada").role == "user"


def test_there_is_a_row_for_each_source_and_way_of_searching(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = written(tmp_path / "here.jsonl", dialogue("Talk-1"), dialogue("Talk-2"))
    known = written(
        tmp_path / "known.jsonl",
        dialogue("Talk-1", source="Talks", licence="CC BY 4.0"),
        dialogue("Talk-1", source="Letters"),
    )
    assert main(["--embedding", "none", "--data", str(here), str(known)]) == 0
    shown = capsys.readouterr().out
    for name in ("here.jsonl (source not given)", "Talks", "Letters"):
        for way in ("questions | ", "plain FTS5 | 0.500 | ", "search 0/1 | 1.000 | "):
            assert f"| {name} | {way}" in shown
    assert "\nTalks, licence: CC BY 4.0.\n" in shown
    assert "\nLetters, licence: not given.\n" in shown


def test_a_file_that_is_given_twice_is_refused(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--embedding", "none", "--data", str(file), str(file)]) == 2
    assert "a conversation Talk-1 of dialogues.jsonl (source not given) was read before" in capsys.readouterr().err


def test_all_licences_of_a_source_are_named(tmp_path: Path) -> None:
    lines = [
        dialogue(f"Talk-{number}", source="Talks", licence=licence) for number, licence in enumerate(("A", "B", "A"))
    ]
    [corpus] = corpora([written(tmp_path / "talks.jsonl", *lines)])
    assert corpus.described == "Talks, licence: A and B"


def test_groups_show_the_search_beside_what_it_is_compared_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path / "talks.jsonl", dialogue("Talk-1", kind="update", source="Talks"))
    assert main(["--embedding", "hashing", "--by", "category", "kind", "conversation", "--data", str(file)]) == 0
    shown = capsys.readouterr().out
    for group in ("category | questions", "adversarial | 1", "kind | questions", "update | 2", "Talk-1 | 2"):
        assert f"| {group} | " in shown
    assert "recall@10 plain FTS5 | recall@10 plain cosine | recall@10 search | recall@10 difference" in shown


def test_constants_are_moved_and_chosen_in_one_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, before = written(tmp_path / "talks.jsonl", dialogue("Talk-1"), dialogue("Talk-2")), constants(DEFAULT)
    report = measured(file, capsys, "--embedding", "hashing", "--vary", "AUTHOR", "ANSWER", "--leave-one-out")
    [corpus] = report["corpora"]
    assert constants(DEFAULT) == before == report["constants"]
    varied = each_moved(["AUTHOR", "ANSWER"], DEFAULT)
    assert [each["setting"] for each in corpus["moved"]] == [dict(setting) for setting in varied]
    assert all(each["scores"]["together"]["queries"] == 4 for each in corpus["moved"])
    settings = {*varied, *grid(None, DEFAULT)}
    assert corpus["searches_in_settings"]["number"] == (len(settings) - 1) * 8
    assert sum(each["times"] for each in report["leave_one_out"]["chosen"]) == 2
    assert report["leave_one_out"]["corpora"][0]["scores"]["together"]["queries"] == 4


def test_tables_show_the_effect_of_each_constant(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path / "talks.jsonl", dialogue("Talk-1", source="Talks"), dialogue("Talk-2", source="Talks"))
    (grid_file := tmp_path / "grid.json").write_text('{"DATE": [0.35]}')
    given = ["--embedding", "none", "--vary", "DATE", "--leave-one-out", str(grid_file), "--data", str(file)]
    assert main(given) == 0
    shown = capsys.readouterr().out
    date = constants(DEFAULT)["DATE"]
    for to in moved("DATE", date):
        assert f"| DATE | {date:g} | {to:g} | Talks | 0 | 0 | 0 |" in shown
    assert "| Talks | chosen on all other conversations | 1.000 |" in shown
    assert "Chosen (times): as it is (2)." in shown
    assert "searches in other settings took" in shown


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (["--vary", "COLOUR"], "the scoring has no constant COLOUR"),
        (["--leave-one-out", "no-grid.json"], "no-grid.json cannot be read"),
        (["--vary", "--through", "conversation_search"], "constants are moved in searches of the memory"),
        (["--leave-one-out"], "one conversation cannot be left out"),
    ],
)
def test_a_wrong_option_is_one_line_and_exit_code_2(
    file: Path, capsys: pytest.CaptureFixture[str], given: list[str], reason: str
) -> None:
    assert main(["--embedding", "none", *given, "--data", str(file)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.splitlines()) == 1
    assert reason in said.err


async def test_a_question_is_embedded_once() -> None:
    embedder = await opened_embedder("hashing")
    assert embedder is not None
    assert await embedder.embed_question("where is it") is await embedder.embed_question("where is it")
    await embedder.close()


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
    assert main(["--data", str(path), "--embedding", "none"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.splitlines()) == 1
    assert reason in said.err
    assert str(path) in said.err


def test_weights_that_find_nothing_are_one_line_and_exit_code_2(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    weights = ("--vector-weight", "0", "--keyword-weight", "0")
    assert main(["--data", str(file), "--embedding", "hashing", *weights]) == 2
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
    assert scores["search"]["together"]["recall_10"] >= 0.77
    assert scores["search"]["together"]["ndcg_10"] >= 0.60
    assert scores["search"]["adversarial"]["recall_10"] >= 0.78
    for plain in ("plain cosine", "plain FTS5"):
        assert scores["search"]["together"]["recall_10"] > scores[plain]["together"]["recall_10"]
