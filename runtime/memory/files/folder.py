"""A folder held open by its descriptor, so that no name in it can lead anywhere else.

Every name is opened relative to the descriptor and never through a symbolic link (O_NOFOLLOW). Folders are created 0700
and files 0600. All calls block; the event loop runs them in threads.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

from runtime.memory.errors import FsyncFailed, StoreError

_HINTS = {
    errno.ENOSPC: "free some space on that disk; nothing was lost",
    errno.EDQUOT: "free some space; this user's quota is used up",
    errno.EACCES: "give the user that runs this read and write access to it",
    errno.EPERM: "give the user that runs this read and write access to it",
    errno.EROFS: "the file system is mounted read-only; mount it read-write or choose another path",
    errno.ELOOP: "symbolic links are not followed inside a memory; move the target here",
    errno.EMFILE: "raise the limit of open files",
    errno.EFBIG: "raise the maximum file size of this process (ulimit -f)",
    errno.EIO: "the disk reports an error; check it",
}
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PARTIAL = "~"  # not part of a valid name: marks a temporary file, or a folder that is being deleted
_DELETED = re.compile(r"\.[A-Za-z0-9_.-]{1,64}~[0-9a-f]{8}")
_STAGED = re.compile(r"\.([A-Za-z0-9_.-]+\.(?:md|json))~[0-9a-f]{8}")


@contextlib.contextmanager
def file_errors(path: Path, doing: str) -> Iterator[None]:
    """Turn an OSError into a StoreError that names the file and says what to do."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise StoreError(f"cannot {doing} {path}: {reason}", hint=_HINTS.get(error.errno or 0)) from error


def sync(descriptor: int, path: Path) -> None:
    """Return when the file or folder is on disk. Raises FsyncFailed."""
    try:
        # On macOS fsync leaves the data in the drive's own cache; F_FULLFSYNC does not.
        if hasattr(fcntl, "F_FULLFSYNC"):
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
        else:
            os.fsync(descriptor)
    except OSError as error:
        raise FsyncFailed(f"cannot write {path} to disk: {error.strerror}", hint="stop and check the disk") from error


def revision(status: os.stat_result) -> str:
    """Return a value that changes with a file, without reading it: its inode, size and time."""
    return f"{status.st_ino}-{status.st_size}-{status.st_mtime_ns}"


