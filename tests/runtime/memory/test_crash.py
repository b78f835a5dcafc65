"""What a killed writer, a lost tail or several writers at once leave behind."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from runtime.memory.item import Item, delivery_uri
from runtime.memory.markdown import MarkdownStore
from runtime.memory.notebook import Notebook
from runtime.memory.store import Scan
from tests.clocks import ManualClock
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
