"""A folder that is opened to other users in this process alone, whatever the folders above it allow.

systemd keeps the state of a service with a dynamic user below a folder that only root may enter, and shows it to the
service in a mount namespace of its own. So does this module for a command of the superuser, because a capability that
opens the folders above would also open every file that a symbolic link of the service's user points to.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

_NEW_NAMESPACE = 0x00020000
_BIND, _RECURSIVE, _PRIVATE = 4096, 16384, 1 << 18


def closed_above(folder: Path, user: int, group: int) -> Path | None:
    """Return the first folder from `/` above the resolved `folder` that this user may not enter; None if there is
    none."""
    for above in reversed(folder.parents):
        status = above.stat()
        may = status.st_mode >> (6 if status.st_uid == user else 3 if status.st_gid == group else 0)
        if not may & 0o001:
            return above
    return None


def open_folder(folder: Path, closed: Path) -> None:
    """Put an empty folder, which everyone may enter, in place of `closed`, with `folder` alone in it, for this process
    and its children. Raises OSError, for instance without the capability to mount."""
    libc = ctypes.CDLL(None, use_errno=True)
    _check(libc.unshare(_NEW_NAMESPACE))
    _mount(libc, b"none", b"/", None, _RECURSIVE | _PRIVATE, None)
    # In the new namespace: a folder of another one cannot be put anywhere.
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _mount(libc, b"tmpfs", bytes(closed), b"tmpfs", 0, b"mode=755,size=64k")
        mask = os.umask(0o022)
        try:
            folder.mkdir(parents=True)
        finally:
            os.umask(mask)
        _mount(libc, f"/proc/self/fd/{descriptor}".encode(), bytes(folder), None, _BIND | _RECURSIVE, None)
    finally:
        os.close(descriptor)


def _mount(libc: ctypes.CDLL, source: bytes, target: bytes, kind: bytes | None, flags: int, data: bytes | None) -> None:
    _check(libc.mount(source, target, kind, ctypes.c_ulong(flags), data))


def _check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
