"""The root: the folder that holds `.symbi/`, where one program keeps its state. Found as git finds `.git`."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from runtime.errors import UsageError

STATE = ".symbi"
DATABASE_FILE = "symbiont.db"
DAEMON_FILE = "daemon.json"
"""Who owns the root: `pid`, the admin `socket`, and `command` where it is not `symbi up`."""
INDEXES = "index"
"""The folder of the state folder that holds what memories are searched by: derived, and made again when it is gone."""
_NETWORK_FILESYSTEMS = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre", "gpfs", "beegfs", "fuse.sshfs"}
)


@dataclass(frozen=True, slots=True)
class Root:
    """A folder with a `.symbi/` of our own."""

    folder: Path

    @property
    def state(self) -> Path:
        """`.symbi/`: database, keys, indexes, lock."""
        return self.folder / STATE

    def read(self, name: str) -> dict[str, Any]:
        """The JSON object in `.symbi/NAME`, or an empty one when there is none or it is torn."""
        try:
            content = json.loads((self.state / name).read_bytes())
        except (OSError, ValueError):
            return {}
        return content if isinstance(content, dict) else {}

    def write(self, name: str, content: Mapping[str, Any]) -> None:
        """Replace `.symbi/NAME` whole or not at all."""
        write_atomically(self.state / name, json.dumps(content, indent=2).encode() + b"\n")


def locate(start: Path, environ: Mapping[str, str], explicit: Path | None = None) -> Root | None:
    """The root that a command started in `start` means, or None when there is none.

    `explicit` (`--root`), then SYMBIONT_ROOT, then systemd's STATE_DIRECTORY name it; else the first folder upward
    that holds `.symbi/`, stopping at $HOME and at a folder of another owner.
    """
    folder = named(environ, explicit)
    if folder is not None:
        return Root(folder) if (folder / STATE).is_dir() else None
    home = Path(environ["HOME"]).resolve() if environ.get("HOME") else None
    for folder in (start.resolve(), *start.resolve().parents):
        if folder.stat().st_uid != os.geteuid():
            return None
        if (folder / STATE).is_dir():
            return Root(folder)
        if folder == home:
            return None
    return None


def named(environ: Mapping[str, str], explicit: Path | None = None) -> Path | None:
    """The folder that `--root` or the environment names, whether it holds a root or not; None when they name none."""
    given = explicit or environ.get("SYMBIONT_ROOT") or environ.get("STATE_DIRECTORY", "").partition(":")[0]
    return Path(given).absolute() if given else None


def make(start: Path, environ: Mapping[str, str], explicit: Path | None = None) -> Root:
    """The root for `symbi up`: the one `locate` finds, or a new one in the named or current folder.

    Raises UsageError when it is another user's, not writable, or on a network filesystem.
    """
    root = locate(start, environ, explicit)
    if root is None:
        root = Root((named(environ, explicit) or start).absolute())
    _refuse_network(root.folder)
    try:
        root.state.mkdir(mode=0o700, exist_ok=True)
        owner = root.state.stat()
        if owner.st_uid != os.geteuid():
            raise UsageError(f"{root.state} belongs to another user (uid {owner.st_uid})", hint="run as that user")
        if stat.S_IMODE(owner.st_mode) & 0o077:
            root.state.chmod(0o700)
        _probe(root.state)
    except OSError as error:
        what = (error.strerror or "cannot be used").lower()
        raise UsageError(f"the root {root.folder} cannot be used: {what}", hint="choose another with --root") from None
    return root


def _probe(folder: Path) -> None:
    """Raise OSError when `folder` takes no files: better now than at the first delivery."""
    probe = folder / f".probe-{secrets.token_hex(4)}"
    os.close(os.open(probe, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    probe.unlink()


def _refuse_network(folder: Path) -> None:
    """SQLite's WAL and flock are not to be trusted over a network (sqlite.org/wal.html)."""
    kind = filesystem(folder, Path("/proc/self/mountinfo"))
    if kind in _NETWORK_FILESYSTEMS:
        raise UsageError(
            f"the root {folder} is on a network filesystem ({kind}), where locks and the database are not safe",
            hint="choose a local folder with --root",
        )


def filesystem(folder: Path, mountinfo: Path) -> str:
    """The type of the filesystem that holds `folder` (proc(5), mountinfo), or "" where that can't be known."""
    try:
        lines = mountinfo.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return ""
    target, found, kind = folder.resolve(), -1, ""
    for line in lines:
        left, _, right = line.partition(" - ")
        point = Path(left.split(" ")[4].replace("\\040", " "))
        if target.is_relative_to(point) and len(point.parts) >= found:
            found, kind = len(point.parts), right.split(" ")[0]
    return kind


@contextmanager
def own(root: Root, *, seconds: float = 2) -> Iterator[None]:
    """Hold `.symbi/lock` while inside.

    Raises `Owned`: at once when a daemon holds it, after `seconds` when it is a command, which needs it for a moment.
    """
    descriptor = os.open(root.state / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        if not _lock(descriptor, root, time.monotonic() + seconds):
            recorded = root.read(DAEMON_FILE)
            pid, command = recorded.get("pid"), recorded.get("command")
            what = f"`{command}`" if command else "a daemon"
            who = f"{what} (process {pid})" if pid else "another process"
            raise Owned(f"the root {root.folder} is in use by {who}", hint="stop it, or choose another --root")
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, root: Root, end: float) -> bool:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if _daemon_lives(root) or time.monotonic() > end:
                return False
            time.sleep(0.05)
        else:
            return True


def _daemon_lives(root: Root) -> bool:
    """Whether `daemon.json` names a process that is there: a killed daemon leaves its file behind."""
    pid = root.read(DAEMON_FILE).get("pid")
    if not isinstance(pid, int) or pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


class Owned(UsageError):  # noqa: N818 - it is the state of the root
    """Another process holds the root's lock."""


def write_atomically(file: Path, content: bytes, *, mode: int = 0o600) -> None:
    """Replace `file` by `content`, as `replacing` does."""
    with replacing(file, mode=mode) as handle:
        handle.write(content)


@contextmanager
def replacing(file: Path, *, mode: int = 0o600) -> Iterator[BinaryIO]:
    """Replace `file` by what is written inside: temporary file, fsync, rename, folder fsync. A crash leaves the old or
    the new, an error inside the old."""
    temporary = file.with_name(f".{file.name[:100]}.{secrets.token_hex(4)}.tmp")
    descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, mode)
    try:
        with open(descriptor, "wb") as handle:  # noqa: PTH123 - it is a descriptor
            yield handle
            handle.flush()
            os.fsync(descriptor)
        temporary.replace(file)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    folder = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
