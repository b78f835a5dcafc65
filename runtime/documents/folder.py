"""Finds the files below the given paths."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from runtime.documents import ENDINGS

HIDDEN = "hidden"
LINK = "link"
NO_FILE = "not a regular file"


class FoundFile(NamedTuple):
    """A file to read: its path as given or below a given folder, and its resolved path."""

    name: str
    path: Path


@dataclass
class FolderSearch:
    """The files below some paths, in the order of their names, each once.

    In a folder, hidden files and folders (such as `.git`) are skipped, and so are links, which may lead anywhere and
    back, and files with an ending that no reader has. Paths that were given themselves are always used.
    """

    files: list[FoundFile] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    """Numbers of skipped files and folders, by ending, and under `hidden`, `link` and `not a regular file` (a socket, a
    named pipe)."""
    failures: list[tuple[str, str]] = field(default_factory=list)
    """Paths that cannot be accessed, and why."""
    _seen: set[Path] = field(default_factory=set)

    def add(self, paths: Sequence[str]) -> None:
        """Add these paths, files or folders."""
        for name in paths:
            try:
                path = Path(name).resolve(strict=True)
                is_folder = path.is_dir()
            except (OSError, RuntimeError, ValueError) as error:
                # Python 3.11 and 3.12 raise RuntimeError for a loop of links.
                self.failures.append((name, _reason(error)))
                continue
            if is_folder:
                self._add_folder(name, path)
            else:
                self._add_file(name, path)

    def _add_folder(self, name: str, folder: Path) -> None:
        waiting = [(name, folder)]
        while waiting:
            name, path = waiting.pop()
            try:
                with os.scandir(path) as entries:
                    found = sorted(entries, key=lambda entry: entry.name)
            except OSError as error:
                self.failures.append((name, _reason(error)))
                continue
            inner = [(os.path.join(name, each.name), Path(each.path)) for each in self._collect_files(found, name)]  # noqa: PTH118
            waiting += reversed(inner)

    def _collect_files(self, entries: Sequence[os.DirEntry[str]], name: str) -> Iterator[os.DirEntry[str]]:
        """Collect the files, and return the folders."""
        for entry in entries:
            if entry.name.startswith("."):
                self.skipped[HIDDEN] += 1
            elif entry.is_symlink():
                self.skipped[LINK] += 1
            elif entry.is_dir(follow_symlinks=False):
                yield entry
            else:
                ending = Path(entry.name).suffix.lower()
                if not entry.is_file(follow_symlinks=False):
                    self.skipped[NO_FILE] += 1
                elif ending in ENDINGS:
                    self._add_file(os.path.join(name, entry.name), Path(entry.path))  # noqa: PTH118
                else:
                    self.skipped[ending or "no ending"] += 1

    def _add_file(self, name: str, path: Path) -> None:
        if path not in self._seen:
            self._seen.add(path)
            self.files.append(FoundFile(name, path))


def _reason(error: Exception) -> str:
    if isinstance(error, RuntimeError):
        return "it is a link that leads to itself"
    if isinstance(error, OSError) and error.strerror:
        return "no such file or folder" if isinstance(error, FileNotFoundError) else error.strerror.lower()
    return str(error)
