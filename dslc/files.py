"""Finds, reads and replaces program files. The daemon finds programs in the same way."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from dslc.source import LARGEST

SUFFIX = ".symbiont"


def find(paths: Iterable[str | os.PathLike[str]], *, left_out: list[Path] | None = None) -> list[Path]:
    """Return the program files for `paths`, each once, in the order of the paths and sorted within each.

    A path to a file means that file, whatever its name; a path to a link means its target. A folder means all regular
    files below it whose name ends in `.symbiont`. A link to a regular file counts if it `stays_inside`; links to
    folders are not followed; hidden files and folders (`.git`, `.symbi`) are skipped. A file that is reached twice is
    returned at its first place. Skipped links to files are added to `left_out`.

    Raises FileNotFoundError for a path that does not exist, OSError for a folder that cannot be read or a path that is
    neither a folder nor a regular file.
    """
    found: dict[Path, Path] = {}
    for given in paths:
        path = Path(given)
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            below = _below(path, left_out)
        elif stat.S_ISREG(mode):
            below = [path]
        else:
            raise OSError(f"neither a file nor a folder: {path}")
        for file in below:
            found.setdefault(file.resolve(), file)
    return list(found.values())


def _below(folder: Path, left_out: list[Path] | None) -> list[Path]:
    files, inside = [], folder.resolve()
    for here, folders, names in os.walk(folder, onerror=_raise_unless_missing):
        folders[:] = [name for name in folders if not name.startswith(".")]
        candidates = (Path(here) / name for name in names if name.endswith(SUFFIX) and not name.startswith("."))
        for path in (path for path in candidates if path.is_file()):
            if not path.is_symlink() or stays_inside(path, inside):
                files.append(path)
            elif left_out is not None:
                left_out.append(path)
    return sorted(files, key=lambda path: path.parts)


def stays_inside(link: Path, folder: Path) -> bool:
    """True if a link below a folder (an absolute path without links) points to a file below it that is not hidden.

    The author of the folder, who may be a stranger whose branch is checked in a build, also wrote the link: it must not
    expose or change files elsewhere, or credentials in `.git/config` or `.env`. Names that begin with two dots do not
    count as hidden: Kubernetes mounts a ConfigMap as links through `..data`.
    """
    target = link.resolve()
    if not target.is_relative_to(folder):
        return False
    return not any(part.startswith(".") and not part.startswith("..") for part in target.relative_to(folder).parts)


def _raise_unless_missing(error: OSError) -> None:
    """Raise if a folder cannot be read; a folder that was just removed counts as empty."""
    if not isinstance(error, FileNotFoundError):
        raise error


def read(path: str | os.PathLike[str]) -> bytes:
    """Return the bytes of a regular file, at most one more than a source may have. Never blocks on a pipe or a device.

    Raises OSError.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(f"not a regular file: {os.fspath(path)}")
        return file.read(LARGEST + 1)


def replace(path: str | os.PathLike[str], data: bytes, *, was: bytes | None = None) -> None:
    """Replace the content of a file atomically: a reader sees either the old or the new bytes, even after a crash.

    A link is preserved and its target is replaced. The mode is preserved, and owner and group if permitted; other hard
    links to the file keep the old bytes. A missing file is created. With `was`, the file is replaced only if it still
    has these bytes.

    Raises OSError, also for a file that is not writable or has changed; then the file is unchanged, and no temporary
    file is left.
    """
    target = Path(os.path.realpath(path))
    before = _existing_file(target)
    temporary = target.with_name(f".{target.name[:100]}.{os.urandom(6).hex()}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if before is not None:
                _copy_attributes(before, descriptor)
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        if was is not None:
            _refuse_changed(target, was)
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)


def remove(path: str | os.PathLike[str], *, was: bytes) -> None:
    """Remove a file, or the target of a link. Raises OSError, also if the file no longer has the bytes `was`."""
    target = Path(os.path.realpath(path))
    _refuse_changed(target, was)
    target.unlink()
    _sync_folder(target.parent)


def _refuse_changed(target: Path, was: bytes) -> None:
    if read(target) != was:
        raise OSError(errno.ESTALE, "the file has changed in the meantime", os.fspath(target))


def _existing_file(target: Path) -> os.stat_result | None:
    """Status of the file to be replaced, or None. Raises OSError unless it is a regular, writable file."""
    try:
        before = target.stat()
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(before.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", os.fspath(target))
    if not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fspath(target))
    return before


def _copy_attributes(before: os.stat_result, descriptor: int) -> None:
    """Give a new file the owner, group and mode of the one it replaces."""
    for owner, group in ((before.st_uid, -1), (-1, before.st_gid)):
        with suppress(PermissionError):
            os.fchown(descriptor, owner, group)
    os.fchmod(descriptor, stat.S_IMODE(before.st_mode))  # after chown, which clears mode bits


def _sync_folder(folder: Path) -> None:
    """Make a rename durable. Errors are ignored, because the rename has succeeded and some file systems cannot sync
    folders."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
