"""A hit shows the passage that matches, and an id that can be copied."""

from __future__ import annotations

import os
import sys

import pytest

from runtime.cli.terminal.hits import print_hit

ID = "0195e7c0-7106-7e10-9f29-e0121ec3151f"
SOURCE = "file:///home/ada/docs/webhooks/limits-and-retries.md"
HEAD = [" 1", "0.934", "2026-02-14 12:00", "semantic", "#webhooks", "#limits"]


def shown(capsys: pytest.CaptureFixture[str], text: str, query: str, columns: int | None = None) -> list[str]:
    """Return the lines printed on a terminal of that width."""
    with pytest.MonkeyPatch.context() as patch:
        if columns is not None:
            patch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((columns, 24)))
            patch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
        print_hit(HEAD, [SOURCE, ID], text, query)
    return capsys.readouterr().out.splitlines()


def test_the_lines_that_have_most_words_of_the_question_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    lines = ["# Answers", *(f"Paragraph {n} is of something else." for n in range(20))]
    lines += ["The status 429 says that there were too many.", *(f"After that {n}." for n in range(20))]
    passage = shown(capsys, "\n".join(lines), "what does a status 429 mean")[1:]
    assert "    The status 429 says that there were too many." in passage
    assert passage[0] == passage[-2] == "    …"
    # One line before the match, the others after it.
    assert passage[1].strip() == "Paragraph 19 is of something else."
    assert passage[-3].strip() == "After that 3."


def test_a_text_that_has_the_words_in_two_places_shows_both(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"| {status} | something else |" for status in (202, 400, 401, 404, 408, 413, 429, 503)]
    text = "\n".join(["## What the answers mean", "| status | meaning |", "|---|---|", *rows])
    assert shown(capsys, text, "what does a status 429 mean")[1:] == [
        "    ## What the answers mean",
        "    | status | meaning |",
        "    |---|---|",
        "    …",
        "    | 413 | something else |",
        "    | 429 | something else |",
        "    | 503 | something else |",
        "",
    ]


def test_of_passages_with_as_many_words_the_first_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    text = "\n".join(f"The deploy number {n}." if n % 10 == 5 else f"Line {n}." for n in range(60))
    assert "    The deploy number 5." in shown(capsys, text, "deploy")


def test_a_text_without_a_word_of_the_question_is_shown_from_its_beginning(capsys: pytest.CaptureFixture[str]) -> None:
    passage = shown(capsys, "\n".join(f"Line {n}." for n in range(30)), "walrus")[1:]
    assert passage[0] == "    Line 0."


@pytest.mark.parametrize("columns", [80, 100, 120])
def test_an_id_stands_in_one_line_of_a_terminal(capsys: pytest.CaptureFixture[str], columns: int) -> None:
    lines = shown(capsys, "Some text.", "text", columns)
    assert sum(ID in line for line in lines) == 1
    assert all(len(line) <= columns for line in lines)
    assert any(SOURCE in line for line in lines)


def test_where_nobody_reads_a_hit_begins_with_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    first = shown(capsys, "Some text.", "text")[0]
    assert first.endswith(f"#limits  {SOURCE}  {ID}")
