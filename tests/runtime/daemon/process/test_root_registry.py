"""Only roots that this user created on this machine, at the place where they were created, are trusted."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from runtime.daemon.process import root_registry
from runtime.daemon.process.root import ForeignRoot, Root, adopting, locate, make
from runtime.errors import UsageError
from tests.runtime.daemon.running import running, symbi, write_program

HERE = {"XDG_STATE_HOME": os.environ["XDG_STATE_HOME"]}
PROGRAM = """\
memory notes {
    path "data"
    embedding hashing
}
agent reviewer {
    memory notes
}
webhook hook {
    path "/hook"
    provider github
    secret "secret://generated/hook"
    agent reviewer
}
"""

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="giving files away, and mounting, needs root")


def told(*arguments: str, root: Path, **extra: str) -> str:
    """Return the output of a command that must succeed."""
    done = symbi(*arguments, root=root, **extra)
    assert done.returncode == 0, done.stderr
    return done.stdout


def refused(*arguments: str, root: Path, **extra: str) -> str:
    """Return the error of a command that must fail."""
    done = symbi(*arguments, root=root, **extra)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


def forget_identity(folder: Path) -> None:
    """Remove what says that the root was created here."""
    (folder / ".symbi/root.json").unlink()
    (folder / ".symbi/.gitignore").unlink()


def move(folder: Path) -> Path:
    return folder.rename(folder.with_name("moved"))


def stay(folder: Path) -> Path:
    forget_identity(folder)
    return folder


@pytest.mark.parametrize("change", [move, stay], ids=["moved", "without its identity"])
def test_a_root_that_is_not_known_is_adopted_by_name_and_loses_nothing(tmp_path: Path, change: object) -> None:
    assert callable(change)
    folder = tmp_path / "it's mine"
    folder.mkdir()
    write_program(folder, PROGRAM)
    with running(folder, "program") as daemon:
        secret = daemon.symbi("secret", "show", "hook").stdout
        assert daemon.symbi("webhook", "test", "hook", "--payload", "{}").returncode == 0
        told("memory", "write", "reviewer", "kept", root=folder)
    folder = change(folder)
    said = refused("memory", "list", root=folder)
    assert "was not created there by this user" in said
    hint = said.partition("symbi up --root ")[2].strip()
    assert subprocess.run(["sh", "-c", f"echo {hint}"], capture_output=True, text=True, check=True).stdout.strip() == (
        str(folder)
    )
    refused("memory", "list", "--root", str(folder), root=tmp_path)
    refused("mcp", "--root", str(folder), root=tmp_path)
    refused("up", "program", root=folder)
    with running(folder, "program", "--root", str(folder)) as daemon:
        assert daemon.symbi("secret", "show", "hook").stdout == secret
        assert len(daemon.attempts()) == 1
    assert "kept" in told("memory", "list", root=folder)
    # From now on it is an ordinary root.
    with running(folder, "program"):
        pass


def test_a_whole_path_in_the_variable_names_a_root_to_adopt_and_another_does_not(tmp_path: Path) -> None:
    write_program(tmp_path, PROGRAM)
    with running(tmp_path, "program"):
        pass
    forget_identity(tmp_path)
    assert "symbi up --root" in refused("up", "program", root=tmp_path, SYMBIONT_ROOT=".")
    with running(tmp_path, "program", SYMBIONT_ROOT=str(tmp_path)):
        pass
    told("memory", "list", root=tmp_path)


def test_a_backup_that_is_restored_to_its_place_is_the_same_root(tmp_path: Path) -> None:
    folder = tmp_path / "root"
    folder.mkdir()
    make(folder, HERE, folder)
    shutil.copytree(folder, tmp_path / "backup")
    shutil.rmtree(folder)
    shutil.copytree(tmp_path / "backup", folder)
    assert locate(folder, HERE) == Root(folder)


def test_what_comes_to_the_place_of_a_deleted_root_is_not_it(tmp_path: Path) -> None:
    folder = tmp_path / "root"
    folder.mkdir()
    before = make(folder, HERE).identity
    shutil.rmtree(folder)
    (folder / ".symbi").mkdir(parents=True)
    (folder / ".symbi/root.json").write_text(json.dumps({"id": "0" * 32, "path": str(folder)}))
    with pytest.raises(ForeignRoot):
        locate(folder, HERE)
    shutil.rmtree(folder)
    folder.mkdir()
    assert make(folder, HERE).identity not in ("", before)
    assert locate(folder, HERE) == Root(folder)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b'{"id": 1, "path": "/"}',
        b'{"id": "../../../etc/passwd", "path": "/"}',
        b'{"id": "00000000000000000000000000000000"}',
        b'{"id": "00000000000000000000000000000000", "path": "\\u001b[2J\\ud800"}',
        b"[" * 100_000,
    ],
)
def test_an_identity_of_any_content_is_refused_in_one_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / ".symbi").mkdir()
    (tmp_path / ".symbi/root.json").write_bytes(content)
    said = refused("memory", "list", root=tmp_path)
    assert said.startswith(f"symbi: {tmp_path}/.symbi was not created there by this user: it came with")
    assert "\x1b" not in said


def test_a_root_is_the_same_by_every_path_that_leads_to_it(tmp_path: Path) -> None:
    folder = tmp_path / "root"
    folder.mkdir()
    make(folder, HERE)
    (tmp_path / "link").symlink_to(folder)
    assert locate(tmp_path, HERE, tmp_path / "link") == Root(tmp_path / "link")
    assert locate(tmp_path, HERE, folder / "../root") == Root(folder / "../root")


@needs_root
def test_a_root_that_is_mounted_elsewhere_is_adopted_there_by_name(tmp_path: Path) -> None:
    folder, other = tmp_path / "root", tmp_path / "other"
    for each in (folder, other):
        each.mkdir()
    make(folder, HERE)
    if subprocess.run(["mount", "--bind", folder, other], capture_output=True, check=False).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        with pytest.raises(ForeignRoot, match=f"but in {folder}"):
            locate(other, HERE)
        with adopting(make(other, HERE, other, adopt=True), HERE):
            pass
        with pytest.raises(ForeignRoot, match=f"but in {other}"):
            locate(folder, HERE)
    finally:
        subprocess.run(["umount", other], check=True)


def test_roots_are_noted_in_the_home_folder_unless_a_whole_path_names_another(tmp_path: Path) -> None:
    home, folder = tmp_path / "home", tmp_path / "root"
    for each in (home, folder):
        each.mkdir()
    for named in ({}, {"XDG_STATE_HOME": ""}, {"XDG_STATE_HOME": "relative"}):
        environ = {"HOME": str(home), **named}
        assert make(folder, environ) == Root(folder)
        assert locate(folder, environ) == Root(folder)
        entries = home / ".local/state/symbiont/roots"
        assert {each.suffix for each in entries.iterdir()} == {".json", ""}
        assert entries.stat().st_mode & 0o777 == 0o700
        shutil.rmtree(folder / ".symbi")
    assert not (folder / "relative").exists()


@needs_root
def test_another_users_home_and_entries_are_neither_written_nor_believed(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    os.chown(theirs, 12345, 12345)
    assert not root_registry._entries({"HOME": str(theirs)}).is_relative_to(theirs)
    make(tmp_path, HERE)
    (entry,) = (
        each
        for each in (Path(HERE["XDG_STATE_HOME"]) / "symbiont/roots").glob("*.json")
        if json.loads(each.read_bytes())["path"] == str(tmp_path)
    )
    os.chown(entry, 12345, 12345)
    with pytest.raises(ForeignRoot):
        locate(tmp_path, HERE)


@needs_root
def test_another_users_root_is_refused_by_every_command(tmp_path: Path) -> None:
    write_program(tmp_path, PROGRAM)
    make(tmp_path, HERE)
    os.chown(tmp_path / ".symbi", 12345, 12345)
    for command in (("memory", "list"), ("up", "program"), ("mcp",)):
        assert "belongs to another user (uid 12345)" in refused(*command, "--root", str(tmp_path), root=tmp_path)


def test_where_roots_cannot_be_noted_none_is_made(tmp_path: Path) -> None:
    write_program(tmp_path, PROGRAM)
    (tmp_path / "file").touch()
    said = refused("up", "program", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", root=tmp_path,
                   XDG_STATE_HOME=str(tmp_path / "file"))  # fmt: skip
    assert f"the registry of this user's roots is {tmp_path}/file/symbiont/roots: not a directory" in said
    assert "XDG_STATE_HOME" in said
    assert "XDG_STATE_HOME" in refused("mcp", "--root", "new", root=tmp_path, XDG_STATE_HOME=str(tmp_path / "file"))
    assert sorted(each.name for each in tmp_path.iterdir()) == ["file", "new", "program"]
    assert list((tmp_path / "new").iterdir()) == []


def test_the_folder_that_systemd_names_is_a_root_without_being_noted(tmp_path: Path) -> None:
    """A dynamic user has no home, and its folder may have been restored from another machine."""
    state, program = tmp_path / "state", write_program(tmp_path, PROGRAM)
    state.mkdir()
    nowhere: dict[str, Any] = {
        "STATE_DIRECTORY": str(state),
        "XDG_STATE_HOME": "/proc/nowhere",
        "HOME": "/proc/nowhere",
    }
    with running(state, str(program), **nowhere):
        told("memory", "write", "reviewer", "kept", root=tmp_path, **nowhere)
    state = state.rename(tmp_path / "restored")
    nowhere["STATE_DIRECTORY"] = str(state)
    with running(state, str(program), **nowhere):
        assert "kept" in told("memory", "list", root=tmp_path, **nowhere)
    found = root_registry.identity(state / ".symbi")
    assert found is not None
    assert found.path == str(state)


def test_a_folder_that_is_no_place_for_a_root_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot be used: not a directory"):
        make(tmp_path, HERE, tmp_path / "file/there")
