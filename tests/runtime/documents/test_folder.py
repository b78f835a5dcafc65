"""Files below folders: each once, in order; skipped files are counted."""

from __future__ import annotations

import os
import socket
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.documents.folder import FolderSearch


def search(*paths: Path | str) -> FolderSearch:
    found = FolderSearch()
    found.add([str(path) for path in paths])
    return found


def made(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x")


def test_files_come_in_order_and_what_is_passed_over_is_counted(tmp_path: Path) -> None:
    made(tmp_path, "b.md", "a/2.TXT", "a/1.html", "a/deep/x.pdf", "a/logo.png", "a/b.png", "Makefile", ".env.md")
    made(tmp_path, ".git/readme.md")
    (tmp_path / "link.md").symlink_to("b.md")
    (tmp_path / "a" / "up").symlink_to("..")
    os.mkfifo(tmp_path / "pipe.md")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket.txt"))
    found = search(tmp_path)
    shown = [os.path.relpath(place.name, tmp_path) for place in found.files]
    assert shown == ["b.md", "a/1.html", "a/2.TXT", "a/deep/x.pdf"]
    assert found.skipped == Counter({".png": 2, "hidden": 2, "link": 2, "no ending": 1, "not a regular file": 2})
    assert not found.failures


def test_a_file_is_found_once_however_often_it_was_named(tmp_path: Path) -> None:
    made(tmp_path, "a.md", "b/c.md")
    (tmp_path / "other.md").symlink_to(tmp_path / "a.md")
    found = search(tmp_path / "a.md", tmp_path, tmp_path / "b" / ".." / "b", tmp_path / "other.md")
    assert [place.path.name for place in found.files] == ["a.md", "c.md"]


def test_what_is_named_is_taken_whatever_it_is_called(tmp_path: Path) -> None:
    made(tmp_path, ".hidden/notes", ".profile", "code.py")
    (tmp_path / "way").symlink_to(".hidden")
    found = search(tmp_path / ".profile", tmp_path / "code.py", tmp_path / "way" / "notes", tmp_path / "way")
    assert [place.path for place in found.files] == [
        tmp_path / ".profile",
        tmp_path / "code.py",
        tmp_path / ".hidden" / "notes",
    ]


def test_paths_that_lead_nowhere_are_named(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    made(tmp_path, "a.md")
    found = search(tmp_path / "gone", tmp_path / "loop", tmp_path / "a.md", tmp_path / "a.md" / "below", "a\0b")
    assert len(found.files) == 1
    why = dict(found.failures)
    assert why[str(tmp_path / "gone")] == "no such file or folder"
    assert "link" in why[str(tmp_path / "loop")]
    assert why[str(tmp_path / "a.md" / "below")] == "not a directory"
    assert "null" in why["a\0b"]


def test_a_folder_that_cannot_be_opened_is_named_and_the_others_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(tmp_path, "a/x.md", "closed/y.md")
    scandir = os.scandir

    def open_to_some(path: Path) -> Iterator[os.DirEntry[str]]:
        if Path(path).name == "closed":
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", open_to_some)
    found = search(tmp_path)
    assert [place.path.name for place in found.files] == ["x.md"]
    assert found.failures == [(str(tmp_path / "closed"), "permission denied")]
