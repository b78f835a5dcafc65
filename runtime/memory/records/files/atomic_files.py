"""Writing several files as one: each is brought to disk under a name of no meaning, then each takes its own."""

from __future__ import annotations

import contextlib
import os
import re
import secrets

from runtime.memory.errors import StoreError
from runtime.memory.files.folder import Folder, naming, sync, write_all

_STAGED = re.compile(r"\.([A-Za-z0-9_.-]+\.json)~[0-9a-f]{8}")


def stage(folder: Folder, name: str, data: bytes) -> str:
    """Bring `data` to disk for the file `name`; the temporary name it has meanwhile. Leaves nothing when it fails."""
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
    """Give a staged file its name. The caller holds the folder's lock and brings the folder to disk afterwards."""
    with naming(folder.path / name, "write"):
        os.rename(partial, name, src_dir_fd=folder.descriptor, dst_dir_fd=folder.descriptor)


def discard(folder: Folder, name: str) -> None:
    """Delete a file that nobody was told of, if that can be done."""
    with contextlib.suppress(StoreError):
        folder.unlink(name)


def staged(folder: Folder) -> dict[str, str]:
    """The temporary files that a killed writer left: the name each was to have, by the one it has."""
    with naming(folder.path, "list"):
        names = os.listdir(folder.descriptor)  # noqa: PTH208 - by descriptor
    return {name: match[1] for name in names if (match := _STAGED.fullmatch(name))}


def flush(folder: Folder) -> None:
    """Bring the names of a folder to disk. Raises FsyncFailed."""
    sync(folder.descriptor, folder.path)
