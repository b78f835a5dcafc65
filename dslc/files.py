"""Which files a path means, and their bytes. The daemon looks for programs in the same way."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from dslc.source import LARGEST

SUFFIX = ".symbiont"


def find(paths: Iterable[str | os.PathLike[str]]) -> list[Path]:
    """The program files that `paths` mean, each once, in the order of the paths and sorted within each.

    A file means itself, whatever it is called. A folder means every regular file below it whose name ends in
    `.symbiont`; a link to a regular file counts as one, links to folders are not followed, hidden files and folders
    (`.git`, `.symbi`) are left out. A file that is reached twice is taken where it is met first.

    Raises FileNotFoundError for a path that is not there, OSError for a folder that cannot be read or a path that is
    neither folder nor regular file.
    """
    found: dict[Path, Path] = {}
    for given in paths:
        path = Path(given)
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            below = _below(path)
        elif stat.S_ISREG(mode):
            below = [path]
        else:
            raise OSError(f"neither a file nor a folder: {path}")
        for file in below:
            found.setdefault(file.resolve(), file)
    return list(found.values())


def _below(folder: Path) -> list[Path]:
    files = []
    for here, folders, names in os.walk(folder, onerror=_refuse):
        folders[:] = [name for name in folders if not name.startswith(".")]
        candidates = (Path(here) / name for name in names if name.endswith(SUFFIX) and not name.startswith("."))
        files += [path for path in candidates if path.is_file()]
    return sorted(files, key=lambda path: path.parts)


def _refuse(error: OSError) -> None:
    """A folder that cannot be read is not an empty one; one that has just gone is."""
    if not isinstance(error, FileNotFoundError):
        raise error


def read(path: str | os.PathLike[str]) -> bytes:
    """The bytes of a regular file, at most one more than a source may have. Never waits for a pipe or a device.

    Raises OSError.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(f"not a regular file: {os.fspath(path)}")
        return file.read(LARGEST + 1)
