"""Checks that a folder can be written to, without writing."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def unwritable(path: Path) -> str | None:
    """Return why a folder cannot be written to or created; None if it can."""
    there = path
    while not os.path.lexists(there) and there != there.parent:
        there = there.parent
    try:
        found = there.stat()
    except OSError as error:
        return f"it cannot be inspected: {error.strerror}"
    if not stat.S_ISDIR(found.st_mode):
        return "there is a file in its place" if there == path else f"{there} is not a folder"
    # access(2) uses the effective user here, and takes into account read-only mounts and root's permissions.
    kind = {"effective_ids": True} if os.access in os.supports_effective_ids else {}
    if not os.access(there, os.W_OK | os.X_OK | (os.R_OK if there == path else 0), **kind):
        where = "it" if there == path else str(there)
        return f"{where} is not writable for the user that runs this, or its file system is mounted read-only"
    free = os.statvfs(there)
    if free.f_blocks and not free.f_bavail:
        return "its disk is full"
    return None