class Folder:
    """An open folder. A context manager; `path` is for messages only."""

    def __init__(self, descriptor: int, path: Path) -> None:
        self.descriptor = descriptor
        self.path = path

    @classmethod
    def open_root(cls, path: Path, *, create: bool = False) -> Folder | None:
        """Open the folder at a path; create it with its parents on request, else return None if it does not exist."""
        with file_errors(path, "open"):
            if create and not path.is_dir():
                for missing in reversed([folder for folder in (path, *path.parents) if not folder.exists()]):
                    with contextlib.suppress(FileExistsError):
                        missing.mkdir(mode=0o700)
                    _sync_path(missing.parent)
            try:
                return cls(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), path)
            except FileNotFoundError:
                return None

    def child(self, name: str, *, create: bool = False) -> Folder | None:
        """Open a subfolder; create it on request, else return None if it does not exist. Raises StoreError for a
        link."""
        path = self.path / name
        with file_errors(path, "open"):
            for _ in range(3):
                try:
                    return Folder(os.open(name, _DIRECTORY, dir_fd=self.descriptor), path)
                except FileNotFoundError:
                    if not create:
                        return None
                except NotADirectoryError:
                    self._refuse_link(name)
                    raise
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, 0o700, dir_fd=self.descriptor)
                    self.flush()
            raise FileNotFoundError(errno.ENOENT, "it disappears as soon as it is created")

    def _refuse_link(self, name: str) -> None:
        found = os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)
        if stat.S_ISLNK(found.st_mode):
            raise OSError(errno.ELOOP, "it is a symbolic link")

    def names(self) -> list[str]:
        """Return the names in the folder, sorted, without temporary files and folders being deleted."""
        with file_errors(self.path, "list"):
            return sorted(name for name in self._names() if _PARTIAL not in name)

    def _names(self) -> list[str]:
        return os.listdir(self.descriptor)  # noqa: PTH208 - by descriptor, so that no renamed parent matters

    def status(self, name: str) -> os.stat_result | None:
        """Return a file's status (of a link its own); None if it does not exist."""
        with file_errors(self.path / name, "look at"):
            try:
                return os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)
            except FileNotFoundError:
                return None

    @contextlib.contextmanager
    def open_file(self, name: str, flags: int = _READ) -> Iterator[int | None]:
        """Yield a descriptor of a regular file, or None if it does not exist. Raises StoreError for anything else."""
        path = self.path / name
        with file_errors(path, "open"):
            try:
                descriptor = os.open(
                    name, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o600, dir_fd=self.descriptor
                )
            except FileNotFoundError:
                descriptor = None
        if descriptor is None:
            yield None
            return
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise StoreError(f"cannot read {path}: it is not a regular file", hint="move it away")
            yield descriptor
        finally:
            os.close(descriptor)

    def read(self, name: str) -> bytes | None:
        """Return a file's bytes, or None if it does not exist."""
        with self.open_file(name) as descriptor:
            if descriptor is None:
                return None
            with file_errors(self.path / name, "read"):
                return read_all(descriptor)

    def replace(self, name: str, data: bytes, known: bytes | None) -> bool:
        """Replace a file that still has the content `known`; otherwise return False and its actual content.

        The new file is on disk before it takes the name. An editor or a shell, which takes no lock, may write between
        the last check and the rename: POSIX has no rename that compares. So the old file is checked once more
        afterwards, and restored if it has changed.
        """
        path, partial = self.path / name, self.stage(name, data)
        try:
            # Checked after our file is on disk, which takes a while: an editor may replace the file meanwhile.
            with self.open_file(name) as old:
                if _content(old, path) != known:
                    self.unlink(partial)
                    return False
                self.publish(partial, name)
                since = _content(old, path)
        except BaseException:
            self.discard(partial)
            raise
        if since is not None and since != known:
            self.publish(self.stage(name, since), name)
        self.flush()
        return since == known

    def stage(self, name: str, data: bytes) -> str:
        """Write the data of a file to disk under a temporary name, and return that. Leaves nothing after a failure."""
        partial = f".{name}{_PARTIAL}{secrets.token_hex(4)}"
        path = self.path / name
        try:
            with self.open_file(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as descriptor:
                assert descriptor is not None
                with file_errors(path, "write"):
                    write_all(descriptor, data)
                sync(descriptor, path)
        except BaseException:
            self.discard(partial)
            raise
        return partial

    def publish(self, partial: str, name: str) -> None:
        """Give a staged file its name, also in place of another one. It is on disk after `flush`."""
        with file_errors(self.path / name, "write"):
            os.replace(partial, name, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)

    def discard(self, name: str) -> None:
        """Delete a file that was never published; errors are ignored."""
        with contextlib.suppress(StoreError):
            self.unlink(name)

    def staged_files(self) -> dict[str, str]:
        """Return the temporary files of killed writers, with their intended names. Requires the folder's lock."""
        with file_errors(self.path, "list"):
            return {name: match[1] for name in self._names() if (match := _STAGED.fullmatch(name))}

    def write(self, name: str, data: bytes) -> None:
        """Write a file that only the holder of the folder's lock writes; it is on disk on return."""
        self.publish(self.stage(name, data), name)
        self.flush()

    def flush(self) -> None:
        """Return when the names of the folder are on disk. Raises FsyncFailed."""
        sync(self.descriptor, self.path)

    def settle(self, name: str) -> None:
        """Return when a file and its name are on disk, whichever process wrote it."""
        with self.open_file(name) as descriptor:
            if descriptor is not None:
                sync(descriptor, self.path / name)
        self.flush()

    def interrupted_deletions(self) -> list[str]:
        """Return the folders in it whose deletion has begun."""
        with file_errors(self.path, "list"):
            return [name for name in self._names() if _DELETED.fullmatch(name)]

    def unlink(self, name: str) -> None:
        """Delete a file if it exists."""
        with file_errors(self.path / name, "delete"), contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self.descriptor)

    def sweep(self) -> None:
        """Delete temporary files of killed writers. Requires the folder's lock."""
        for name in self.staged_files():
            self.unlink(name)

    def close(self) -> None:
        """Close the folder."""
        os.close(self.descriptor)

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _content(descriptor: int | None, path: Path) -> bytes | None:
    """Read an open file from its beginning; None if there is none."""
    if descriptor is None:
        return None
    with file_errors(path, "read"):
        return read_all(descriptor)


def read_all(descriptor: int, start: int = 0) -> bytes:
    """Read from `start` to the end of the file."""
    pieces, at = [], start
    while piece := os.pread(descriptor, 1 << 20, at):
        pieces.append(piece)
        at += len(piece)
    return b"".join(pieces)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of `data`, in as many calls as needed."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _sync_path(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        sync(descriptor, path)
    finally:
        os.close(descriptor)
