"""Readiness reports whether records can be written; if not, a write is refused."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from runtime.memory.errors import StoreError
from runtime.memory.files.writable import unwritable
from runtime.memory.records.store import RecordsStore
from tests.lanes import LONG
from tests.runtime.memory.records.pieces import tree
from tests.runtime.memory.texts import fact

NOBODY = 65534
HERE = Path(__file__).parents[4]
_TRY = """
import asyncio, os, sys
from pathlib import Path
from runtime.memory.errors import StoreError
from runtime.memory.records.store import RecordsStore
from tests.runtime.memory.texts import fact

async def main():
    store = RecordsStore(Path(sys.argv[1]))
    print("; ".join(f"{p.severity} {p.file}: {p.message}" for p in await store.ready()))
    try:
        await store.append([fact()])
    except StoreError as error:
        print("refused:", error.line())
    await store.close()

if len(sys.argv) > 2:
    os.setgid(int(sys.argv[2]))
    os.setuid(int(sys.argv[2]))
asyncio.run(main())
"""


async def test_a_folder_that_can_be_made_and_written_to_is_ready(store: RecordsStore, tmp_path: Path) -> None:
    before = tree(tmp_path)
    assert await store.ready() == ()
    assert tree(tmp_path) == before
    await store.append([fact()])
    assert await store.ready() == ()


async def test_a_file_in_the_folders_place_is_an_error_and_refuses_writes(store: RecordsStore) -> None:
    store.root.parent.mkdir(parents=True)
    store.root.write_text("mine")
    (problem,) = await store.ready()
    assert (problem.file, problem.severity) == (str(store.root), "error")
    assert "a file in its place" in problem.message
    with pytest.raises(StoreError, match=str(store.root)):
        await store.append([fact()])
    assert store.root.read_text() == "mine"


async def test_a_file_in_the_place_of_a_folder_above_is_an_error(store: RecordsStore) -> None:
    store.root.parent.parent.mkdir(parents=True, exist_ok=True)
    store.root.parent.write_text("mine")
    (problem,) = await store.ready()
    assert (problem.severity, "is not a folder" in problem.message) == ("error", True)


async def test_an_agents_folder_that_others_may_look_into_is_said(store: RecordsStore, folder: Path) -> None:
    await store.append([fact()])
    folder.chmod(0o755)
    (problem,) = await store.ready()
    assert (problem.file, problem.severity) == (str(folder), "warning")
    assert "0700" in problem.message


@LONG
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize("made", [False, True])
def test_a_folder_of_somebody_else_is_an_error_and_refuses_writes(made: bool) -> None:
    # Every user may enter this path; pytest's folders are only for the user who runs the tests.
    root = Path(tempfile.mkdtemp(prefix="records-"))
    root.chmod(0o755)
    try:
        target = root / "agents"
        if made:
            target.mkdir(mode=0o755)
        done = subprocess.run(
            [sys.executable, "-c", _TRY, str(target), str(NOBODY)],
            capture_output=True, text=True, check=False, cwd=HERE,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        ready, refused = done.stdout.splitlines()
        assert ready.startswith(f"error {target}")
        assert "not writable" in ready
        assert refused.startswith("refused:")
        assert list(root.rglob("*")) == ([target] if made else [])
    finally:
        shutil.rmtree(root)


def test_a_file_system_that_is_mounted_read_only_is_an_error_even_for_root(tmp_path: Path) -> None:
    space = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    script = 'mount -t tmpfs tmpfs $0 && mount -o remount,ro $0 && exec $1 -c "$2" $0/agents'
    if not shutil.which("unshare"):
        pytest.skip("no file system can be mounted here")
    done = subprocess.run(
        [*space, script, tmp_path, sys.executable, _TRY], capture_output=True, text=True, check=False, cwd=HERE
    )
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip("no file system can be mounted here")
    ready, refused = done.stdout.splitlines()
    assert ready.startswith("error")
    assert "read-only" in ready
    assert "refused:" in refused
    assert "Read-only file system" in refused


def test_a_disk_without_any_room_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        f_blocks, f_bavail = 100, 0

    assert unwritable(tmp_path) is None
    monkeypatch.setattr(os, "statvfs", lambda _: Full)
    assert unwritable(tmp_path) == "its disk is full"
