"""Text that resembles an item is reported; text that is clearly not meant as an item is not."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from hypothesis import given

from runtime.memory.markdown.store import MarkdownStore
from runtime.memory.markdown.unread import unread_texts
from tests.runtime.memory.texts import documents, files, logs

DAY = date(2026, 2, 14)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("# Agent Memory: a\n\nProse.\n\n## Facts\n- a\n  1. deeper\n\n## Mine\n1. mine\n - mine\n", []),
        ("## Learned patterns:\n- a\n", [1]),
        ("# Facts\n- a\n", [1]),
        ("## Facts\n### Facts\n- a\n", []),
        ("Facts\n-----\n- a\n\n**Procedures:**\n===\n- b\n", [1, 5]),
        ("## Procedures\n1. one\n2) two\n", [2]),
        ("## Procedures\n\n  - indented\n", [3]),
        ("## Facts\n```\n1. code\n## Learned patterns:\n```\n* * *\n", []),
    ],
)
def test_what_a_memory_holds_that_is_no_item_is_named(text: str, lines: list[int]) -> None:
    assert [each.line for each in unread_texts("reviewer", None, text.encode())] == lines


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("# Session Log: 2026-02-14\n\n<!-- mine -->\n\n## 10:30 — a\n- b\n1. c\n", []),
        ("# Session Log\n\ntext\n\n## 10:30 — a\n", [3]),
        ("## Deployment\n- a\n\n## 10:30 — b\n\n## 10:31: title\n\n## 25:00 — no time\n", [1]),
        ("## 10:30 — a\n```\n## 13:00 — b\n```\n", []),
        ("## 10:30 — a\n```\n- [fact] b\n```\n", [3]),
    ],
)
def test_what_a_log_holds_that_is_no_entry_is_named(text: str, lines: list[int]) -> None:
    assert [each.line for each in unread_texts("reviewer", DAY, text.encode())] == lines


@given(documents | files, logs | files)
def test_any_file_is_looked_through(memory: bytes, log: bytes) -> None:
    for each in (*unread_texts("reviewer", None, memory), *unread_texts("reviewer", DAY, log)):
        assert each.message.startswith(f"line {each.line}")


async def test_stats_and_verify_name_it_with_file_and_line(store: MarkdownStore, folder: Path) -> None:
    (folder / "logs").mkdir(parents=True)
    (folder / "memory.md").write_text("## Learned patterns:\n- a\n\n## Procedures\n1. b\n2. c\n")
    (folder / "logs" / "2026-02-14.md").write_text("## Deployment\n- a\n\n## Notes\n- b\n")
    for problems in ((await store.stats()).problems, (await store.verify("reviewer"))[1]):
        assert [(Path(problem.file).name, problem.line, problem.severity) for problem in problems] == [
            ("memory.md", 1, "warning"),
            ("memory.md", 5, "warning"),
            ("2026-02-14.md", 1, "warning"),
        ]
        assert "and 1 more" in problems[1].message
        assert "and 1 more" in problems[2].message
