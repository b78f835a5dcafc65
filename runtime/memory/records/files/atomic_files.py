"""Writes several files as one: each is brought to disk under a temporary name, then all are renamed."""

from __future__ import annotations

import contextlib
import os
import re
import secrets

from runtime.memory.errors import StoreError
from runtime.memory.files.folder import Folder, naming, sync, write_all

_STAGED = re.compile(r"\.([A-Za-z0-9_.-]+\.json)~[0-9a-f]{8}")


def stage(folder: Folder, name: str, data: bytes) -> str:
    """Write `data` for the file `name` to disk; return its temporary name. Leaves nothing after a failure."""
    partial = f".{name}~{secrets.token_hex(4)}"
    try:
        with folder.opened(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as descriptor:
            assert descriptor is not None
            with naming(folder.path / name, "write"):
                write_all(descriptor, data)
            sync(descriptor, folder.path / name)
    except BaseException:
        discard(folder, partial)
        raise
    return partial


def publish(folder: Folder, partial: str, name: str) -> None:
    """Rename a staged file to its name. The caller holds the folder's lock and syncs the folder afterwards."""
    with naming(folder.path / name, "write"):
        os.rename(partial, name, src_dir_fd=folder.descriptor, dst_dir_fd=folder.descriptor)


def discard(folder: Folder, name: str) -> None:
    """Delete a staged file that was never published; errors are ignored."""
    with contextlib.suppress(StoreError):
        folder.unlink(name)


def staged(folder: Folder) -> dict[str, str]:
    """Return the temporary files of a killed writer, with their intended names."""
    with naming(folder.path, "list"):
        names = os.listdir(folder.descriptor)  # noqa: PTH208 - by descriptor
    return {name: match[1] for name in names if (match := _STAGED.fullmatch(name))}


def flush(folder: Folder) -> None:
    """Bring the names of a folder to disk. Raises FsyncFailed."""
    sync(folder.descriptor, folder.path)
