"""Tables are readable on terminals of any width, and by programs."""

from __future__ import annotations

import pytest

from runtime.cli.terminal.output import colour_of
from runtime.cli.terminal.table import cell_width, print_rows

COLUMNS = ("delivery", "webhook", "state", "last error")
ROW = ("01a20239-79f4-70a9-b7df-a78caf90ddb3", "github-events", "dead", "")


def printed(capsys: pytest.CaptureFixture[str], *rows: tuple[str, ...], width: int | None) -> list[str]:
    print_rows(COLUMNS, rows, width=width, style=colour_of)
    return [line.rstrip() for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize("width", [None, 100])
def test_what_fits_is_a_line_for_each_row(capsys: pytest.CaptureFixture[str], width: int | None) -> None:
    other = (*ROW[:2], "done", "東京 [red]x[/red]\tand\nmore")
    head, rule, first, second = printed(capsys, ROW, other, width=width)
    assert head.split() == ["delivery", "webhook", "state", "last", "error"]
    assert set(rule) == {"─"}
    assert first.split() == list(ROW[:3])
    assert second.endswith("done    東京 [red]x[/red] and more")
    assert first.index("dead") == second.index("done") == head.index("state")


def test_one_long_cell_in_a_pipe_is_whole_and_lengthens_no_other_row(capsys: pytest.CaptureFixture[str]) -> None:
    long = "word " * 100 + "end"
    head, rule, first, second = printed(capsys, ("a", long, "dead", ""), ("b", "short", "done", ""), width=None)
    assert long in first
    assert second.split() == ["b", "short", "done"]
    assert max(map(len, (head, rule, second))) < 100
    assert second.index("done") == head.index("state")


def test_columns_line_up_below_wide_letters(capsys: pytest.CaptureFixture[str]) -> None:
    _, _, first, second = printed(capsys, ("東京", "a", "b", "c"), ("x", "a", "b", "c"), width=None)
    assert cell_width(first[: first.index("a")]) == second.index("a")


@pytest.mark.parametrize(
    ("ended", "colour"),
    [("answered", "green"), ("failed", "red"), ("max_steps", "yellow"), ("cancelled", "yellow"), ("?", "")],
)
def test_how_a_run_ended_has_a_colour(ended: str, colour: str) -> None:
    assert colour_of(ended) == colour


def test_a_table_that_nearly_fits_has_smaller_gaps(capsys: pytest.CaptureFixture[str]) -> None:
    for width in (73, 70, 67):
        lines = printed(capsys, ROW, width=width)
        assert (len(lines), max(map(cell_width, lines))) == (3, width)


def test_what_is_folded_loses_nothing_and_breaks_no_word(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, (*ROW[:3], "the agent did not answer in time"), width=70)
    assert all(cell_width(line) <= 70 for line in lines)
    words = [part for line in lines for part in line.split()]
    assert words[:5] == ["delivery", "webhook", "state", "last", "error"]
    assert {*ROW[:3], "the", "agent", "did", "not", "answer", "in", "time"} < set(words)


def test_a_terminal_that_is_much_too_narrow_has_a_block_for_each_row(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, ROW, (*ROW[:3], "no use"), width=30) == [
        "delivery    01a20239-79f4-70a9-b7df-a78caf90ddb3",
        "webhook     github-events",
        "state       dead",
        "",
        "delivery    01a20239-79f4-70a9-b7df-a78caf90ddb3",
        "webhook     github-events",
        "state       dead",
        "last error  no use",
    ]


def test_where_columns_would_be_narrow_and_rows_high_each_row_is_a_block(capsys: pytest.CaptureFixture[str]) -> None:
    limits = "100,000 tokens per day, $1.50 cost per day, 30 runs per hour"
    print_rows(("user", "id", "limits"), [("ada", ROW[0], limits), ("bob", ROW[0], limits)], width=50, style=colour_of)
    block = [f"id      {ROW[0]}", "limits  100,000 tokens per day, $1.50 cost per", " " * 8 + "day, 30 runs per hour"]
    assert capsys.readouterr().out.splitlines() == ["user    ada", *block, "", "user    bob", *block]


def test_no_line_is_wider_than_a_terminal_that_is_wider_than_the_words(capsys: pytest.CaptureFixture[str]) -> None:
    text = "a call waits for the approval of a person, who sees its arguments"
    for width in range(48, 150):
        assert max(map(cell_width, printed(capsys, (*ROW[:3], text), ROW, width=width))) <= width


def test_thousands_of_rows_are_not_laid_out_one_by_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runtime.cli.terminal.screen.rendered_lines", None)
    for width in (None, 30, 60, 100):
        assert len(printed(capsys, *[ROW] * 10_000, width=width)) >= 10_002
