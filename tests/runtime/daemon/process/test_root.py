"""Roots: found as git finds `.git`, owned by one process, refused if they are not safe."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from runtime.daemon.process.atomic_file import write_atomically
from runtime.daemon.process.root import Root, RootInUse, filesystem, locate, make, own
from runtime.errors import UsageError

HERE = {"XDG_STATE_HOME": os.environ["XDG_STATE_HOME"]}
"""The folder of this user's registry of roots, otherwise empty."""


def test_a_root_is_found_upward_from_where_the_command_stands(tmp_path: Path) -> None:
    make(tmp_path, HERE)
    inside = tmp_path / "a/b/c"
    inside.mkdir(parents=True)
    assert locate(inside, HERE) == Root(tmp_path)


def test_the_search_stops_at_home(tmp_path: Path) -> None:
    make(tmp_path, HERE)
    home = tmp_path / "home/me"
    (home / "work").mkdir(parents=True)
    assert locate(home / "work", {**HERE, "HOME": str(home)}) is None


def test_a_root_in_home_itself_is_found(tmp_path: Path) -> None:
    make(tmp_path, HERE)
    (tmp_path / "work").mkdir()
    assert locate(tmp_path / "work", {**HERE, "HOME": str(tmp_path)}) == Root(tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="giving folders away needs root")
def test_the_search_stops_at_another_owners_folder(tmp_path: Path) -> None:
    make(tmp_path, HERE)
    theirs = tmp_path / "theirs"
    mine = theirs / "mine"
    mine.mkdir(parents=True)
    os.chown(theirs, 12345, 12345)
    assert locate(mine, HERE) is None


def test_a_named_root_wins_over_the_one_found(tmp_path: Path) -> None:
    for name in ("here", "named", "flag"):
        (tmp_path / name).mkdir()
        make(tmp_path / name, HERE)
    environ = {**HERE, "SYMBIONT_ROOT": str(tmp_path / "named")}
    assert locate(tmp_path / "here", environ) == Root(tmp_path / "named")
    assert locate(tmp_path / "here", environ, tmp_path / "flag") == Root(tmp_path / "flag")


def test_systemds_state_directory_is_the_root(tmp_path: Path) -> None:
    made = make(Path("/"), {**HERE, "STATE_DIRECTORY": str(tmp_path)})
    assert made == Root(tmp_path)


def test_the_state_folder_is_for_its_owner_only(tmp_path: Path) -> None:
    made = make(tmp_path, HERE)
    assert stat.S_IMODE(made.state.stat().st_mode) == 0o700
    made.state.chmod(0o755)
    root = make(tmp_path, HERE)
    assert stat.S_IMODE(root.state.stat().st_mode) == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="giving folders away needs root")
def test_another_users_root_is_refused(tmp_path: Path) -> None:
    make(tmp_path, HERE)
    os.chown(tmp_path / ".symbi", 12345, 12345)
    with pytest.raises(UsageError, match="belongs to another user"):
        make(tmp_path, HERE, tmp_path)


def test_a_root_that_takes_no_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot be used"):
        make(tmp_path, HERE, tmp_path / "file")


def test_the_filesystem_of_a_folder_is_that_of_its_nearest_mount(tmp_path: Path) -> None:
    mountinfo = tmp_path / "mountinfo"
    mountinfo.write_text(
        f"22 1 8:1 / / rw - ext4 /dev/sda1 rw\n30 22 0:40 / {tmp_path} rw,relatime shared:5 - nfs4 server:/export rw\n"
    )
    assert filesystem(tmp_path / "deep/er", mountinfo) == "nfs4"
    assert filesystem(Path("/etc"), mountinfo) == "ext4"


def test_a_root_on_a_network_filesystem_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.daemon.process.root.filesystem", lambda folder, mountinfo: "nfs4")
    with pytest.raises(UsageError, match="network filesystem"):
        make(tmp_path, HERE)
    assert not (tmp_path / ".symbi").exists()


def test_one_process_owns_a_root_at_a_time(tmp_path: Path) -> None:
    root = make(tmp_path, HERE)
    script = (
        "import sys; from pathlib import Path; from runtime.daemon.process.root import Root, own\n"
        "with own(Root(Path(sys.argv[1]))):\n  print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(RootInUse, match="in use"), own(root, seconds=0):
            pass
        holder.kill()
    with own(root):
        pass


def test_a_write_that_fails_leaves_the_old_file_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "state.json"
    write_atomically(file, b"old")

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_atomically(file, b"new")
    assert file.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [file]
