"""The front page: short, and its session is what the commands print."""

from __future__ import annotations

import re

from tests.docs.readme.session import BEGIN, END, PAGE, render, session
from tests.lanes import LONG

README = PAGE.read_text(encoding="utf-8")


def test_the_front_page_has_at_most_110_lines() -> None:
    assert len(README.splitlines()) <= 110


def test_a_session_is_written_between_its_marks() -> None:
    written = render(README, "$ symbi readiness")
    assert "\n```text\n$ symbi readiness\n```\n" in written
    assert (written.partition(BEGIN)[0], written.partition(END)[2]) == (
        README.partition(BEGIN)[0],
        README.partition(END)[2],
    )


@LONG
def test_the_session_on_the_front_page_is_what_the_commands_print() -> None:
    """Except for ids, times, and the last digits of a score."""
    shown = README.partition("```text\n")[2].partition("\n```")[0]
    assert _without_chance(session()) == _without_chance(shown)


def _without_chance(text: str) -> str:
    ids = re.sub(r"\b[0-9a-f]{8}-[0-9a-f]{4}", "ID", text)
    times = re.sub(r"\d{4}-\d\d-\d\d( \d\d:\d\d)?", "TIME", ids)
    return re.sub(r"(0\.\d)\d\d", r"\1", times)
