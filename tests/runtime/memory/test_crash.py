"""What a killed writer, a lost tail or several writers at once leave behind."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from runtime.memory.compaction import compact
from runtime.memory.item import Item, delivery_uri
from runtime.memory.markdown import MarkdownStore
from runtime.memory.notebook import Notebook
from runtime.memory.store import Scan
from tests.clocks import ManualClock
from tests.runtime.memory.faults import begin_logs
from tests.runtime.memory.texts import WHEN, fact, item
from tests.runtime.memory.writer import remember

HERE = Path(__file__).parents[3]
LOG = f"{WHEN.date().isoformat()}.md"


async def start(root: Path, first: int, count: int) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.runtime.memory.writer", str(root), str(first), str(count),
        stdout=asyncio.subprocess.PIPE, cwd=HERE,
    )  # fmt: skip


async def titles(store: MarkdownStore) -> list[str]:
    return [one.text.partition("\n")[0] async for one in store.scan(Scan(agent_id="reviewer"))]


@pytest.mark.parametrize(
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
    Notebook(tmp_path, "reviewer", clock).perform([(first,)])
    log = tmp_path / "reviewer" / "logs" / LOG
    whole = len(log.read_bytes())
    Notebook(tmp_path, "reviewer", clock).perform([(last,)])
    data = log.read_bytes()
    for cut in range(whole, len(data) + 1):
        log.write_bytes(data[:cut])
        Notebook(tmp_path, "reviewer", clock).perform([(after,)])
        Notebook(tmp_path, "reviewer", clock).perform([(last, first, after)])
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
    notebook = Notebook(tmp_path, "reviewer", clock)
    notebook.perform([(item("One"),)])
    log = tmp_path / "reviewer" / "logs" / LOG
    log.write_bytes(log.read_bytes() + bytes(10_000))
    notebook.perform([(item("Two"),)])
    assert b"\0" not in log.read_bytes()
    assert [one.text for one in read(tmp_path)] == ["One", "Two"]


async def test_several_processes_and_tasks_that_write_at_once_lose_nothing(store: MarkdownStore) -> None:
    writers = [await start(store.root, 1000 * number, 60) for number in range(3)]
    await asyncio.gather(*(remember(store, 9000 + number) for number in range(60)))
    for writer in writers:
        await writer.communicate()
        assert writer.returncode == 0
    numbers = [1000 * process + number for process in (0, 1, 2, 9) for number in range(60)]
    expected = [f"Delivery {number}" for number in numbers] + [
        f"Fact {number}" for number in numbers if number % 8 == 0
    ]
    assert sorted(await titles(store)) == sorted(expected)


@pytest.mark.parametrize("rounds", [6])
async def test_a_writer_that_is_killed_loses_nothing_that_it_said_was_kept(store: MarkdownStore, rounds: int) -> None:
    said: set[int] = set()
    for number in range(rounds):
        writer = await start(store.root, 10_000 * number, 10_000)
        assert writer.stdout is not None
        for _ in range(40 + 17 * number):
            said.add(int(await writer.stdout.readline()))
        writer.kill()
        rest, _ = await writer.communicate()
        said |= {int(line) for line in rest.splitlines(keepends=True) if line.endswith(b"\n")}
    found = await titles(store)
    assert {f"Delivery {number}" for number in said} <= set(found)
    assert {f"Fact {number}" for number in said if number % 8 == 0} <= set(found)
    await asyncio.gather(*(remember(store, number) for number in said))
    again = await titles(store)
    assert sorted(again) == sorted(found)
    assert len(again) == len(set(again))
    await store.append([fact("Swept")])
    names = {file.name for file in store.root.rglob("*")}
    assert not [name for name in names if "~" in name]


async def faults(kind: str, folder: Path) -> list[dict[str, Any]]:
    ran = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.runtime.memory.faults", kind, str(folder), stdout=asyncio.subprocess.PIPE, cwd=HERE
    )
    said, _ = await ran.communicate()
    assert ran.returncode == 0
    found: list[dict[str, Any]] = json.loads(said)
    return found


@pytest.mark.parametrize(("kind", "least"), [("kill", 16), ("full", 2)])
async def test_whichever_call_is_the_last_or_finds_the_disk_full_nothing_is_lost_and_nothing_is_there_twice(
    kind: str, least: int, tmp_path: Path
) -> None:
    for case in await faults(kind, tmp_path):
        assert case["broken"] == []
        assert case["faults"] >= least


async def test_a_disk_that_is_full_loses_nothing_and_goes_on_when_there_is_room_again(tmp_path: Path) -> None:
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k,nr_inodes=200", "tmpfs", str(tmp_path)],
        capture_output=True, check=False,
    )  # fmt: skip
    if mounted.returncode != 0:
        pytest.skip("a file system of a few pages can be mounted by root only")
    try:
        for case in await faults("disk", tmp_path):
            assert case["broken"] == []
            assert case["faults"] >= (0 if case["case"] == "remove" else 1)
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


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
    compact(Notebook(tmp_path, "reviewer", clock), WHEN.date())
    temporary = calls[0].partition(" ")[2]
    assert calls[:5] == [
        f"fsync {temporary}",
        f"replace {temporary}",
        "fsync reviewer",
        "fsync memory.md",
        "fsync reviewer",
    ]
    assert calls[5:] == [*(f"unlink {WHEN.date() - timedelta(days=back)}.md" for back in (4, 3, 2, 1)), "fsync logs"]
