"""What a killed writer, a full disk or several writers at once leave behind."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.memory.records.store import RecordsStore
from tests.runtime.memory.records.pieces import events, everything, read_json, record_files
from tests.runtime.memory.records.writer import remember

HERE = Path(__file__).parents[4]
_MEMORY = Path("/dev/shm")
_SMALL = "mount -t tmpfs -o size=256k tmpfs $1 && exec $2 -m tests.runtime.memory.records.faults disk $1"


@pytest.fixture
def quick(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one, for a disk takes its time with thousands of fsyncs."""
    if not _MEMORY.is_dir():
        yield tmp_path
        return
    found = Path(tempfile.mkdtemp(dir=_MEMORY))
    yield found
    shutil.rmtree(found)


def check(output: str) -> None:
    found = json.loads(output)
    assert [case["case"] for case in found] == ["first", "append", "sent", "failed", "index"]
    for case in found:
        assert case["faults"] > 1, case
        assert case["broken"] == [], case


@pytest.mark.parametrize("mode", ["kill", "full"])
def test_a_fault_at_any_write_loses_nothing_and_leaves_nothing_half_done(mode: str, quick: Path) -> None:
    command = [sys.executable, "-m", "tests.runtime.memory.records.faults", mode, str(quick)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=HERE)
    assert done.returncode == 0, done.stderr
    check(done.stdout)


def test_a_disk_that_is_full_at_any_page_loses_nothing(tmp_path: Path) -> None:
    space = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    possible = shutil.which("unshare") and subprocess.run(
        [*space, "mount -t tmpfs tmpfs $0", tmp_path], capture_output=True, check=False
    )
    if not possible or possible.returncode != 0:
        pytest.skip("no file system can be mounted here")
    done = subprocess.run(
        [*space, _SMALL, "sh", tmp_path, sys.executable], capture_output=True, text=True, check=False, cwd=HERE
    )
    assert done.returncode == 0, done.stderr
    check(done.stdout)


async def start(root: Path, first: int, count: int) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.runtime.memory.records.writer", str(root), str(first), str(count),
        stdout=asyncio.subprocess.PIPE, cwd=HERE,
    )  # fmt: skip


async def titles(store: RecordsStore) -> list[str]:
    return sorted(one.text.partition("\n")[0] for one in await everything(store))


async def test_several_processes_that_write_at_once_lose_nothing_and_agree_on_the_index(
    store: RecordsStore, folder: Path
) -> None:
    writers = [await start(store.root, 1000 * number, 40) for number in range(2)]
    # What the first of them writes too: of each delivery there is one record all the same.
    await asyncio.gather(*(remember(store, number) for number in range(40)))
    for writer in writers:
        await writer.communicate()
        assert writer.returncode == 0
    assert await titles(store) == sorted(f"Delivery {n}" for n in (*range(40), *range(1000, 1040)))
    await store.close()
    found = read_json(folder / "index.json")
    assert found["memory_count"] == 80
    assert sum(len(ids) for ids in found["by_tag"].values()) == 80
    assert events(folder) == ["memory_store_local"] * 80


async def test_a_writer_that_is_killed_loses_nothing_that_it_said_was_kept(store: RecordsStore, folder: Path) -> None:
    said: set[int] = set()
    for number in range(3):
        writer = await start(store.root, 10_000 * number, 10_000)
        assert writer.stdout is not None
        for _ in range(10 + 7 * number):
            said.add(int(await writer.stdout.readline()))
        writer.kill()
        rest, _ = await writer.communicate()
        said |= {int(line) for line in rest.splitlines(keepends=True) if line.endswith(b"\n")}
    await store.take_up()
    found = await titles(store)
    assert {f"Delivery {number}" for number in said} <= set(found)
    await asyncio.gather(*(remember(store, number) for number in said))
    assert await titles(store) == found
    assert (await store.verify())[1] == ()
    assert events(folder) == ["memory_store_local"] * len(found)
    assert len(record_files(folder)) == len(found)
    assert not [file for file in store.root.rglob("*") if "~" in file.name]
    assert read_json(folder / "index.json")["memory_count"] == len(found)
