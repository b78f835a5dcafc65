from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.memory.item import Item
from runtime.memory.markdown.items import log_items
from runtime.memory.markdown.text.annotation import Annotation
from runtime.memory.markdown.text.daily_log import DailyLog, closing_of, days, entry_of, header
from tests.cases import each_case
from tests.lanes import examples
from tests.runtime.memory.texts import WHEN, files, hard, item, items, logs, texts

DAY = date(2026, 2, 14)
DESIGN = """\
# Session Log: 2026-02-14

## 10:30 — Deployment Review
- Deployed v1.3.2
- User confirmed metrics looked normal

## 14:15 — Bug Report
- Issue #42: Memory leak in context manager
- Assigned to backlog
""".encode()


def test_the_designs_own_example_is_read() -> None:
    first, second = log_items("reviewer", DailyLog.parse(DAY, DESIGN))
    assert first.text == "Deployment Review\n- Deployed v1.3.2\n- User confirmed metrics looked normal"
    assert first.timestamp == datetime(2026, 2, 14, 10, 30, tzinfo=UTC)
    assert second.text.startswith("Bug Report\n- Issue #42")


def test_the_designs_own_example_is_written() -> None:
    first = item("Deployment Review\n- Deployed v1.3.2\n- User confirmed metrics looked normal")
    second = item("Bug Report\n- Issue #42: Memory leak in context manager\n- Assigned to backlog")
    times = [datetime(2026, 2, 14, 10, 30, tzinfo=UTC), datetime(2026, 2, 14, 14, 15, tzinfo=UTC)]
    written = [one.with_fields(timestamp=at) for one, at in zip((first, second), times, strict=True)]
    assert header(DAY) + b"".join(map(entry_of, written)) == DESIGN


@given(files)
def test_every_file_is_written_as_it_was_read(data: bytes) -> None:
    assert DailyLog.parse(DAY, data).data == data


@given(files, items())
def test_an_entry_behind_any_file_is_read_back_exactly(data: bytes, one: Item) -> None:
    one = one.with_fields(memory_type="episodic")
    log = DailyLog.parse(one.timestamp.date(), data + closing_of(data) + entry_of(one) + entry_of(one, "\r\n"))
    for found in log_items(one.agent_id, log)[-2:]:
        assert found.with_fields(memory_id="") == one


@given(files, hard, texts)
def test_an_edit_or_a_deletion_changes_one_entry_and_no_other_line(data: bytes, old: str, new: str) -> None:
    whole = data + closing_of(data) + entry_of(item(old, tags=("x",))) + entry_of(item("after"))
    log = DailyLog.parse(DAY, whole)
    entry = log.entries[-2]
    edited = DailyLog.parse(DAY, log.replacing(entry, new).data)
    assert [found.text for found in edited.entries[-2:]] == [new, "after"]
    assert edited.entries[-2].annotation == entry.annotation
    assert edited.entries[-2].at == WHEN
    assert log.without(entry).lines == log.lines[: entry.start] + log.lines[entry.end :]


def said(log: DailyLog) -> list[tuple[datetime, str, Annotation]]:
    """Return everything that a log contains about its entries."""
    return [(entry.at, entry.text, entry.annotation) for entry in log.entries]


@settings(max_examples=examples(400))
@given(logs, texts.filter(str.strip), st.data())
def test_an_edit_or_a_deletion_of_any_entry_hides_and_changes_no_other(
    data: bytes, new: str, choice: st.DataObject
) -> None:
    before = DailyLog.parse(DAY, b"## 09:00\n" + data)
    number = choice.draw(st.integers(0, len(before.entries) - 1))
    entry, others = before.entries[number], said(before)
    at, _, note = others.pop(number)
    without, edited = before.without(entry), before.replacing(entry, new)
    assert said(DailyLog.parse(DAY, without.data)) == others
    assert said(DailyLog.parse(DAY, edited.data)) == [*others[:number], (at, new, note), *others[number:]]


@given(logs, texts, st.sampled_from(["", "```", "~~~", "-->", "<!--", "text -->"]))
def test_no_entry_is_hidden_by_what_stands_before_and_behind_it(data: bytes, text: str, behind: str) -> None:
    one, other = (item(text, source_uri=f"https://{name}.example") for name in ("one", "other"))
    log = DailyLog.parse(DAY, data + closing_of(data) + entry_of(one) + f"\n{behind}\n".encode() + entry_of(other))
    assert [entry.annotation.source for entry in log.entries][-2:] == [one.source_uri, other.source_uri]


def test_a_heading_in_a_fence_or_a_comment_begins_no_entry() -> None:
    text = "## 10:30 — a\n```\n## 13:00 — x\n```\n<!--\n## 14:00 — y\n-->\n## 15:00 — b\n"
    assert [entry.text for entry in DailyLog.parse(DAY, text.encode()).entries] == [
        "a\n```\n## 13:00 — x\n```\n<!--\n## 14:00 — y\n-->",
        "b",
    ]


def test_a_fence_that_a_person_left_open_hides_no_entry_that_was_written_below() -> None:
    written = entry_of(item("one\n```\ncode\n```", source_uri="https://x.example")).decode()
    assert " ```\ncode\n ```\n" in written
    log = DailyLog.parse(DAY, f"## 09:00 — open\n```\ncode\n{written}## 11:00 — closed\n```\n".encode())
    assert [entry.text for entry in log.entries] == ["open\n```\ncode", "one\n```\ncode\n```", "closed\n```"]


@each_case(
    ("source", "found"),
    [
        ("## 9:05 - hyphen\n- a\n", [("09:05", "hyphen\n- a")]),
        ("## 10:30\n- no title\n", [("10:30", "\n- no title")]),
        ("## 10:30 no dash\n", [("10:30", "no dash")]),
        ("## 10:30 — one\n### deeper\n# up\n\n## Notes\n- no entry\n", [("10:30", "one\n### deeper\n# up")]),
        ("## 25:00 — no time\n## 10:61 — none either\n", []),
        ("## 10:30 — \r\n\r\n- crlf\r\n", [("10:30", "\n- crlf")]),
        ("## 10:30 — no newline", [("10:30", "no newline")]),
        ("", []),
    ],
)
def test_what_a_person_logs_is_read(source: str, found: list[tuple[str, str]]) -> None:
    entries = DailyLog.parse(DAY, source.encode()).entries
    assert [(entry.at.strftime("%H:%M"), entry.text) for entry in entries] == found


def test_a_time_that_a_person_changes_is_the_entrys_time() -> None:
    written = (header(DAY) + entry_of(item("a"))).replace(b"## 10:30", b"## 11:45")
    assert DailyLog.parse(DAY, written).entries[0].at == datetime(2026, 2, 14, 11, 45, tzinfo=UTC)


def test_an_entry_with_nothing_more_to_say_has_no_annotation() -> None:
    assert b"symbi" not in entry_of(item("a", timestamp=WHEN.replace(second=0, microsecond=0)))


def test_only_dates_that_exist_name_a_log() -> None:
    names = ["2026-02-14.md", "2026-02-30.md", "notes.md", "2026-02-13.md", "2026-02-14.md~", "٢٠٢٦-02-14.md"]
    assert days(names) == [DAY - timedelta(days=1), DAY]
