"""The root: the folder that contains `.symbi/`, the state of one program. It is found as git finds `.git`."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shlex
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dslc import files
from runtime.daemon.process import root_registry
from runtime.daemon.process.atomic_file import sync_folder, write_atomically
from runtime.daemon.process.root_owner import as_owner, placed_by_superuser
from runtime.errors import UsageError

STATE = ".symbi"
DATABASE_FILE = "symbiont.db"
DAEMON_FILE = "daemon.json"
"""Owner of the root: `pid`, the admin `socket`, and `command` if it is not `symbi up`."""
PROGRAM_FILE = "program.json"
"""Arguments of the last start of a daemon: `paths`, `database` with its `database_id`, and the reference of
`master_key`; and the groups of `tools` that its program has."""
LAST_PROGRAM_FILE = "last-program.sealed"
"""The program that ran last: see `runtime.daemon.program.last_program`."""
COMPACTED_FILE = "compacted.json"
"""Time of the last compaction of each memory, in Unix seconds, by the identity of its store."""
PROVEN_FILE = "proven-keys.json"
"""The URLs of key documents with which deliveries were verified."""
MEMORIES_FILE = "memories.json"
"""Identities of the stores of memories whose `folders` had items."""
APPROVALS_FILE = "mcp-approvals.json"
"""Approvals of MCP servers by a person: see `runtime.tool_servers.approvals`."""
INDEXES = "index"
"""Folder of the state folder with the search indexes: derived, and rebuilt if missing."""
TABLES = "tables"
"""Folder of the state folder with the SQL tables of users."""
LOCK = "lock"
OWN_SECONDS = 30
"""Seconds for which a process waits for a command that uses the same root."""
_NETWORK_FILESYSTEMS = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre", "gpfs", "beegfs", "fuse.sshfs"}
)


@dataclass(frozen=True, slots=True)
class Root:
    """A folder with a `.symbi/` that this user created. `is_foreign`: it is from elsewhere, and a person named it to be
    adopted, see `adopting`."""

    folder: Path
    is_foreign: bool = False

    @property
    def state(self) -> Path:
        """`.symbi/`: database, keys, indexes, lock."""
        return self.folder / STATE

    @property
    def identity(self) -> str:
        """The root's random identity, which no copy shares; "" if it has none yet."""
        found = root_registry.identity(self.state)
        return found.id if found else ""

    def read(self, name: str) -> dict[str, Any]:
        """Return the JSON object in `.symbi/NAME`; empty if it is missing or incomplete."""
        try:
            # The superuser reads it before it takes on the rights of the root's user.
            descriptor = os.open(self.state / name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            with open(descriptor, "rb") as file:  # noqa: PTH123 - it is a descriptor
                content = json.loads(file.read())
        except (OSError, ValueError):
            return {}
        return content if isinstance(content, dict) else {}

    def traces(self) -> list[str]:
        """Return the names in `.symbi/` that are written only when the root has a database; empty for a new root, also
        if its first start was interrupted."""
        names = (PROGRAM_FILE, LAST_PROGRAM_FILE, COMPACTED_FILE, MEMORIES_FILE, APPROVALS_FILE, INDEXES, TABLES)
        paths = [self.state / name for name in names]
        # An empty folder may have been made by a person, as a place for a disk of its own.
        return [path.name for path in paths if (any(path.iterdir()) if path.is_dir() else path.exists())]

    def write(self, name: str, content: Mapping[str, Any]) -> None:
        """Replace `.symbi/NAME` atomically."""
        write_atomically(self.state / name, json.dumps(content, indent=2).encode() + b"\n")

    def socket(self) -> str | None:
        """The admin socket of the process that owns this root; None if no process does, whatever `daemon.json`
        contains."""
        address = self.read(DAEMON_FILE).get("socket")
        return address if isinstance(address, str) and is_owned(self) else None


def has_program(root: Root) -> bool:
    """True if the root ran a program, or has one in its folder. Raises OSError if that cannot be read."""
    return bool(root.read(PROGRAM_FILE).get("paths") or files.find([root.folder]))


class ForeignRoot(UsageError):  # noqa: N818 - it is the state of the folder
    """The folder has a `.symbi` that this user did not create there, so none of its content is trusted."""

    def __init__(self, root: Root) -> None:
        found = root_registry.identity(root.state)
        # The path in the file is untrusted, so it is shown only if it has no control characters.
        printable = found is not None and found.path.isprintable() and found.path != str(root.folder.resolve())
        before = f" but in {found.path}" if found and printable else ""
        super().__init__(
            f"{root.state} was not created there by this user{before}: it came with a clone or a copy, or was moved",
            hint=f"if you trust the content of that folder: symbi up --root {shlex.quote(str(root.folder))}",
        )


def locate(
    start: Path, environ: Mapping[str, str], explicit: Path | None = None, *, adopt: bool = False
) -> Root | None:
    """Return the root for a command started in `start`, or None.

    `explicit` (`--root`), then SYMBIONT_ROOT, then systemd's STATE_DIRECTORY name it; otherwise it is the first folder
    upward that contains `.symbi/`, stopping at $HOME and at a folder of another owner. `adopt`: one that is foreign is
    returned, as such, if it is named by `explicit` or by an absolute path in SYMBIONT_ROOT. Raises ForeignRoot, and
    UsageError if it is another user's.
    """
    folder = named_folder(environ, explicit)
    if folder is not None:
        if not _is_there(folder):
            return None
        try:
            return _verify(Root(folder), environ)
        except ForeignRoot:
            if not adopt or not (explicit or environ.get("SYMBIONT_ROOT", "").startswith("/")):
                raise
            return Root(folder, is_foreign=True)
    home = Path(environ["HOME"]).resolve() if environ.get("HOME") else None
    for folder in (start.resolve(), *start.resolve().parents):
        if folder.stat().st_uid != os.geteuid():
            return None
        if _is_there(folder):
            return _verify(Root(folder), environ)
        if folder == home:
            return None
    return None


def _is_there(folder: Path) -> bool:
    return (folder / STATE).is_dir() or (folder / STATE).is_symlink()


def _verify(root: Root, environ: Mapping[str, str]) -> Root:
    """Return `root` if this user created it on this machine. Raises ForeignRoot, UsageError."""
    state = root.state.lstat()
    if stat.S_ISLNK(state.st_mode):
        raise UsageError(
            f"{root.state} is a symbolic link: the owner of its target is unknown",
            hint="name the folder that holds the real .symbi with --root",
        )
    user = os.geteuid()
    if state.st_uid != user and (user != 0 or not _is_a_services(root, environ)):
        raise UsageError(
            f"{root.state} belongs to another user (uid {state.st_uid})",
            hint="run as that user" + (f": setpriv --reuid {state.st_uid} --clear-groups symbi …" if user == 0 else ""),
        )
    if (
        state.st_uid == user
        and not _is_systemds(root, environ)
        and not root_registry.knows(root.folder, root.state, environ)
    ):
        raise ForeignRoot(root)
    return root


def _is_systemds(root: Root, environ: Mapping[str, str]) -> bool:
    """Return True if systemd named the folder, which it creates for this user only."""
    folder = environ.get("STATE_DIRECTORY", "").partition(":")[0]
    return folder.startswith("/") and Path(folder).resolve() == root.folder.resolve()


def _is_a_services(root: Root, environ: Mapping[str, str]) -> bool:
    """Return True if the superuser may use another user's root: a service created it in a folder of the superuser.

    Only the superuser can read the registry of such a service, which detects copies elsewhere.
    """
    found = root_registry.identity(root.state)
    made_there = found is not None and found.path == str(root.folder.resolve())
    return _is_systemds(root, environ) or (made_there and placed_by_superuser(root.folder))


def named_folder(environ: Mapping[str, str], explicit: Path | None = None) -> Path | None:
    """Return the folder that `--root` or the environment names, root or not; None if neither is set."""
    given = explicit or environ.get("SYMBIONT_ROOT") or environ.get("STATE_DIRECTORY", "").partition(":")[0]
    return Path(given).absolute() if given else None


def is_new(start: Path, environ: Mapping[str, str], explicit: Path | None = None) -> bool:
    """True if `make` would create a root. Raises UsageError."""
    try:
        return locate(start, environ, explicit) is None
    except ForeignRoot:
        return False


def make(start: Path, environ: Mapping[str, str], explicit: Path | None = None, *, adopt: bool = False) -> Root:
    """The root that `locate` finds, or a new one in the named or current folder.

    Raises ForeignRoot, and UsageError if it is another user's, not writable, or on a network filesystem.
    """
    root = locate(start, environ, explicit, adopt=adopt)
    folder = root.folder if root else (named_folder(environ, explicit) or start).absolute()
    _refuse_network(folder)
    try:
        if root is None:
            root = _create(folder, start, environ, explicit)
        owner = root.state.stat()
        if owner.st_uid != os.geteuid():
            raise UsageError(f"{root.state} belongs to another user (uid {owner.st_uid})", hint="run as that user")
        if stat.S_IMODE(owner.st_mode) & 0o077:
            root.state.chmod(0o700)
        _probe(root.state)
    except OSError as error:
        what = (error.strerror or "cannot be used").lower()
        raise UsageError(f"the root {folder} cannot be used: {what}", hint="choose another with --root") from None
    return replace(root, is_foreign=root.is_foreign or _is_elsewhere(root))


def _create(folder: Path, start: Path, environ: Mapping[str, str], explicit: Path | None) -> Root:
    """Create a root, atomically, with its identity. Its folder is created if it is missing.

    Raises OSError, UsageError.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    root = Root(folder)
    systemds = _is_systemds(root, environ)
    with nullcontext() if systemds else root_registry.lock(environ):
        # Another process may have created it in the meantime.
        found = locate(start, environ, explicit)
        if found is not None:
            return found
        state = Path(tempfile.mkdtemp(prefix=f"{STATE}-", dir=folder))
        try:
            # Keys and identity are private; a repository that contains the root must not include them.
            (state / ".gitignore").write_text("*\n")
            root_registry.identify(folder, state, environ, entered=not systemds)
            state.rename(root.state)
        except BaseException:
            shutil.rmtree(state, ignore_errors=True)
            raise
        sync_folder(folder)
    return root


def _is_elsewhere(root: Root) -> bool:
    """Return True if the root has no record of its creation here but is not foreign: systemd's folder was restored."""
    found = root_registry.identity(root.state)
    return found is None or found.path != str(root.folder.resolve())


@contextmanager
def adopting(root: Root, environ: Mapping[str, str]) -> Iterator[None]:
    """Turn a foreign root, which this process owns, into one of this user after the block, which opens its state. After
    an exception it is as foreign as before.

    Its daemon file, which is of another root, is removed. Raises UsageError.
    """
    if not root.is_foreign:
        yield
        return
    database = root.state / DATABASE_FILE
    if database.exists() and database.stat().st_nlink > 1:
        raise UsageError(
            f"{database} has a second hard link, through which another root may write to it",
            hint="copy it: cp --remove-destination",
        )
    yield
    import structlog

    try:
        (root.state / DAEMON_FILE).unlink(missing_ok=True)
        root_registry.identify(root.folder, root.state, environ, entered=not _is_systemds(root, environ))
    except OSError as error:
        raise UsageError(f"the root {root.folder} cannot be adopted: {(error.strerror or 'unknown').lower()}") from None
    structlog.get_logger("symbiont.daemon").info("root_adopted", root=str(root.folder))


def _probe(folder: Path) -> None:
    """Raise OSError if no file can be created in `folder`, so that it does not fail at the first delivery."""
    probe = folder / f".probe-{secrets.token_hex(4)}"
    os.close(os.open(probe, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    probe.unlink()


def _refuse_network(folder: Path) -> None:
    """Raise UsageError for a network filesystem: SQLite's WAL and flock are unreliable there (sqlite.org/wal.html)."""
    kind = filesystem(folder, Path("/proc/self/mountinfo"))
    if kind in _NETWORK_FILESYSTEMS:
        raise UsageError(
            f"the root {folder} is on a network filesystem ({kind}), where locks and the database are not safe",
            hint="choose a local folder with --root",
        )


def filesystem(folder: Path, mountinfo: Path) -> str:
    """Return the type of the filesystem of `folder` (proc(5), mountinfo); "" if unknown."""
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
def own(root: Root, *, seconds: float = OWN_SECONDS) -> Iterator[None]:
    """Hold `.symbi/lock` while inside; the superuser, with the rights of the root's user.

    Raises `RootInUse`: at once if a daemon has it, after `seconds` if a command has it, which needs it only briefly.
    """
    with as_owner(root.state):
        descriptor = os.open(root.state / LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            if not _lock(descriptor, root, time.monotonic() + seconds):
                recorded = root.read(DAEMON_FILE)
                pid, command = recorded.get("pid"), recorded.get("command")
                what = f"`{command}`" if command else "a daemon"
                who = f"{what} (process {pid})" if pid else "another process"
                owned = RootInUse(
                    f"the root {root.folder} is in use by {who}", hint="stop it, or choose another --root"
                )
                # A command ends by itself.
                owned.may_pass = not _daemon_lives(root)
                raise owned
            yield
        finally:
            os.close(descriptor)


def is_owned(root: Root) -> bool:
    """Return True if a process owns the root now. Concurrent checks do not disturb each other."""
    try:
        descriptor = os.open(root.state / LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


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
    """Return True if `daemon.json` names a running process: a killed daemon leaves its file behind."""
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


class RootInUse(UsageError):  # noqa: N818 - it is the state of the root
    """Another process has the root's lock."""
