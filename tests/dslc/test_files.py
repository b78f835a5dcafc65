"""The files that a path means, and the replacement of a file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dslc.files import find, read, replace
from dslc.source import LARGEST


def _touch(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("")
    return path


def test_a_folder_means_the_program_files_below_it_in_order(tmp_path: Path) -> None:
    wanted = [_touch(tmp_path / name) for name in ("a.symbiont", "b/a.symbiont", "b/c/d.symbiont", "z.symbiont")]
    for name in ("a.txt", ".hidden.symbiont", ".symbi/x.symbiont", "b/.git/y.symbiont", "a.symbiont~"):
        _touch(tmp_path / name)
    assert find([tmp_path]) == wanted


def test_only_regular_files_and_links_to_them_count(tmp_path: Path) -> None:
    folder = tmp_path / "programs"
    target = _touch(folder / "below" / "real.txt")
    os.mkfifo(folder / "pipe.symbiont")
    (folder / "folder.symbiont").mkdir()
    (folder / "dangling.symbiont").symlink_to("nowhere")
    (folder / "loop.symbiont").symlink_to("loop.symbiont")
    (folder / "link.symbiont").symlink_to(target)
    assert find([folder]) == [folder / "link.symbiont"]


def test_a_link_below_a_folder_shows_nothing_that_is_elsewhere_or_hidden(tmp_path: Path) -> None:
    folder = tmp_path / "checkout"
    outside = _touch(tmp_path / "outside.symbiont")
    targets = {"out": outside, "git": _touch(folder / ".git" / "config"), "env": _touch(folder / ".env")}
    links = [folder / f"{name}.symbiont" for name in (*targets, "environ", "twice")]
    for link, target in zip(links, [*targets.values(), Path("/proc/self/environ"), Path("out.symbiont")], strict=True):
        link.symlink_to(target)
    kept = _touch(folder / "..data" / "program.symbiont")
    (folder / "mounted.symbiont").symlink_to("..data/program.symbiont")
    left_out: list[Path] = []
    assert find([folder], left_out=left_out) == [folder / "mounted.symbiont"]
    assert kept.exists()
    assert sorted(left_out) == sorted(links)
    assert find([links[0], folder]) == [links[0], folder / "mounted.symbiont"], "whoever names a link wants it"


def test_a_file_means_itself_whatever_it_is_called(tmp_path: Path) -> None:
    assert find([_touch(tmp_path / "program.txt")]) == [tmp_path / "program.txt"]


def test_a_file_reached_twice_is_taken_once(tmp_path: Path) -> None:
    file = _touch(tmp_path / "a.symbiont")
    (tmp_path / "b.symbiont").symlink_to(file)
    assert find([file, tmp_path, tmp_path / "b.symbiont", tmp_path / "." / "a.symbiont"]) == [file]


def test_a_path_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        find([tmp_path / "nowhere"])


def test_a_pipe_is_refused_and_never_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="neither a file nor a folder"):
        find([tmp_path / "pipe"])
    with pytest.raises(OSError, match="not a regular file"):
        read(tmp_path / "pipe")


def test_no_more_is_read_than_a_source_may_have(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"#" * (LARGEST + 1000))
    assert len(read(tmp_path / "large")) == LARGEST + 1


def test_a_replaced_file_keeps_its_mode_and_owner_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    file = _touch(tmp_path / "a.symbiont")
    file.chmod(0o640)
    before = file.stat()
    replace(file, b"new")
    after = file.stat()
    assert file.read_bytes() == b"new"
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    assert after.st_ino != before.st_ino
    assert list(tmp_path.iterdir()) == [file]


def test_replacing_a_link_replaces_what_it_leads_to(tmp_path: Path) -> None:
    target = _touch(tmp_path / "elsewhere" / "real.symbiont")
    link = tmp_path / "link.symbiont"
    link.symlink_to(target)
    replace(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_a_new_file_has_the_mode_that_new_files_have(tmp_path: Path) -> None:
    (tmp_path / "usual").touch()
    replace(tmp_path / "a.symbiont", b"new")
    assert (tmp_path / "a.symbiont").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_a_file_that_has_changed_in_the_meantime_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "a.symbiont"
    file.write_bytes(b"theirs")
    with pytest.raises(OSError, match="changed in the meantime"):
        replace(file, b"ours", was=b"what we read")
    assert file.read_bytes() == b"theirs"
    assert list(tmp_path.iterdir()) == [file]


def test_what_cannot_be_replaced_stays_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    for path in (tmp_path, tmp_path / "pipe", tmp_path / "loop", tmp_path / "nowhere" / "a.symbiont"):
        with pytest.raises(OSError, match=r"."):
            replace(path, b"new")
    file = _touch(tmp_path / "a.symbiont")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        replace(file, b"new")
    assert file.read_bytes() == b""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.symbiont", "loop", "pipe"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_a_file_that_may_not_be_written_is_not_replaced(tmp_path: Path) -> None:
    file = _touch(tmp_path / "a.symbiont")
    file.chmod(0o444)
    with pytest.raises(PermissionError):
        replace(file, b"new")
    assert file.read_bytes() == b""
