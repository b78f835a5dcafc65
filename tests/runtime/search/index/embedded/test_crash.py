"""After a killed process, a full disk, or two processes at once, an index is consistent."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from runtime.search.index import open_index
from tests.lanes import LONG, first_of, repeated
from tests.runtime.search.index.checker import agree, key_of
from tests.runtime.search.index.entries import DIMENSION, EVERYTHING, TOKEN_BITS, embed_with_tokens, everything
from tests.runtime.search.index.worker import content

pytestmark = LONG

HERE = Path(__file__).parents[5]
COMMAND = (sys.executable, "-m", "tests.runtime.search.index.worker")


async def start(*arguments: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(*COMMAND, *arguments, stdout=asyncio.subprocess.PIPE, cwd=HERE)


async def holds_what_its_revisions_say(path: Path) -> None:
    """Assert that every part has the content that belongs to its revision."""
    agree(path)
    index = await open_index(None, path, {}, key=key_of(path))
    try:
        await index.use_model("m", DIMENSION, TOKEN_BITS)
        while await embed_with_tokens(index):
            pass
        stats = await index.stats()
        assert stats.tokenized == stats.entries
        there = await everything(index)
        expected = [one for part, revision in (await index.parts()).items() for one in content(part, revision)]
        assert there == {one.id: one for one in expected}
        found = await index.keyword(["monday"], EVERYTHING, 100_000)
        assert len(found.keys) == len(there)
    finally:
        await index.close()


@first_of("name", ["memory.db", "sealed.db"])
@repeated("rounds", 2, 40)
async def test_a_process_that_is_killed_leaves_an_index_that_agrees_with_itself(
    tmp_path: Path, name: str, rounds: int
) -> None:
    path = tmp_path / name
    for number in range(rounds):
        worker = await start("work", str(path), "10000", "one", "two", "three")
        assert worker.stdout is not None
        for _ in range(1 + 7 * number % 31):
            assert await worker.stdout.readline()
        await asyncio.sleep(0.0007 * (number % 9))  # at any point of a step
        worker.kill()
        await worker.communicate()
        kept = path.stat().st_ino
        await holds_what_its_revisions_say(path)
        assert path.stat().st_ino == kept, "it was not made anew"


async def test_two_processes_on_one_file_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    workers = []
    for name in ("a", "b"):
        workers.append(await start("work", str(path), "60", f"{name}1", f"{name}2"))
        assert workers[-1].stdout is not None
        assert await workers[-1].stdout.readline() == b"0\n"
    for worker in workers:
        await worker.communicate()
        assert worker.returncode == 0
    await holds_what_its_revisions_say(path)


def ran_full(*command: str | Path) -> list[str]:
    ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=HERE)
    assert ran.stderr == ""
    assert ran.returncode == 0
    return ran.stdout.splitlines()


@first_of("name", ["memory.db", "sealed.db"])
async def test_a_file_that_may_not_grow_is_said_and_the_index_goes_on_when_it_may(tmp_path: Path, name: str) -> None:
    """RLIMIT_FSIZE: writes fail with EFBIG in the middle, as on a disk with a quota."""
    path = tmp_path / name
    line, found, parts = ran_full(*COMMAND, "limited", path)
    assert str(path) in line
    assert "make room" in line
    assert int(found) > 0
    assert {"first", "last"} <= set(parts.split())
    await holds_what_its_revisions_say(path)


def _may_mount() -> bool:
    command = ["unshare", "-rm", "mount", "-t", "tmpfs", "none", "/mnt"]
    return (
        shutil.which("unshare") is not None
        and subprocess.run(command, capture_output=True, check=False).returncode == 0
    )


@pytest.mark.skipif(not _may_mount(), reason="needs to mount a small file system of its own")
async def test_a_full_disk_is_said_and_the_index_goes_on_when_there_is_room(tmp_path: Path) -> None:
    small, out = tmp_path / "small", tmp_path / "memory.db"
    small.mkdir()
    script = (
        f"mount -t tmpfs -o size=1m none {small} && head -c 500000 /dev/zero > {small}/ballast"
        f' && "$@" full {small}/memory.db && cp {small}/memory.db {out}'
    )
    line, found, parts = ran_full("unshare", "-rm", "sh", "-c", script, "sh", *COMMAND)
    assert "full" in line
    assert "make room on the disk" in line
    assert int(found) > 0
    assert {"first", "last"} <= set(parts.split())
    await holds_what_its_revisions_say(out)


@pytest.mark.skipif(not _may_mount(), reason="needs to mount a small file system of its own")
def test_an_index_that_cannot_even_be_made_on_a_full_disk_says_so(tmp_path: Path) -> None:
    script = f'mount -t tmpfs -o size=64k none {tmp_path} && head -c 60000 /dev/zero > {tmp_path}/x; exec "$@"'
    program = (
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from runtime.errors import SymbiontError\n"
        "from runtime.search.index import open_index\n"
        "try:\n    asyncio.run(open_index(None, Path(sys.argv[1]), {}))\n"
        "except SymbiontError as error:\n    print(error.line())\n"
    )
    command = ("unshare", "-rm", "sh", "-c", script, "sh", sys.executable, "-c", program, tmp_path / "memory.db")
    (line,) = ran_full(*command)
    assert str(tmp_path / "memory.db") in line
    assert "room" in line
