"""The state after a killed writer, a lost tail, or several writers at once."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from runtime.memory.item import Item, delivery_uri
from runtime.memory.markdown.agent_memory import AgentMemory
from runtime.memory.markdown.compaction import compact
from runtime.memory.markdown.store import MarkdownStore
from tests.clocks import ManualClock
from tests.lanes import LONG, first_of
from tests.runtime.memory import faults, writer
from tests.runtime.memory.markdown.faults import begin_logs
from tests.runtime.memory.texts import WHEN, fact, item

pytestmark = LONG

CASES = "tests.runtime.memory.markdown.faults"
LOG = f"{WHEN.date().isoformat()}.md"


@first_of(
    "text",
    [
        "Review\n- one\n- zwei 日本\n```\ncode\n```\n<!-- a comment -->\n- end",
        "## 10:30 — hidden\n## deeper -->\r\n",
        "A title alone",
    ],
)
def test_a_log_cut_anywhere_in_its_last_entry_takes_the_next_one_and_the_same_again(
    text: str, tmp_path: Path, clock: ManualClock
) -> None:
    first = item("First\n- kept", source_uri=delivery_uri("first"))
    last = item(text, source_uri=delivery_uri("last"), tags=("é",))
    after = item("After\n```\nnot closed", source_uri=delivery_uri("after"))
    AgentMemory(tmp_path, "reviewer", clock).perform([(first,)])
    log = tmp_path / "reviewer" / "logs" / LOG
    whole = len(log.read_bytes())
    AgentMemory(tmp_path, "reviewer", clock).perform([(last,)])
    data = log.read_bytes()
    for cut in range(whole, len(data) + 1):
        log.write_bytes(data[:cut])
        AgentMemory(tmp_path, "reviewer", clock).perform([(after,)])
        AgentMemory(tmp_path, "reviewer", clock).perform([(last, first, after)])
        assert log.read_bytes().startswith(data[:cut])
        found = {found.source_uri: found.text for found in read(tmp_path) if found.source_uri}
        assert found == {one.source_uri: one.text for one in (first, last, after)}


def read(root: Path) -> list[Item]:
    async def scan() -> list[Item]:
        store = MarkdownStore(root)
        found = [one async for one in store.scan()]
        await store.close()
        return found

    return asyncio.run(scan())


def test_the_zeros_that_a_power_cut_leaves_at_the_end_of_a_log_are_cut_off(tmp_path: Path, clock: ManualClock) -> None:
    agent_memory = AgentMemory(tmp_path, "reviewer", clock)
    agent_memory.perform([(item("One"),)])
    log = tmp_path / "reviewer" / "logs" / LOG
    log.write_bytes(log.read_bytes() + bytes(10_000))
    agent_memory.perform([(item("Two"),)])
    assert b"\0" not in log.read_bytes()
    assert [one.text for one in read(tmp_path)] == ["One", "Two"]


async def test_several_processes_and_tasks_that_write_at_once_lose_nothing(store: MarkdownStore) -> None:
    writers = [writer.start("markdown", store.root, 1000 * number, 60) for number in range(3)]
    await asyncio.gather(*(writer.remember(store, 9000 + number) for number in range(60)))
    assert [one.wait() for one in writers] == [0, 0, 0]
    written = [1000 * process + number for process in (0, 1, 2, 9) for number in range(60)]
    assert await writer.titles(store) == writer.titles_of(written)


async def test_a_writer_that_is_killed_loses_nothing_that_it_said_was_kept(store: MarkdownStore) -> None:
    said: set[int] = set()
    for number in range(6):
        said |= writer.killed("markdown", store.root, 10_000 * number, 40 + 17 * number)
    found = await writer.titles(store)
    assert set(writer.titles_of(said)) <= set(found)
    await asyncio.gather(*(writer.remember(store, number) for number in said))
    again = await writer.titles(store)
    assert again == found
    assert len(again) == len(set(again))
    await store.append([fact("Swept")])
    names = {file.name for file in store.root.rglob("*")}
    assert not [name for name in names if "~" in name]


@first_of("kind, least", [("full", 2), ("kill", 16)])
def test_whichever_call_is_the_last_or_finds_the_disk_full_nothing_is_lost_and_nothing_is_there_twice(
    kind: faults.Kind, least: int
) -> None:
    for case in faults.found(kind, CASES):
        assert case["broken"] == []
        assert case["faults"] >= least


def test_a_disk_that_is_full_loses_nothing_and_goes_on_when_there_is_room_again(tmp_path: Path) -> None:
    for case in faults.found_on_a_small_disk(CASES, tmp_path):
        assert case["broken"] == []
        assert case["faults"] >= (0 if case["case"] == "remove" else 1)


def test_no_log_is_deleted_before_what_it_held_is_on_disk(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin_logs(tmp_path)
    calls: list[str] = []

    def opened(descriptor: int) -> str:
        return next(file.name for file in tmp_path.rglob("*") if os.path.samestat(file.stat(), os.fstat(descriptor)))

    def noted(name: str) -> Callable[..., Any]:
        real = getattr(os, name)

        def call(*arguments: Any, **named: Any) -> Any:
            calls.append(f"{name} {opened(arguments[0]) if name == 'fsync' else arguments[0]}")
            return real(*arguments, **named)

        return call

    for name in ("fsync", "replace", "unlink"):
        monkeypatch.setattr(os, name, noted(name))
    compact(AgentMemory(tmp_path, "reviewer", clock), WHEN.date())
    temporary = calls[0].partition(" ")[2]
    assert calls[:5] == [
        f"fsync {temporary}",
        f"replace {temporary}",
        "fsync reviewer",
        "fsync memory.md",
        "fsync reviewer",
    ]
    assert calls[5:] == [*(f"unlink {WHEN.date() - timedelta(days=back)}.md" for back in (4, 3, 2, 1)), "fsync logs"]
