"""Commands of the superuser on another user's root, run with that user's rights, so that new files belong to the
user."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runtime.daemon.process.mount_namespace import closed_above, open_folder
from runtime.errors import UsageError


@contextmanager
def as_owner(state: Path) -> Iterator[None]:
    """Give the superuser the rights of the user who owns `state` inside the block; nothing changes for other users.

    Folders above that this user may not enter are opened in this process. Raises UsageError.
    """
    owner = state.lstat()
    if not stat.S_ISDIR(owner.st_mode):
        # Put there since the root was found.
        raise UsageError(f"{state} is no folder")
    if os.geteuid() != 0 or owner.st_uid == 0:
        yield
        return
    _open(state.parent.resolve(), owner)
    groups, group = os.getgroups(), os.getegid()
    try:
        os.setgroups([owner.st_gid])
        os.setegid(owner.st_gid)
        os.seteuid(owner.st_uid)
        # More modules of the program and of Python are loaded later.
        for file in (__file__, os.__file__):
            Path(file).open("rb").close()
    except OSError as error:
        _back(group, groups)
        what = f"{error.filename or ''} {(error.strerror or 'refused').lower()}".lstrip()
        raise UsageError(
            f"{state} belongs to the user {owner.st_uid}, with whose rights this program cannot run: {what}",
            hint="install it where every user may read it, such as /opt/symbiont",
        ) from None
    try:
        yield
    finally:
        _back(group, groups)


def _open(folder: Path, owner: os.stat_result) -> None:
    """Let the owner of a state enter the root's folder. Raises UsageError."""
    closed = closed_above(folder, owner.st_uid, owner.st_gid)
    if closed is None:
        return
    try:
        open_folder(folder, closed)
    except OSError as error:
        raise UsageError(
            f"{closed} is closed to the user {owner.st_uid}, to whom {folder} belongs, and it cannot be opened to this "
            f"command: {(error.strerror or 'refused').lower()}",
            hint="run the command with the right to mount (CAP_SYS_ADMIN)",
        ) from None


def _back(group: int, groups: list[int]) -> None:
    os.seteuid(0)
    os.setegid(group)
    os.setgroups(groups)


@contextmanager
def as_invoker() -> Iterator[None]:
    """Give the command the rights that it was started with inside the block, for paths given by the person who
    started it."""
    user, group = os.geteuid(), os.getegid()
    os.seteuid(os.getuid())
    os.setegid(os.getgid())
    try:
        yield
    finally:
        os.setegid(group)
        os.seteuid(user)


def is_for_another() -> bool:
    """Return True if this process has the rights of another user than the one who started it."""
    return os.geteuid() != os.getuid()


def placed_by_superuser(folder: Path) -> bool:
    """Return True if only the superuser could create `folder` there: all folders above it belong to the superuser."""
    above = [each.stat() for each in folder.resolve().parents]
    return all(each.st_uid == 0 and not each.st_mode & 0o022 for each in above)
