"""Which files a path means."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dslc.files import find, read
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
    target = _touch(tmp_path / "elsewhere" / "real.txt")
    folder = tmp_path / "programs"
    folder.mkdir()
    os.mkfifo(folder / "pipe.symbiont")
    (folder / "folder.symbiont").mkdir()
    (folder / "dangling.symbiont").symlink_to("nowhere")
    (folder / "loop.symbiont").symlink_to("loop.symbiont")
    (folder / "link.symbiont").symlink_to(target)
    assert find([folder]) == [folder / "link.symbiont"]


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
