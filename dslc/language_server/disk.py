"""The program files below the folders of an editor, and which of them changed since they were looked at."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dslc import files

Stamp = tuple[int, int, int, int]
"""What tells that a file is as it was: its number, size, and times."""


@dataclass(frozen=True)
class FolderScan:
    """What was found: a stamp for every file, and the bytes of those whose stamp is new."""

    stamps: Mapping[str, Stamp] = field(default_factory=dict)
    read: Mapping[str, bytes] = field(default_factory=dict)


def scan_folders(folders: Iterable[str], known: Mapping[str, Stamp], named: Collection[str] = ()) -> FolderScan:
    """Look for the files below `folders`. Those that are `named` are read whatever their stamp says.

    What cannot be read is as if it were not there. Raises nothing.
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
    found = os.stat(name)  # noqa: PTH116 - thousands of them, and no path is needed
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _find(folders: Iterable[str]) -> Iterator[str]:
    """Each file once, whichever of the folders it is below."""
    seen = set()
    for folder in folders:
        for path in _below(Path(folder)):
            real = os.path.realpath(path)
            if real not in seen:
                seen.add(real)
                yield str(path)


def _below(folder: Path) -> Iterator[Path]:
    """The files below a folder; where a part of it cannot be read, those of the other parts."""
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
