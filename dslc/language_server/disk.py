"""Scan of an editor's folders for program files that changed since the last scan."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dslc import files

Stamp = tuple[int, int, int, int]
"""Inode number, size, and times of a file; unchanged if the file is unchanged."""


@dataclass(frozen=True)
class FolderScan:
    """Result of a scan: the stamp of every file, and the bytes of files with a new stamp."""

    stamps: Mapping[str, Stamp] = field(default_factory=dict)
    read: Mapping[str, bytes] = field(default_factory=dict)


def scan_folders(folders: Iterable[str], known: Mapping[str, Stamp], named: Collection[str] = ()) -> FolderScan:
    """Find the files below `folders`. Files in `named` are read even if their stamp has not changed.

    Files that cannot be read are omitted. Does not raise.
    """
    stamps: dict[str, Stamp] = {}
    read: dict[str, bytes] = {}
    for path in _find(folders):
        name = os.path.normpath(path)
        try:
            stamp = _stamp(name)
            if known.get(name) != stamp or name in named:
                read[name] = files.read(name)
            stamps[name] = stamp
        except (OSError, ValueError):
            continue
    return FolderScan(stamps, read)


def _stamp(name: str) -> Stamp:
    found = os.stat(name)  # noqa: PTH116 - called thousands of times, and needs no Path
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _find(folders: Iterable[str]) -> Iterator[str]:
    """Paths of all files, each once, even if several folders contain it."""
    seen = set()
    for folder in folders:
        for path in _below(Path(folder)):
            real = os.path.realpath(path)
            if real not in seen:
                seen.add(real)
                yield str(path)


def _below(folder: Path) -> Iterator[Path]:
    """Paths of the files below a folder, without folders that cannot be read."""
    waiting, inside = [folder], folder.resolve()
    while waiting:
        here = waiting.pop()
        try:
            yield from files.find([here])
            continue
        except (OSError, ValueError):
            pass
        try:
            inner = sorted(here.iterdir())
        except OSError:
            continue
        seen = [path for path in inner if not path.name.startswith(".")]
        waiting += [path for path in seen if path.is_dir() and not path.is_symlink()]
        programs = [path for path in seen if path.name.endswith(files.SUFFIX) and path.is_file()]
        yield from (path for path in programs if not path.is_symlink() or files.stays_inside(path, inside))
